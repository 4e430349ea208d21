"""Changes to a job after its creation: updates, and rules that are to end early.

`job.json` is the request and never changes; changes are notes in the journal, in order. Every
reader of the journal sees them: the supervisors, the evaluator of the rules, and `describe`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeVar

from trackside.errors import Violation
from trackside.files import damaged_files
from trackside.quick_dataclass import dataclass
from trackside.records.finding import RuleKey
from trackside.records.journal import History, Journal
from trackside.records.members import read, write, wrong
from trackside.records.spec import DebugHook, JobSpec, Profiler, RuleConfiguration

T = TypeVar("T")

UPDATE = "update"
_STOPPED_RULE = "stopped_rule"
_REMOTE_DEBUG = "RemoteDebugConfig"


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What to change about a job; everything else stays."""

    profiler: Mapping[str, Any] = field(default_factory=dict)
    """Valid members of ProfilerConfig; those that it does not name stay too."""
    rules: Sequence[RuleConfiguration] = ()
    """These are added to the job's profiler rules."""
    debug_hook: DebugHook | None = None
    debug_rules: Sequence[RuleConfiguration] = ()
    """What `trackside.watch` adds to a job that had neither."""
    keep_alive_seconds: int | None = None
    remote_debug: bool | None = None
    """Both have no effect beyond being returned."""

    def to_note(self) -> dict[str, Any]:
        return {
            "profiler": dict(self.profiler),
            "rules": [write(rule) for rule in self.rules],
            "debug_hook": write(self.debug_hook) if self.debug_hook else None,
            "debug_rules": [write(rule) for rule in self.debug_rules],
            "keep_alive_seconds": self.keep_alive_seconds,
            "remote_debug": self.remote_debug,
        }


@dataclass(frozen=True, slots=True)
class UpdatedJob:
    spec: JobSpec
    """As it is in force now."""
    stopped_rules: frozenset[RuleKey] = frozenset()
    """Rules that are to end before they have read everything."""


def with_updates(submitted: JobSpec, history: History) -> UpdatedJob:
    """The spec as it was submitted, with all changes since."""
    found = UpdatedJob(submitted)
    for note in history.notes:
        try:
            found = _with(found, note)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            damaged_files.say_once(f"a note of job {submitted.name}", f"{error!r}; it is left out")
    return found


def _with(found: UpdatedJob, note: Mapping[str, Any]) -> UpdatedJob:
    if note.get("what") == UPDATE:
        return _updated(found, note)
    if note.get("what") == _STOPPED_RULE:
        key = (bool(note["is_profiler"]), str(note["configuration"]))
        return replace(found, stopped_rules=found.stopped_rules | {key})
    return found


def merged_profiler(known: Profiler | None, changed: Mapping[str, Any]) -> Profiler:
    """`changed` as in an `Update`."""
    return _read(Profiler, {**(write(known) if known else {}), **changed})


def note_update(journal: Journal, update: Update) -> None:
    journal.note(UPDATE, **update.to_note())


def note_stopped_rule(journal: Journal, rule: RuleKey) -> None:
    is_profiler, configuration = rule
    journal.note(_STOPPED_RULE, is_profiler=is_profiler, configuration=configuration)


def _updated(known: UpdatedJob, note: Mapping[str, Any]) -> UpdatedJob:
    spec = known.spec
    if (seconds := note.get("keep_alive_seconds")) is not None:
        spec = replace(spec, resources=replace(spec.resources, keep_alive_seconds=seconds))
    if (is_debugged := note.get("remote_debug")) is not None:
        echoed = {**dict(spec.ignored), _REMOTE_DEBUG: {"EnableRemoteDebug": is_debugged}}
        spec = replace(spec, ignored=tuple(echoed.items()))
    spec = _watched(spec, note.get("debug_hook"), note.get("debug_rules", ()))
    return _with_profiler(replace(known, spec=spec), note["profiler"], note["rules"])


def _watched(
    spec: JobSpec, hook: Mapping[str, Any] | None, rules: Sequence[Mapping[str, Any]]
) -> JobSpec:
    if hook and spec.debug_hook is None:
        spec = replace(spec, debug_hook=_read(DebugHook, hook))
    if rules and not spec.debug_rules:
        added = tuple(_read(RuleConfiguration, each) for each in rules)
        spec = replace(spec, debug_rules=added)
    return spec


def _with_profiler(
    known: UpdatedJob, changed: Mapping[str, Any], rules: Sequence[Mapping[str, Any]]
) -> UpdatedJob:
    spec, stopped = known.spec, known.stopped_rules
    if changed:
        profiler = merged_profiler(spec.profiler, changed)
        spec = replace(spec, profiler=profiler)
        if profiler.disabled:
            stopped |= {(True, rule.name) for rule in spec.profiler_rules}
    names = {rule.name for rule in spec.profiler_rules}
    # Of two concurrent updates that added a rule of one name, the first counts.
    added = (_read(RuleConfiguration, each) for each in rules)
    fresh = tuple(rule for rule in added if rule.name not in names)
    return UpdatedJob(replace(spec, profiler_rules=(*spec.profiler_rules, *fresh)), stopped)


def _read(cls: type[T], record: Mapping[str, Any]) -> T:
    """Members that are not known are ignored: a later version may have noted them."""
    violations: list[Violation] = []
    found = read(cls, record, "", violations)
    if found is None or wrong(violations):
        raise ValueError(f"{record!r:.200} is no {cls.__name__}")
    return found
