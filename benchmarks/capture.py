"""What watching costs: step time with a hook over step time without, in several modes.

Trainings of the same kind in one process take turns, block by block, in an order that is reversed
each round, so that all meet the same machine: its speed drifts by several per cent within seconds,
so blocks are short. A block is timed as a whole: what the writer thread takes from training counts.
A ratio is the median of the rounds' own ratios. The floor is what a copy and one sequential write
of the same bytes, or the bare reductions, cost in the same place.
The peer, smdebug 1.0.34, is measured in the same way in an environment of its own.
"""

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.floor import CopyAndWrite, Reduce
from benchmarks.report import Comparison, Target
from benchmarks.smdebug_peer import smdebug_environment, smdebug_python
from benchmarks.workloads import WORKLOADS, Training

WATCHED = ["weights", "biases", "gradients"]
FIVE = {"reductions": ["min", "max", "mean", "std"], "norms": ["l2"]}
SMDEBUG = "smdebug 1.0.34"
PEER_SECONDS = 8.0
FLOOR_ROUNDS = 6
MOST_ROUNDS = 200
_NO_TIME = 0.01
"""Milliseconds below which added time is not told from none."""


@dataclass(frozen=True, slots=True)
class Mode:
    title: str
    settings: dict[str, Any]
    limit: float
    """The most a step may cost, as a multiple of one without a hook."""
    block: int = 1
    """Steps in a row, a whole number of saved ones."""
    writes_much: bool = False
    """Whether the writer is given time to finish before the other training's turn."""
    floor_limit: float | None = None
    """The most it may add, as a multiple of the floor."""
    peer_factor: float | None = None
    """How many times more smdebug adds, at least."""


MODES = {
    "default": Mode("default (losses every 500 steps)", {}, 1.01),
    "raw10": Mode(
        "weights, gradients, losses every 10 steps, raw",
        {"include_collections": WATCHED, "every": 10},
        1.03,
        block=10,
        writes_much=True,
    ),
    "five": Mode(
        "five reductions of every weight and gradient, every step",
        {"include_collections": WATCHED, "every": 1, "five": True},
        1.05,
        peer_factor=20,
    ),
    "five alone": Mode(
        "the same five reductions with vitals off: smdebug has nothing like them",
        {"include_collections": WATCHED, "every": 1, "five": True, "vitals": "off"},
        1.05,
        peer_factor=20,
    ),
    "all": Mode(
        "everything with activations, raw, every step",
        {"save_all": True, "every": 1},
        1.3,
        block=5,
        writes_much=True,
        floor_limit=1.5,
        peer_factor=3,
    ),
}


@dataclass(slots=True)
class Blocks:
    """Milliseconds a step of each block, by the clock and of processor time of all threads."""

    mean: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def run(self, step: Callable[[], None], count: int) -> None:
        started, processor = time.perf_counter(), time.process_time()
        for _ in range(count):
            step()
        self.mean.append((time.perf_counter() - started) / count * 1000)
        self.processor.append((time.process_time() - processor) / count * 1000)


def run(quick: bool) -> Iterator[Comparison]:
    peer = None if quick else smdebug_python()
    for workload in WORKLOADS:
        for mode in MODES:
            yield from _compare(workload, mode, quick, peer)


def measure(
    workload: str,
    name: str,
    budget_seconds: float,
    make_hook: Callable[..., Any],
    with_floor: bool = False,
) -> dict[str, Any]:
    """Figures without and with the hook; also run by the peer's interpreter."""
    torch.set_num_threads(1)  # the second core is the writer's; two compute threads hide its cost
    mode = MODES[name]
    plain_blocks, hooked_blocks, floor_blocks = Blocks(), Blocks(), Blocks()
    with tempfile.TemporaryDirectory() as folder:
        out_dir = Path(folder) / "trial"
        hook = make_hook(str(out_dir), mode.settings)
        plain, hooked = Training(workload), Training(workload, hook)
        for _ in range(4):
            plain.step()
            hooked.step()
        _wait_until_quiet(out_dir)
        every = mode.settings.get("every", 0)
        floor = _floor(name, plain, out_dir) if with_floor and every else None
        rounds = _rounds(plain, mode.block, budget_seconds)
        for turn in range(rounds):
            turns = [(plain, plain_blocks), (hooked, hooked_blocks)]
            for training, blocks in turns if turn % 2 == 0 else turns[::-1]:
                blocks.run(training.step, mode.block)
                if mode.writes_much:
                    _wait_until_quiet(out_dir)
            if floor is not None and turn < FLOOR_ROUNDS:
                floor_blocks.run(floor.step, 3)
                floor.clear()
        hook.close()
    ratios = [h / p for h, p in zip(hooked_blocks.mean, plain_blocks.mean, strict=True)]
    return {
        "rounds": rounds,
        "plain": statistics.median(plain_blocks.mean),
        "floor": statistics.median(floor_blocks.mean) / every if floor is not None else None,
        "ratio": statistics.median(ratios),
        "quarters": statistics.quantiles(ratios, n=4)[::2],
        "processor": _ratio(hooked_blocks.processor, plain_blocks.processor),
    }


