"""What a report is made of, gathered by the caller."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trackside.capture.trial import Trial
from trackside.curves.event_reader import Curves
from trackside.records.finding import Finding
from trackside.records.rule_status import Evaluation
from trackside.rules.profiler.profiler_rule import ProfilerRule
from trackside.rules.saved.profile import Profile


@dataclass(frozen=True, slots=True)
class Fact:
    """A tile."""

    label: str
    text: str
    style: str = ""
    """good, warn, bad or quiet; "" for a plain one."""


@dataclass(frozen=True, slots=True)
class Place:
    """Something that the job left."""

    what: str
    where: str
    """A location, paths, or the command that shows it."""


@dataclass(frozen=True, slots=True)
class Head:
    """The job, as its first lines describe it."""

    name: str
    status: str
    """Completed, Failed, InProgress …"""
    facts: Sequence[Fact] = ()
    phases: Sequence[tuple[str, float]] = ()
    """Statuses and how many seconds each lasted."""
    cause: str = ""
    """Why it failed, in a sentence."""
    failure: str = ""
    """All that is said about it, often with a trace."""
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    is_running: bool = False
    places: Sequence[Place] = ()


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
    """That have checked the whole profile."""
    gaps: Sequence[str] = ()
    is_one_machine: bool = False
    """All hosts of the job share the machine, and so its figures."""
    made: str = ""
    """When, for people."""
