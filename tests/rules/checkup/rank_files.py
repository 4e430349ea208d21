"""The files of ranks, as `steps/rank_figures.py` writes them, for rules that compare ranks."""

from collections.abc import Callable, Sequence
from typing import Any

from trackside.capture.steps.rank_figures import digest_of

NUMBERS = [*range(16), *range(16, 301, 16)]
"""Of the training steps that are sampled."""
CHECKS = [0, 1, 2, *range(16, 301, 16)]
TENSORS = ("Net_a.weight", "Net_b.weight", "Net_norm.running_mean")


def of_ranks(
    num_ranks: int = 3,
    *,
    updates: Callable[[int, int], int] = lambda rank, number: number,
    hashes: Callable[[int, int, int], int] = lambda rank, number, place: 0,
    fingerprint: Callable[[int, int], int] = lambda rank, number: 1000 * rank + number,
    norm: Callable[[int, int], float] = lambda rank, number: 1.0 + number,
    rate: Callable[[int, int], float] = lambda rank, number: 0.1,
    own: Callable[[int], float] = lambda rank: 0.005,
    data: Callable[[int], float] = lambda rank: 0.0,
    cpu: Callable[[int], float] = lambda rank: 0.005,
    disk: Callable[[int], float] = lambda rank: 4096.0,
    network: Callable[[int], float] = lambda rank: 1e6,
    queued: Callable[[int], float] = lambda rank: 0.001,
    host: Callable[[int], str] = lambda rank: f"host-{rank}",
    seconds: float = 0.03,
    numbers: Sequence[int] = NUMBERS,
    facts: Callable[[int], dict[str, Any]] = lambda rank: {},
    roles: tuple[str, ...] = ("shared", "shared", "buffer"),
) -> list[dict[str, Any]]:
    """Of an ordinary DDP, but for what is given; `hashes` is added to what all ranks have.
    `seconds` is the time of a step."""
    return [
        {
            "worker": f"worker_{rank}",
            "num_workers": num_ranks,
            "host": host(rank),
            "rows": [],
            "facts": {
                "num_steps": 301,
                "num_updates": updates(rank, 301),
                "num_called": 301,
                "group": [*range(num_ranks)],
                "hardware": "cpu",
                **facts(rank),
            },
            "samples": [
                [
                    *(number, number, updates(rank, number)),
                    *(
                        seconds * number,
                        own(rank) * number,
                        data(rank) * number,
                        cpu(rank) * number,
                    ),
                    *(1.0, norm(rank, number), fingerprint(rank, number), [rate(rank, number)]),
                    *(disk(rank) * number, network(rank) * number, queued(rank) * number),
                ]
                for number in numbers
            ],
            "tensors": [
                [name, role, 256, "torch.float32"]
                for name, role in zip(TENSORS, roles, strict=True)
            ],
            **_checks(rank, updates, hashes, roles),
        }
        for rank in range(num_ranks)
    ]


def _checks(rank: int, updates: Any, hashes: Any, roles: tuple[str, ...]) -> dict[str, Any]:
    rows = {
        number: [
            7 * number + place + (rank if role == "buffer" else int(hashes(rank, number, place)))
            for place, role in enumerate(roles)
        ]
        for number in CHECKS
    }
    judged = {
        number: [value for value, role in zip(row, roles, strict=True) if role != "buffer"]
        for number, row in rows.items()
    }
    checks = [[n, n, updates(rank, n), digest_of(row)] for n, row in judged.items()]
    return {"checks": checks, "hashes": [[number, row] for number, row in rows.items()]}
