"""One run of the training, plain or as a job: processor time by process and phase, wall time.

The measuring process adopts what a job leaves behind (a child subreaper of Linux), so that the
processor time of detached supervisors and evaluators is counted, too.
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER"""
_STEADY_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}
"""Otherwise the C library gives pages back and takes them again in some runs and not in others."""

PHASES = (
    "first line",
    "torch imported",
    "model made",
    "first step",
    "first 50 steps",
    "last step",
    "end",
)


@dataclass(frozen=True, slots=True)
class Run:
    phases: dict[str, float]
    """Seconds of processor time of the training's process in each phase."""
    step: float
    """Of a step after the first 50."""
    script: float
    """Of its process, as far as Python tells: the last 0.7 s, in which torch is unloaded, are in
    `rest`."""
    evaluator: float
    command: float
    total: float
    """Of all processes."""
    wall: float

    @property
    def rest(self) -> float:
        """Supervisor, sandbox and toolkit."""
        return self.total - self.script - self.evaluator - self.command


def adopt_orphans() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)


def measure(workload: str, num_steps: int, options: list[str] | None) -> Run:
    """`options` of `trackside run`; None runs plain Python."""
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as name:
        folder = Path(name)
        (folder / "seconds").mkdir()
        (folder / "train.py").write_bytes((_HERE / "train.py").read_bytes())
        command = [sys.executable, "train.py"]
        if options is not None:
            command = [sys.executable, "-m", "trackside.cli", "run", "train.py", "--wait", *options]
        began = time.monotonic()
        output = folder / "output"
        with output.open("wb") as file:
            process = subprocess.Popen(
                command, cwd=folder, env=_environment(folder, workload, num_steps), stdout=file
            )
            wall, total = _await(process.pid, began)
            process.returncode = 0
        return _run(output.read_text(), folder / "seconds", wall, total)


def _environment(folder: Path, workload: str, num_steps: int) -> dict[str, str]:
    return {
        **os.environ,
        **_STEADY_MEMORY,
        "TRACKSIDE_HOME": str(folder / "home"),
        "PYTHONPATH": str(_HERE / "site"),
        "JOB_COST_FOLDER": str(folder / "seconds"),
        "JOB_COST_ROOT": str(_ROOT),
        "JOB_COST_WORKLOAD": workload,
        "JOB_COST_STEPS": str(num_steps),
    }


def _await(command: int, began: float) -> tuple[float, float]:
    """Wall time until the command ends, and the processor time of it and of all that it left."""
    wall = total = 0.0
    while True:
        try:
            pid, status, usage = os.wait4(-1, 0)
        except ChildProcessError:
            return wall, total
        total += usage.ru_utime + usage.ru_stime
        if pid == command:
            wall = time.monotonic() - began
            if status:
                raise RuntimeError(f"the measured run failed with status {status}")


def _run(output: str, seconds: Path, wall: float, total: float) -> Run:
    line = next(each for each in output.splitlines() if "MARKS" in each)
    marks = json.loads(line.partition("MARKS")[2])
    num_steps = marks.pop("num_steps")
    own = [json.loads(path.read_text()) for path in seconds.glob("*.json")]
    script = sum(each["seconds"] for each in own if each["argv"][-1].endswith("train.py"))
    rules = sum(each["seconds"] for each in own if "trackside.rules" in each["argv"])
    command = sum(each["seconds"] for each in own if "trackside.cli" in each["argv"])
    marks["end"] = script
    times = [0.0, *(marks[name] for name in PHASES)]
    spans = [later - earlier for earlier, later in zip(times, times[1:], strict=False)]
    phases = dict(zip(PHASES, spans, strict=True))
    step = phases["last step"] / (num_steps - 50)
    return Run(phases, step, script, rules, command, total, wall)