def _floor(mode: str, plain: Training, out_dir: Path) -> Reduce | CopyAndWrite:
    if "five" in MODES[mode].settings:
        return Reduce(plain.model)
    from trackside.capture.trial import create_trial

    trial = create_trial(out_dir, home=out_dir)
    trial.wait_for_steps([0])
    saved = len(trial.steps(show_incomplete_steps=True))
    return CopyAndWrite(out_dir.with_name("floor"), _size_bytes(out_dir / "segments") // saved)


def trackside_hook(out_dir: str, settings: dict[str, Any]) -> Any:
    from trackside.capture import Hook, ReductionConfig, SaveConfig

    hook = partial(Hook, vitals=settings.get("vitals", "on"))
    return _make(hook, ReductionConfig, SaveConfig, out_dir, settings)


def smdebug_hook(out_dir: str, settings: dict[str, Any]) -> Any:
    from smdebug.pytorch import Hook, ReductionConfig, SaveConfig  # type: ignore[import-not-found]

    return _make(Hook, ReductionConfig, SaveConfig, out_dir, settings)


def _make(hook: Any, reduction: Any, save: Any, out_dir: str, settings: dict[str, Any]) -> Any:
    return hook(
        out_dir=out_dir,
        include_collections=settings.get("include_collections"),
        save_all=settings.get("save_all", False),
        save_config=save(save_interval=settings["every"]) if "every" in settings else None,
        reduction_config=reduction(**FIVE) if "five" in settings else None,
    )


def _compare(workload: str, name: str, quick: bool, peer: Path | None) -> list[Comparison]:
    mode = MODES[name]
    seconds = 1.0 if quick else 25.0
    found = measure(workload, name, seconds, trackside_hook, with_floor=True)
    plain = found["plain"]
    steps = {"trackside": plain * found["ratio"], "no hook": plain}
    added = {"trackside": max(_NO_TIME, plain * (found["ratio"] - 1))}
    targets = []
    if found["floor"] is not None:
        added["floor"] = found["floor"]
        if mode.floor_limit is not None:
            targets.append(Target("floor", 1 / mode.floor_limit))
    if peer is not None:
        theirs = _measure_peer(peer, workload, name)
        steps[SMDEBUG] = plain * theirs["ratio"]
        added[SMDEBUG] = max(_NO_TIME, theirs["plain"] * (theirs["ratio"] - 1))
        if mode.peer_factor is not None:
            targets.append(Target(SMDEBUG, mode.peer_factor))
    low, high = found["quarters"]
    notes = (
        f"Ratio {found['ratio']:.3f}, half of {found['rounds']} rounds between {low:.3f} and "
        f"{high:.3f}; processor time of all threads {found['processor']:.3f}.",
    )
    title = f"{workload}: {mode.title}"
    limit = (Target("no hook", 1 / mode.limit),)
    comparisons = [Comparison(title, "ms a step", steps, targets=limit, notes=notes)]
    if len(added) > 1:
        comparisons.append(
            Comparison(f"{title}: added", "ms a step", added, targets=tuple(targets))
        )
    return comparisons


def _rounds(training: Training, block: int, budget_seconds: float) -> int:
    started = time.perf_counter()
    training.step()
    pair_seconds = 2 * block * (time.perf_counter() - started)
    return max(2, min(MOST_ROUNDS, round(budget_seconds / pair_seconds)))


def _ratio(hooked: list[float], plain: list[float]) -> float:
    return statistics.median(h / p for h, p in zip(hooked, plain, strict=True))


def _size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _wait_until_quiet(folder: Path) -> None:
    """What the writer still has to do is not the other training's to pay."""
    size, deadline = -1, time.monotonic() + 20
    while time.monotonic() < deadline:
        now = _size_bytes(folder)
        if now == size:
            return
        size = now
        time.sleep(0.3)


def _measure_peer(python: Path, workload: str, mode: str) -> dict[str, Any]:
    code = (
        "import json; from benchmarks.capture import measure, smdebug_hook; "
        f"print(json.dumps(measure({workload!r}, {mode!r}, {PEER_SECONDS}, smdebug_hook)))"
    )
    ended = subprocess.run(
        [str(python), "-c", code],
        cwd=Path(__file__).parents[1],
        env=smdebug_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    measured: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return measured
