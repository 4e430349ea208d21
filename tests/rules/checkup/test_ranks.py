"""Ranks compared: which differ, in what, since when and why; and those that may differ."""

from pathlib import Path
from typing import Any

import pytest

from tests.rules.checkup.course import found
from tests.rules.checkup.rank_files import of_ranks
from trackside.capture.steps.common_steps import CommonSteps
from trackside.records.finding import Finding
from trackside.rules.checkup.checkup import Checkup
from trackside.rules.checkup.diagnosis import diagnose
from trackside.rules.checkup.ranks_use import ReplicasDiffer, SameDataOnRanks, SlowRank


def since(first: int, rank: int) -> Any:
    """All tensors of one rank differ from that step on."""
    return lambda of, number, place: of == rank and number >= first


def one(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


def test_one_tensor_of_one_rank_is_a_flipped_bit(tmp_path: Path):
    ranks = of_ranks(hashes=lambda rank, number, place: rank == 2 and place == 1 and number > 40)
    finding = one(found(ReplicasDiffer(), tmp_path, ranks=ranks))
    assert (finding.tensor, finding.worker, finding.step) == ("Net_b.weight", "worker_2", 48)
    assert "since training step 32 at the earliest" in finding.message
    assert "a flipped bit" in finding.message


CAUSES: dict[str, tuple[dict[str, Any], str]] = {
    "clipping": (
        {"norm": lambda rank, number: 0.5 if rank == 1 else 2.0, "hashes": since(1, 1)},
        "clipping on worker_1 alone",
    ),
    "rates": (
        {
            "rate": lambda rank, number: 0.1 if rank == 1 or number < 100 else 0.05,
            "hashes": since(100, 1),
        },
        "learning rates differ (worker_0 0.05, worker_1 0.1, worker_2 0.05)",
    ),
    "other weights": ({"hashes": since(0, 1)}, "start from different weights"),
    "past DDP": (
        {
            "facts": lambda rank: {"num_called": 0, "num_past": 301, "group": []},
            "norm": lambda rank, number: 1.0 + rank,
            "hashes": since(1, 1),
        },
        "the loop calls the module inside DistributedDataParallel",
    ),
    "no_sync around every update": (
        {
            "facts": lambda rank: {"num_unsynced": 301, "num_collectives": 0},
            "norm": lambda rank, number: 1.0 + rank,
            "hashes": since(1, 1),
        },
        "every update uses gradients of a forward under no_sync",
    ),
    "no_sync around the last small batch": (
        {
            "facts": lambda rank: {
                "num_unsynced": 301,
                "num_synced_too_early": 301,
                "num_collectives": 301,
            },
            "norm": lambda rank, number: 1.0 + rank,
            "hashes": since(1, 1),
        },
        "instead of the first",
    ),
    "a part": ({"hashes": since(33, 1)}, "a checkpoint loaded by one rank only"),
}


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_is_named_where_it_shows(name: str, tmp_path: Path):
    given, expected = CAUSES[name]
    finding = one(found(ReplicasDiffer(), tmp_path, ranks=of_ranks(**given)))
    assert expected in finding.message
    assert finding.worker == "worker_1"


def test_gradients_averaged_by_hand_prove_nothing_for_certain(tmp_path: Path):
    ranks = of_ranks(
        facts=lambda rank: {"num_called": 0, "group": []},
        roles=("own", "own", "buffer"),
        hashes=since(0, 1),
    )
    finding = one(found(Checkup(), tmp_path, ranks=ranks))
    assert "start from different weights" in finding.message
    (diagnosis,) = diagnose([finding])
    assert (diagnosis.cause, diagnosis.confidence) == ("AveragedRanksDiffer", "likely")


BY_HAND: dict[str, Any] = {
    "facts": lambda rank: {"num_called": 0, "group": [], "num_collectives": 300},
    "roles": ("own", "own", "buffer"),
    "norm": lambda rank, number: 1.0 + number + rank,
    "hashes": lambda rank, number, place: rank == 1 and number > 0 and place == 1,
}


def test_gradients_that_are_averaged_for_some_parameters_only(tmp_path: Path):
    finding = one(found(Checkup(), tmp_path / "a", ranks=of_ranks(**BY_HAND)))
    assert (finding.rule, finding.tensor) == ("AveragedRanksDiffer", "Net_b.weight")
    assert "1 parameters stay equal" in finding.message

    parallel = of_ranks(**BY_HAND, fingerprint=lambda rank, number: number)
    assert found(Checkup(), tmp_path / "b", ranks=parallel) == [], "shards of one model"
    begun = BY_HAND | {"hashes": lambda rank, number, place: rank == 1 and place == 1}
    assert found(Checkup(), tmp_path / "c", ranks=of_ranks(**begun)) == [], "experts"


def test_statistics_that_each_rank_keeps_for_itself(tmp_path: Path):
    ranks = of_ranks(facts=lambda rank: {"keeps_buffers": True})
    assert found(Checkup(), tmp_path / "a", ranks=ranks) == [], "nothing is evaluated"
    evaluated = {"evaluation": {"batch_size": 100}}
    assert found(Checkup(), tmp_path / "b", ranks=of_ranks(), **evaluated) == []
    finding = one(found(Checkup(), tmp_path / "c", ranks=ranks, **evaluated))
    assert "Net_norm.running_mean differ between the ranks" in finding.message
    (diagnosis,) = diagnose([finding])
    assert (diagnosis.cause, diagnosis.confidence) == ("BuffersNotShared", "possible")


def test_files_of_older_versions_have_no_figures_of_the_machine(tmp_path: Path):
    ranks = of_ranks(own=lambda rank: 0.02 if rank == 1 else 0.005)
    for rank in ranks:
        rank["samples"] = [row[:11] for row in rank["samples"]]
    assert "it is blocked" in one(found(SlowRank(), tmp_path, ranks=ranks)).message


def test_ranks_that_share_data_but_nothing_else(tmp_path: Path):
    ranks = of_ranks(
        facts=lambda rank: {"num_called": 0, "group": [], "num_collectives": 0},
        norm=lambda rank, number: 1.0 + rank,
        hashes=since(1, 1),
        roles=("own", "own", "buffer"),
    )
    loaders = [{"num_samples": 960, "num_trained": 300, "sampler": "DistributedSampler"}]
    split = found(ReplicasDiffer(), tmp_path / "a", ranks=ranks, anatomy={"loaders": loaders})
    finding = one(split)
    assert "the model is in no DDP" in finding.message
    assert found(ReplicasDiffer(), tmp_path / "b", ranks=ranks) == [], "each has its own data"


DIFFERENT_ON_PURPOSE: dict[str, dict[str, Any]] = {
    "shards": {"facts": lambda rank: {"is_sharded": True}, "hashes": since(0, 1)},
    "a communication hook": {"facts": lambda rank: {"has_hook": True}, "hashes": since(3, 1)},
    "join": {
        "facts": lambda rank: {"joins": True},
        "hashes": since(3, 1),
        "updates": lambda rank, number: number // (1 + rank),
    },
    "no_sync and weights that are averaged": {
        "facts": lambda rank: {"num_unsynced": 301, "num_collectives": 30},
        "hashes": since(3, 1),
    },
    "updates under no_sync": {"facts": lambda rank: {"num_unsynced": 9}, "hashes": since(3, 1)},
    "two groups": {
        "facts": lambda rank: {"group": [rank]},
        "hashes": since(0, 1),
        "fingerprint": lambda rank, number: number,
    },
    "local SGD, tensor parallel": {
        "facts": lambda rank: {"num_called": 0, "group": [], "num_collectives": 40},
        "norm": lambda rank, number: 1.0 + rank,
        "hashes": since(1, 1),
    },
    "other machines": {"facts": lambda rank: {"hardware": f"cpu {rank}"}, "hashes": since(40, 1)},
    "batch-norm statistics": {},
    "one batch by heart": {"fingerprint": lambda rank, number: number % 3},
    "some equal batches": {"fingerprint": lambda rank, number: number // (1 + rank)},
    "behind by one": {"updates": lambda rank, number: max(0, number - rank % 2)},
    "a little slower": {"own": lambda rank: 0.005 + 0.002 * rank},
}


@pytest.mark.parametrize("name", DIFFERENT_ON_PURPOSE)
def test_what_may_differ_is_left_alone(name: str, tmp_path: Path):
    assert found(Checkup(), tmp_path, ranks=of_ranks(**DIFFERENT_ON_PURPOSE[name])) == []


def test_two_of_four_ranks_with_the_same_data(tmp_path: Path):
    ranks = of_ranks(4, fingerprint=lambda rank, number: 1000 * (rank % 2) + number)
    finding = one(found(SameDataOnRanks(), tmp_path, ranks=ranks))
    assert finding.message.startswith("worker_0 and worker_2 (and 1 more pair of ranks) were given")


SLOW: dict[str, tuple[dict[str, Any], str]] = {
    "data": ({"data": lambda rank: 0.014 * (rank == 1)}, "waiting for its data loader"),
    "compute": ({"cpu": lambda rank: 0.02 if rank == 1 else 0.005}, "it computes more, 15 ms"),
    "blocked": ({}, "it is blocked"),
    "disk": ({"disk": lambda rank: 9e6 if rank == 1 else 4096.0}, "over its disk"),
    "network": ({"network": lambda rank: 9e6 if rank == 1 else 1e6}, "over the network of its"),
    "processor": ({"queued": lambda rank: 0.014 if rank == 1 else 0.001}, "has no processor"),
}


def test_a_slow_rank_of_a_training_that_is_sampled_rarely(tmp_path: Path):
    timed = [number for number in range(228) if number < 16 or CommonSteps.is_timed(number)]
    slow: dict[str, Any] = {"own": lambda rank: 0.02 if rank == 1 else 0.0005}
    ranks = of_ranks(2, **slow, numbers=timed)
    assert one(found(SlowRank(), tmp_path / "a", ranks=ranks)).worker == "worker_1"
    moments = of_ranks(2, **slow, numbers=timed, seconds=0.001)
    assert found(SlowRank(), tmp_path / "b", ranks=moments) == [], "a sixth of a second in all"


@pytest.mark.parametrize("name", SLOW)
def test_why_a_rank_is_slow(name: str, tmp_path: Path):
    given, expected = SLOW[name]
    ranks = of_ranks(own=lambda rank: 0.02 if rank == 1 else 0.005, **given)
    finding = one(found(SlowRank(), tmp_path, ranks=ranks))
    assert finding.worker == "worker_1"
    assert "worker_1 on host-1 takes 15 ms longer" in finding.message
    assert expected in finding.message


def test_a_rank_that_other_work_on_its_host_keeps_waiting_is_not_slow(tmp_path: Path):
    given: dict[str, Any] = {
        "own": lambda rank: 0.02 if rank == 1 else 0.005,
        "host": lambda rank: "algo-1",
    }
    waits: dict[str, Any] = {"queued": lambda rank: 0.014 if rank == 1 else 0.001}
    assert found(SlowRank(), tmp_path / "a", ranks=of_ranks(**given, **waits)) == []
    assert found(SlowRank(), tmp_path / "b", ranks=of_ranks(**given)), "blocked, on the same host"
