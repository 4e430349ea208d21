"""Runs of the same training with all rules and without, in turn, and what the rules have added."""

import compileall
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.job_cost.measure import PHASES, Run, adopt_orphans, measure
from benchmarks.report import Comparison, Target

STEP_LIMIT = 1.03
"""Times the processor time of a step without rules, after the first 50."""
JOB_LIMIT = 1.0
"""Seconds of processor time that a job may take more, besides its later steps."""
STEPS = {"small CNN": 150, "ResNet-18": 80, "GPT 10 M": 80}
SHORT_JOB, SHORT_STEPS = "small MLP", 1500
ROUNDS, SHORT_ROUNDS = 4, 9
_RULES = ["--rule", "all"]
_SPANS = {
    "first line": "start of Python, with what waits for torch",
    "torch imported": "import of torch",
    "model made": "making model and optimizer",
    "first step": "first step: the hook is made",
    "first 50 steps": "the next 49 steps",
    "last step": "later steps",
    "end": "end",
}


@dataclass(frozen=True, slots=True)
class Pair:
    watched: Run
    plain: Run

    def added(self, figure: Callable[[Run], float]) -> float:
        return figure(self.watched) - figure(self.plain)


def run(quick: bool) -> Iterator[Comparison]:
    # An installed package is compiled; in a clone it may not be, where bytecode is not written.
    compileall.compile_dir(Path(__file__).parents[2] / "src", quiet=2)
    adopt_orphans()
    yield _job(list(_pairs(SHORT_JOB, SHORT_STEPS, 1 if quick else SHORT_ROUNDS)))
    for workload, num_steps in STEPS.items():
        steps = num_steps // 2 + 25 if quick else num_steps
        yield _step(workload, steps, list(_pairs(workload, steps, 1 if quick else ROUNDS)))


def _pairs(workload: str, num_steps: int, num_rounds: int) -> Iterator[Pair]:
    for number in range(num_rounds):
        # In an order that is reversed each round, so that both meet the same machine.
        order = (_RULES, []) if number % 2 else ([], _RULES)
        runs = {bool(options): measure(workload, num_steps, options) for options in order}
        yield Pair(runs[True], runs[False])


def _step(workload: str, num_steps: int, pairs: Sequence[Pair]) -> Comparison:
    ratios = [pair.watched.step / pair.plain.step for pair in pairs]
    plain = statistics.median(pair.plain.step for pair in pairs)
    ratio = statistics.median(ratios)
    walls = statistics.median(pair.watched.wall / pair.plain.wall for pair in pairs)
    besides = [_besides(pair) for pair in pairs]
    return Comparison(
        f"{workload}: a step after the first 50 with all rules, {num_steps} steps",
        "ms of processor time",
        {"trackside": plain * ratio * 1000, "no rules": plain * 1000},
        targets=(Target("no rules", 1 / STEP_LIMIT),),
        notes=(
            f"Median ratio {ratio:.3f} of {len(pairs)} pairs ({_spread(ratios)}); the limit is "
            f"{STEP_LIMIT}. Wall time of the whole job: {walls:.2f} times. Besides its later steps "
            f"the job took {statistics.median(besides):+.2f} s of processor time "
            f"({_spread(besides)}), in {_spread([pair.watched.wall for pair in pairs])} s.",
            "",
            *_rows(pairs),
        ),
    )


def _job(pairs: Sequence[Pair]) -> Comparison:
    besides = [_besides(pair) for pair in pairs]
    walls = [pair.watched.wall - pair.plain.wall for pair in pairs]
    return Comparison(
        f"{SHORT_JOB}, {SHORT_STEPS:,} steps: added to a job by all rules, besides its later steps",
        "seconds of processor time",
        {"trackside": statistics.median(besides), "allowed": JOB_LIMIT},
        targets=(Target("allowed", 1.0),),
        notes=(
            f"Median of {len(pairs)} pairs ({_spread(besides)}). Wall time: "
            f"{statistics.median(walls):+.1f} s ({_spread(walls)}).",
            "",
            *_rows(pairs),
        ),
    )


def _besides(pair: Pair) -> float:
    """What all rules have added to the job, but for the later steps of its training."""
    return pair.added(lambda each: each.total) - pair.added(lambda each: each.phases["last step"])


def _rows(pairs: Sequence[Pair]) -> list[str]:
    """What was added, by process and phase."""
    parts: dict[str, Callable[[Run], float]] = {
        f"training: {_SPANS[name]}": (lambda each, name=name: each.phases[name]) for name in PHASES
    }
    parts |= {
        "evaluator": lambda each: each.evaluator,
        "command": lambda each: each.command,
        "supervisor, sandbox, toolkit": lambda each: each.rest,
        "all": lambda each: each.total,
    }
    rows = ["| added by | seconds of processor time, median | least, most |", "|---|---:|---:|"]
    for name, figure in parts.items():
        added = [pair.added(figure) for pair in pairs]
        rows.append(f"| {name} | {statistics.median(added):+.3f} | {_spread(added)} |")
    return rows


def _spread(figures: Sequence[float]) -> str:
    return f"{min(figures):.3g} to {max(figures):.3g}"
