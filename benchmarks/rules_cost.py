"""What rules cost a training: whole jobs of `trackside run --rule all`, in turn with the same job
without rules.

The script times itself, from its first steps to its last: capture, evaluator and all that shares
its cores are in the figure; the start of the job and the end of the rules are not.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path

from benchmarks.report import Comparison, Target

LIMIT = 1.05
CORES = 2
STEPS = {"small CNN": 400, "GPT 10 M": 60}
"""As many as take half a minute on two cores: the machine's speed drifts, so the jobs of a round
are close together. The first steps, which are saved most densely, weigh as they do in a short job.
"""
ROUNDS = 4
_QUICK = 25
_STEADY_MEMORY = (f"MALLOC_MMAP_THRESHOLD_={1 << 30}", f"MALLOC_TRIM_THRESHOLD_={1 << 34}")
"""Left to itself the C library gives pages back and takes them again at each step of some jobs and
not of others, with rules and without: 1.4 million page faults or 2.2, a tenth of the time."""
_SCRIPT = f"""\
import os, sys, time
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import torch
from benchmarks.workloads import Training

torch.set_num_threads({CORES})
training = Training(os.environ["WORKLOAD"])
for _ in range(3):  # torch itself warms up
    training.step()
started = time.perf_counter()
for _ in range(int(os.environ["STEPS"])):
    training.step()
print("SECONDS", time.perf_counter() - started, flush=True)
"""


def run(quick: bool) -> list[Comparison]:
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as name:
        folder = Path(name)
        (folder / "train.py").write_text(_SCRIPT)
        jobs = _Jobs(folder)
        return [
            _compare(jobs, workload, num_steps // (_QUICK if quick else 1), 2 if quick else ROUNDS)
            for workload, num_steps in STEPS.items()
        ]


def _compare(jobs: "_Jobs", workload: str, num_steps: int, num_rounds: int) -> Comparison:
    watched, plain = [], []
    for number in range(num_rounds):
        # In an order that is reversed each round, so that both meet the same machine.
        for with_rules in (True, False) if number % 2 else (False, True):
            seconds = jobs.seconds(workload, num_steps, *(("--rule", "all") if with_rules else ()))
            (watched if with_rules else plain).append(seconds)
    ratios = [ours / theirs for ours, theirs in zip(watched, plain, strict=True)]
    ratio, without = statistics.median(ratios), statistics.median(plain)
    reported = ", ".join(f"{each:.3f}" for each in ratios)
    return Comparison(
        f"{workload}: {num_steps:,} steps watched by all rules on {CORES} cores",
        "seconds",
        {"trackside": ratio * without, "no rules": without},
        targets=(Target("no rules", 1 / LIMIT),),
        notes=(f"Median ratio {ratio:.3f} (rounds: {reported}); the limit is {LIMIT}.",),
    )


class _Jobs:
    """Jobs of the command line, one at a time, in a home of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()
        self._environment = {**os.environ, "TRACKSIDE_HOME": str(folder / "home")}

    def seconds(self, workload: str, num_steps: int, *options: str) -> float:
        """As the script timed itself. Returns when the rules have ended too."""
        command = [sys.executable, "-m", "trackside.cli", "run", "train.py", "--wait"]
        reported = [f"WORKLOAD={workload}", f"STEPS={num_steps}", *_STEADY_MEMORY]
        done = subprocess.run(
            [
                *command,
                *("--name", f"cost-{next(self._numbers)}"),
                *(word for each in reported for word in ("--environment", each)),
                *options,
            ],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
        )
        line = next(each for each in done.stdout.splitlines() if "SECONDS" in each)
        return float(line.rpartition(" ")[2])
