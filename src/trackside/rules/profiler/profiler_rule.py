"""What profiler rules share: their windows, reporting each thing once, and their statistics."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any, ClassVar

from trackside.curves.machine_curves import CPU as CPU
from trackside.curves.machine_curves import GPU as GPU
from trackside.curves.machine_curves import GPU_MEMORY as GPU_MEMORY
from trackside.curves.machine_curves import IO_WAIT as IO_WAIT
from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.builtin import BuiltInRule
from trackside.rules.parameters import parameter, parameters_of
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.profile import Profile, Window

NO_GPU = "No GPU figures were taken, so there was nothing to watch."
"""Told by rules about GPUs on machines without one. It is no fault of anybody's."""


@dataclass
class ProfilerRule(BuiltInRule[Profile]):
    """Watches the machine and the steps' times, a window at a time."""

    kind = Kind.MACHINE

    scan_interval_us: int = parameter(60_000_000, "Length of a window, microseconds.", at_least=1)
    triggered: int = field(default=0, init=False)
    """In how many windows it held, for each thing watched."""
    violations: int = field(default=0, init=False)
    datapoints: int = field(default=0, init=False)
    _judged_until: float | None = field(default=None, init=False)
    _is_done: bool = field(default=False, init=False)
    _reported: set[tuple[str, ...]] = field(default_factory=set, init=False)
    """Where, of the findings so far."""

    def check(self, evidence: Profile) -> Iterator[Finding]:
        if self._is_done:
            return
        for window in evidence.windows(self._judged_until, self.scan_interval_us / 1e6):
            self._judged_until, self._is_done = window.end, window.is_last
            yield from self.judge(window)

    @abstractmethod
    def judge(self, window: Window) -> Iterable[Finding]:
        """Judge one window. Called once for each, in order."""

    def missing(self, profile: Profile) -> str:
        """Why there was nothing to judge; "" when there was."""
        return "" if profile.nodes else "No figures of the machine were taken."

    def details(self, profile: Profile) -> dict[str, Any]:
        """Statistics by node, and by GPU or phase below it."""
        return {}

    def report(self, profile: Profile) -> dict[str, Any]:
        """What it has seen, in the form of the contract's `<Rule>.json`."""
        settings = [f"{each.name}:{getattr(self, each.name)}" for each in parameters_of(type(self))]
        return {
            "RuleTriggered": self.triggered,
            "Violations": self.violations,
            "Details": self.details(profile),
            "Datapoints": self.datapoints,
            "RuleParameters": "\n".join(settings),
        }

    def report_once(
        self,
        message: str,
        *,
        value: float,
        threshold: float,
        worker: str = "",
        tensor: str = "",
        subject: str = "",
        mode: str = "",
    ) -> Iterator[Finding]:
        """A finding, unless there was one at the same place. Counts the window either way."""
        self.triggered += 1
        place = (worker, tensor, subject, mode)
        if place not in self._reported:
            self._reported.add(place)
            yield Finding(
                rule=self.name(),
                mode=mode,
                worker=worker,
                tensor=tensor,
                subject=subject,
                value=value,
                threshold=threshold,
                message=message,
                advice=self.advice,
            )


@dataclass
class GpuRule(ProfilerRule):
    """One that has nothing to say about a machine without GPUs."""

    dimension: ClassVar[str] = GPU
    """Of the figures that it cannot do without."""

    def missing(self, profile: Profile) -> str:
        return "" if profile.columns(self.dimension) else NO_GPU
