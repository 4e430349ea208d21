"""What a report is made of, gathered by whoever asks for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trackside.capture.trial import Trial
from trackside.curves.event_reader import Curves
from trackside.finding import Finding
from trackside.rule_status import Evaluation
from trackside.rules.profiler.profiler_rule import ProfilerRule
from trackside.rules.saved.profile import Profile


@dataclass(frozen=True, slots=True)
class Head:
    """The job, as its first lines tell it."""

    name: str
    status: str
    """Completed, Failed, InProgress …"""
    facts: Sequence[tuple[str, str]] = ()
    """Label and text of each tile."""
    phases: Sequence[tuple[str, float]] = ()
    """Statuses and how many seconds each lasted."""
    cause: str = ""
    """Why it failed, in a sentence."""
    failure: str = ""
    """All that is said about it, often with a trace."""
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    is_running: bool = False


@dataclass(frozen=True, slots=True)
class Material:
    """All there is to show. What is None was not captured; `gaps` says how to get it."""

    head: Head
    findings: Sequence[Finding] = ()
    evaluations: Sequence[Evaluation] = ()
    curves: Curves | None = None
    trial: Trial | None = None
    profile: Profile | None = None
    profiler_rules: Sequence[ProfilerRule] = ()
    """That have looked at all of the profile."""
    gaps: Sequence[str] = ()
    made: str = ""
    """When, for people."""
