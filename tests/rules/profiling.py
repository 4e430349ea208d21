"""Profiler output for the tests of rules, written as supervisors and hooks write it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from trackside.records.finding import Finding
from trackside.rules.profiler.profiler_rule import ProfilerRule
from trackside.rules.saved.profile import Profile
from trackside.supervisor.machine_figures import MinuteFiles

START = 1_591_160_640.0
"""The beginning of a minute."""
HALF = 0.5

_DIMENSIONS = {
    "cpu": ("cpu", "CPUUtilization"),
    "io": ("cpu", "I/OWaitPercentage"),
    "gpu": ("gpu", "GPUUtilization"),
    "memory": ("gpu", "GPUMemoryUtilization"),
}


class Profiling:
    """`samples` and `steps` write; `end` says that no more will come."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def samples(
        self,
        figures: Mapping[str, Sequence[Sequence[float]]],
        *,
        node: str = "algo-1",
        start: float = START,
        interval: float = HALF,
    ) -> None:
        """`figures["gpu"][i][j]`: of gpu `j` at the look `i`."""
        files = MinuteFiles(self.folder, self.folder / "part", node)
        for look in range(max(map(len, figures.values()))):
            moment = round(start + look * interval, 3)
            records = [
                {
                    "Type": "cpu",
                    "Name": f"{_DIMENSIONS[kind][0]}{place}",
                    "Dimension": _DIMENSIONS[kind][1],
                    "Value": float(value),
                    "NodeId": node,
                    "Timestamp": moment,
                }
                for kind, rows in figures.items()
                for place, value in enumerate(rows[look])
            ]
            files.write(records, moment)
        files.close()

    def events(
        self,
        events: Sequence[tuple[float, float]],
        *,
        phase: str = "Step:ModeKeys.TRAIN",
        worker: str = "0-algo-1",
        threads: Sequence[int] = (),
    ) -> Path:
        """Start and duration of each, in seconds."""
        start_us = round(events[0][0] * 1e6)
        records = [
            {"name": "process_name", "ph": "M", "pid": 0}
            | {"args": {"start_time_since_epoch_in_micros": start_us}},
            {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": phase}},
        ]
        for place, (start, duration) in enumerate(events):
            times = {"ts": round(start * 1e6) - start_us, "dur": round(duration * 1e6)}
            thread = threads[place] if threads else 0
            records.append(
                {"name": phase, "ph": "X", "pid": 1, "tid": thread, **times}
                | {"args": {"step_num": place}}
            )
        folder = self.folder / "framework" / "pevents" / "2020060305"
        folder.mkdir(parents=True, exist_ok=True)
        end_us = round(max(start + duration for start, duration in events) * 1e6)
        path = folder / f"{end_us}_{worker}_pythontimeline.json"
        path.write_text("[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n")
        return path

    def steps(
        self, durations: Sequence[float], *, start: float = START, mode: str = "TRAIN"
    ) -> Path:
        """Steps that follow each other."""
        begins = [start + sum(durations[:place]) for place in range(len(durations))]
        return self.events(list(zip(begins, durations, strict=True)), phase=f"Step:ModeKeys.{mode}")

    def end(self) -> Profile:
        for name in ("system", "framework"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            (self.folder / name / "training_job_end.ts").touch()
        return Profile(self.folder)


def judge(rule: ProfilerRule, profile: Profile) -> list[Finding]:
    """All that the rule finds in a finished profile."""
    profile.advance()
    assert profile.is_all
    return list(rule.check(profile))
