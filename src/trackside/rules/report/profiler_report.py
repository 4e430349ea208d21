"""ProfilerReport: runs all profiler rules and writes a page, a notebook and JSON."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeVar, get_type_hints

from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.checkup.diagnosis import diagnose
from trackside.rules.profiler.bottlenecks import CPUBottleneck, IOBottleneck
from trackside.rules.profiler.gpus import (
    BatchSize,
    GPUMemoryIncrease,
    LoadBalancing,
    LowGPUUtilization,
)
from trackside.rules.profiler.profiler_rule import ProfilerRule
from trackside.rules.profiler.steps import (
    Dataloader,
    MaxInitializationTime,
    OverallFrameworkMetrics,
    StepOutlier,
)
from trackside.rules.profiler.usage import OverallSystemUsage
from trackside.rules.report.page import profiler_page
from trackside.rules.saved.profile import Profile, Window

_READ = """import json
from pathlib import Path

files = Path("profiler-reports").glob("*.json")
reports = {path.stem: json.loads(path.read_text()) for path in files}
reports["OverallSystemUsage"]["Details"]"""
_SHOW = """from IPython.display import IFrame

IFrame("profiler-report.html", width="100%", height=900)"""

FOLDER = "profiler-output"
RULES: tuple[type[ProfilerRule], ...] = (
    MaxInitializationTime,
    StepOutlier,
    LowGPUUtilization,
    BatchSize,
    CPUBottleneck,
    IOBottleneck,
    GPUMemoryIncrease,
    LoadBalancing,
    Dataloader,
    OverallSystemUsage,
    OverallFrameworkMetrics,
)
"""In the order of the report."""
_R = TypeVar("_R", bound=ProfilerRule)


def _with_parameters_of(rules: tuple[type[ProfilerRule], ...]) -> Callable[[type[_R]], type[_R]]:
    """A dataclass that has every parameter of these rules, as `<Rule>_<parameter>`."""

    def decorate(report: type[_R]) -> type[_R]:
        annotations = dict(report.__annotations__)
        for rule in rules:
            hints = get_type_hints(rule, include_extras=True)
            for each in dataclasses.fields(rule):
                if "doc" in each.metadata and each.name not in _SHARED:
                    name = f"{rule.name()}_{each.name}"
                    annotations[name] = hints[each.name]
                    setattr(report, name, field(default=each.default, metadata=each.metadata))
        report.__annotations__ = annotations
        return dataclass(report)

    return decorate


_SHARED = {each.name for each in dataclasses.fields(ProfilerRule)}


@_with_parameters_of(RULES)
class ProfilerReport(ProfilerRule):
    """Runs all profiler rules and writes a report of their results.

    Takes their parameters as `<Rule>_<parameter>`, in any letter case. Reports their findings at
    the end of the job. It writes `profiler-report.html`, `profiler-report.ipynb` and
    `profiler-reports/<Rule>.json` below `rule-output/<name>/profiler-output/` of the job.
    """

    rules: tuple[ProfilerRule, ...] = field(default=(), init=False)
    found: list[Finding] = field(default_factory=list, init=False)
    """Findings of all rules so far."""

    def __post_init__(self) -> None:
        self.rules = tuple(self._made(rule) for rule in RULES)

    def check(self, evidence: Profile) -> Iterator[Finding]:
        """Findings of all rules, under their own names."""
        if self._is_done:
            return
        for rule in self.rules:
            self.found += rule.check(evidence)
        self._is_done = evidence.is_all
        self.triggered = len(self.found)
        if evidence.is_all:
            yield from self.found

    def judge(self, window: Window) -> Iterator[Finding]:
        raise AssertionError("each of its rules has its own windows")

    def files(self, profile: Profile) -> Mapping[str, bytes]:
        reports = {rule.name(): rule.report(profile) for rule in self.rules}
        return {
            f"{FOLDER}/profiler-report.html": profiler_page(profile, self.found, self.rules),
            f"{FOLDER}/profiler-report.ipynb": notebook(self.found, reports),
            **{
                f"{FOLDER}/profiler-reports/{name}.json": _json(report)
                for name, report in reports.items()
            },
        }

    def _made(self, rule: type[ProfilerRule]) -> ProfilerRule:
        own = {each.name for each in dataclasses.fields(rule) if "doc" in each.metadata}
        given = {name: getattr(self, f"{rule.name()}_{name}") for name in sorted(own - _SHARED)}
        return rule(scan_interval_us=self.scan_interval_us, **given)


@dataclass
class DetailedProfilerProcessingJobConfig(ProfilerRule):
    """Accepted and ignored: it requests that a managed service processes traces.

    Trackside does not write such traces.
    """

    def judge(self, window: Window) -> Iterator[Finding]:
        return iter(())

    def missing(self, profile: Profile) -> str:
        return "Trackside does not process detailed traces. Use torch.profiler in the script."


def notebook(found: Sequence[Finding], reports: Mapping[str, Any]) -> bytes:
    """In nbformat 4; opened from the folder with the page and the JSON reports."""
    lines = ["# Profiler report", ""]
    causes = [f"1. **{each.cause}**: {_plain(each.message)}" for each in diagnose(found)]
    lines += causes or ["Nothing found."]
    lines += ["", "| rule | triggered | data points |", "|---|---|---|"]
    lines += [
        f"| {name} | {report['RuleTriggered']} | {report['Datapoints']} |"
        for name, report in reports.items()
    ]
    cells = [_cell("markdown", "\n".join(lines)), _cell("code", _READ), _cell("code", _SHOW)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    document = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": kernel},
        "cells": [{"id": f"cell-{place}", **cell} for place, cell in enumerate(cells)],
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def _cell(kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": text.splitlines(True)}
    return cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []}


def _plain(text: str) -> str:
    """Escapes a name, because Markdown may contain HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _json(report: Mapping[str, Any]) -> bytes:
    return json.dumps(report, indent=2).encode() + b"\n"


ALL: tuple[type[ProfilerRule], ...] = (*RULES, ProfilerReport, DetailedProfilerProcessingJobConfig)
