"""What watching costs: step time with a hook over step time without, in four modes.

Trainings of the same kind in one process take turns, block by block, in an order that is reversed
each round, so that all meet the same machine. A block is timed as a whole: what the writer thread
takes from training counts. A ratio is the median of the rounds' own ratios. The floor is what a
copy and one sequential write of the same bytes, or the bare reductions, cost in the same place.
The peer, smdebug 1.0.34, is measured in the same way in an environment of its own.
"""

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
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
PEER_ROUNDS = 2
_NO_TIME = 0.01
"""Milliseconds below which added time is not told from none."""


@dataclass(frozen=True, slots=True)
class Mode:
    title: str
    settings: dict[str, Any]
    limit: float
    """The most a step may cost, as a multiple of one without a hook."""
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
    ),
    "five": Mode(
        "five reductions of every weight and gradient, every step",
        {"include_collections": WATCHED, "every": 1, "five": True},
        1.05,
        peer_factor=20,
    ),
    "all": Mode(
        "everything with activations, raw, every step",
        {"save_all": True, "every": 1},
        1.3,
        floor_limit=1.5,
        peer_factor=3,
    ),
}


@dataclass(slots=True)
class Blocks:
    """Milliseconds a step of each block, by the clock, in the middle, and of processor time."""

    mean: list[float] = field(default_factory=list)
    median: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def run(self, step: Callable[[], None], count: int) -> None:
        times = []
        processor = time.process_time()
        for _ in range(count):
            started = time.perf_counter()
            step()
            times.append((time.perf_counter() - started) * 1000)
        self.processor.append((time.process_time() - processor) / count * 1000)
        self.mean.append(statistics.mean(times))
        self.median.append(statistics.median(times))


def run(quick: bool) -> list[Comparison]:
    peer = None if quick else smdebug_python()
    return [
        comparison
        for workload in WORKLOADS
        for mode in MODES
        for comparison in _compare(workload, mode, quick, peer)
    ]


def measure(
    workload: str,
    mode: str,
    rounds: int,
    block_seconds: float,
    make_hook: Callable[..., Any],
    with_floor: bool = False,
) -> dict[str, Any]:
    """Figures without and with the hook; also run by the peer's interpreter."""
    torch.set_num_threads(1)  # the second core is the writer's; two compute threads hide its cost
    plain_blocks, hooked_blocks, floor_blocks = Blocks(), Blocks(), Blocks()
    with tempfile.TemporaryDirectory() as name:
        out_dir = Path(name) / "trial"
        hook = make_hook(str(out_dir), MODES[mode].settings)
        plain, hooked = Training(workload), Training(workload, hook)
        for _ in range(4):
            plain.step()
            hooked.step()
        _wait_until_quiet(out_dir)
        count = _steps_per_block(plain, block_seconds)
        every = MODES[mode].settings.get("every", 0)
        floor = _floor(mode, plain, out_dir) if with_floor and every else None
        for turn in range(rounds):
            turns = [(plain, plain_blocks), (hooked, hooked_blocks)]
            for training, blocks in turns if turn % 2 == 0 else turns[::-1]:
                blocks.run(training.step, count)
                _wait_until_quiet(out_dir)
            if floor is not None:
                floor_blocks.run(floor.step, max(3, count // (every * 4)))
                floor.clear()
        hook.close()
    return {
        "steps": count,
        "plain": statistics.median(plain_blocks.mean),
        "floor": statistics.median(floor_blocks.mean) / every if floor is not None else None,
        **{
            which: _ratio(getattr(hooked_blocks, which), getattr(plain_blocks, which))
            for which in ("mean", "median", "processor")
        },
        "rounds": [h / p for h, p in zip(hooked_blocks.mean, plain_blocks.mean, strict=True)],
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

    return _make(Hook, ReductionConfig, SaveConfig, out_dir, settings)


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
    rounds, seconds = (2, 0.5) if quick else (6, 2.0)
    found = measure(workload, name, rounds, seconds, trackside_hook, with_floor=True)
    plain = found["plain"]
    steps = {"trackside": plain * found["mean"], "no hook": plain}
    added = {"trackside": max(_NO_TIME, plain * (found["mean"] - 1))}
    targets = []
    if found["floor"] is not None:
        added["floor"] = found["floor"]
        if mode.floor_limit is not None:
            targets.append(Target("floor", 1 / mode.floor_limit))
    if peer is not None:
        theirs = _measure_peer(peer, workload, name)
        steps[SMDEBUG] = plain * theirs["mean"]
        added[SMDEBUG] = max(_NO_TIME, theirs["plain"] * (theirs["mean"] - 1))
        if mode.peer_factor is not None:
            targets.append(Target(SMDEBUG, mode.peer_factor))
    notes = (
        f"Mean ratio {found['mean']:.3f} (rounds: {_list(found['rounds'])}; "
        f"{found['steps']} steps a block), median {found['median']:.3f}, "
        f"processor time of all threads {found['processor']:.3f}.",
    )
    title = f"{workload}: {mode.title}"
    limit = (Target("no hook", 1 / mode.limit),)
    comparisons = [Comparison(title, "ms a step", steps, targets=limit, notes=notes)]
    if len(added) > 1:
        comparisons.append(
            Comparison(f"{title}: added", "ms a step", added, targets=tuple(targets))
        )
    return comparisons


def _steps_per_block(training: Training, block_seconds: float) -> int:
    """Whole tens: a block holds as many saved steps as the next."""
    started = time.perf_counter()
    training.step()
    seconds = time.perf_counter() - started
    return max(10, round(block_seconds / seconds / 10) * 10)


def _ratio(hooked: list[float], plain: list[float]) -> float:
    return statistics.median(h / p for h, p in zip(hooked, plain, strict=True))


def _list(ratios: list[float]) -> str:
    return ", ".join(f"{ratio:.3f}" for ratio in ratios)


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
        f"print(json.dumps(measure({workload!r}, {mode!r}, {PEER_ROUNDS}, 1.0, smdebug_hook)))"
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
