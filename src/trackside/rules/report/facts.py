"""The content of a report, collected by the caller."""

from collections.abc import Mapping, Sequence
from dataclasses import field

from trackside.capture.trial import Trial
from trackside.curves.event_reader import Curves
from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.records.rule_status import Evaluation
from trackside.rules.profiler.profiler_rule import ProfilerRule
from trackside.rules.saved.profile import Profile


@dataclass(frozen=True, slots=True)
class Fact:
    """A tile at the top of the page."""

    label: str
    text: str
    style: str = ""
    """good, warn, bad or quiet; "" for a plain one."""


@dataclass(frozen=True, slots=True)
class Place:
    """An output of the job."""

    what: str
    where: str
    """A location, paths, or the command that shows it."""


@dataclass(frozen=True, slots=True)
class Head:
    """Name, status and key figures of the job."""

    name: str
    status: str
    """Completed, Failed, InProgress …"""
    facts: Sequence[Fact] = ()
    phases: Sequence[tuple[str, float]] = ()
    """Statuses with their durations in seconds."""
    cause: str = ""
    """Why it failed, in one sentence."""
    failure: str = ""
    """The full failure text, often with a traceback."""
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    is_running: bool = False
    places: Sequence[Place] = ()
    sentence: str = ""
    """What is wrong, or that nothing is."""


@dataclass(frozen=True, slots=True)
class Material:
    """All data of the page. None means not captured; `gaps` says how to capture it."""

    head: Head
    findings: Sequence[Finding] = ()
    evaluations: Sequence[Evaluation] = ()
    curves: Curves | None = None
    trial: Trial | None = None
    profile: Profile | None = None
    profiler_rules: Sequence[ProfilerRule] = ()
    """Rules that have checked the whole profile."""
    lines: Mapping[str, str] = field(default_factory=dict)
    """By rule, where in the script its mistake is: `train.py:31`."""
    gaps: Sequence[str] = ()
    is_one_machine: bool = False
    """Whether all hosts of the job are one machine and have the same curves."""
    made: str = ""
    """Time of creation, formatted."""
