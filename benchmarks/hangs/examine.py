"""Runs the cases as jobs with `--rule all`, and compares the finding with the marked line."""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import Comparison, Target

HERE = Path(__file__).parent
TARGET_SECONDS = 10.0
_AT_ONCE = 4
_HANG_SECONDS = 120.0
"""Given up so long after the hang: twice the longest limit."""
_JOB_SECONDS = 600.0
_QUICK = ("lock_twice", "skipped_barrier", "loader_lock", "rate_limit", "compute", "slow_answer")
_MARK = re.compile(r"# HERE: (\w+), rank (\d)")


@dataclass(frozen=True, slots=True)
class Result:
    case: str
    is_hung: bool
    finding: dict[str, Any] | None
    began: float
    output: str

    @property
    def is_named(self) -> bool:
        return self.finding is not None

    @property
    def has_line(self) -> bool:
        said = str((self.finding or {}).get("message", ""))
        return any(re.search(rf"hung\.py:{line}\b", said) for line, _ in _marks(self.case))

    @property
    def has_rank(self) -> bool:
        worker = str((self.finding or {}).get("worker", ""))
        is_alone = self.case not in distributed("hung")
        return is_alone or worker in [f"worker_{rank}" for _, rank in _marks(self.case)]

    @property
    def seconds(self) -> float:
        """From the limit to the finding."""
        assert self.finding is not None
        return float(self.finding["time"]) - self.began - float(self.finding["threshold"])

    def row(self) -> str:
        said = str((self.finding or {}).get("message", ""))
        if not self.is_hung:
            return f"| {self.case} | {'**ALARM** ' + said if self.is_named else 'silent'} |"
        late = f"{self.seconds:.1f}" if self.is_named else ""
        answers = (self.is_named, self.is_named and self.has_rank, self.has_line)
        marks = " | ".join("yes" if each else "**no**" for each in answers)
        return f"| {self.case} | {marks} | {late} | {said} |"


def run(quick: bool = False) -> Iterable[Comparison]:
    results = examined(_QUICK if quick else names())
    hung = [each for each in results if each.is_hung]
    named = [each for each in hung if each.is_named and each.has_rank and each.has_line]
    alarms = [each for each in results if not each.is_hung and each.is_named]
    late = [each.seconds for each in named] or [float("inf")]
    yield Comparison(
        title="From the limit to the finding of a hang",
        unit="s",
        figures={"trackside": statistics.median(late), "the target": TARGET_SECONDS},
        targets=(Target("the target", 1.0),),
        notes=(
            f"{len(named)} of {len(hung)} hangs named with rank and line, at most "
            f"{max(late):.0f} s after the limit; {len(alarms)} alarms for "
            f"{len(results) - len(hung)} trainings that are slow but alive.",
        ),
    )


def names() -> list[str]:
    return [*_cases("hung"), *_cases("alive")]


def distributed(script: str) -> list[str]:
    text = (HERE / f"{script}.py").read_text()
    group = text[text.index("GROUPS = ") : text.index("\n", text.index("DISTRIBUTED"))]
    return [name for name in _cases(script) if re.search(rf"\b{name}\b", _without_singles(group))]


def examined(chosen: Sequence[str]) -> list[Result]:
    with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(lambda case: _examine(case, Path(home)), chosen))


def _without_singles(text: str) -> str:
    """Of the end of a script: the table of the cases with several processes."""
    tables = re.split(r"\n(?=[A-Z]+ = )", text)
    return "\n".join(table for table in tables if table.startswith(("GROUPS", "DISTRIBUTED")))


def _cases(script: str) -> list[str]:
    text = (HERE / f"{script}.py").read_text()
    functions = re.findall(r"^def (\w+)\(\):", text, re.MULTILINE)
    tables = text[min(text.index("GROUPS = "), text.index("SINGLES = ")) :]
    return [name for name in functions if re.search(rf"\b{name}\b", tables)]


def _marks(case: str) -> list[tuple[int, int]]:
    lines = enumerate((HERE / "hung.py").read_text().splitlines(), 1)
    found = ((number, _MARK.search(line)) for number, line in lines)
    return [(number, int(mark[2])) for number, mark in found if mark and mark[1] == case]


def _examine(case: str, home: Path) -> Result:
    script = "hung" if case in _cases("hung") else "alive"
    name = re.sub("[^a-z0-9]", "-", case)
    findings, log = home / f"{name}.jsonl", home / f"{name}.log"
    command = [sys.executable, "-m", "trackside.cli", "run", "--source-dir", str(HERE)]
    command += ["--rule", "all", "--findings", str(findings), "--name", name]
    if case in distributed(script):
        launch = ["--nproc-per-node", "2", "--master-port", str(_port(case)), f"{script}.py", case]
        command += ["--", "torchrun", *launch]
    else:
        command += [f"{script}.py", "--", case]
    environment = {**os.environ, "TRACKSIDE_HOME": str(home)}
    with log.open("w") as output:
        running = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        finding = _await(findings, log, running)
        if running.poll() is None:
            stop = [sys.executable, "-m", "trackside.cli", "stop", name]
            subprocess.run(stop, env=environment, capture_output=True)
            running.wait()
    text = log.read_text()
    result = Result(case, script == "hung", finding, max(_begins(text), default=0.0), text)
    print(result.row(), flush=True)
    return result


def _port(case: str) -> int:
    return 29000 + names().index(case)


def _await(findings: Path, log: Path, running: subprocess.Popen[bytes]) -> dict[str, Any] | None:
    ends = time.time() + _JOB_SECONDS
    while time.time() < ends and running.poll() is None:
        for line in findings.read_text().splitlines() if findings.exists() else []:
            record = json.loads(line)
            if record.get("rule") == "Hang" and "diagnosis" not in record:
                return dict(record)
        if begins := _begins(log.read_text()):
            ends = min(ends, max(begins) + _HANG_SECONDS)
        time.sleep(0.5)
    return None


def _begins(text: str) -> list[float]:
    return [float(at) for at in re.findall(r"HANG (\d+\.\d+)", text)]
