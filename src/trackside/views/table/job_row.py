"""A job in the table: `JobRow` of the page's API, and its values by name for queries and sorting.
Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trackside.records.status import Secondary
from trackside.texts.shown_names import shown_name
from trackside.views.query.query_fields import FIELD
from trackside.views.query.search_conditions import Name, Value
from trackside.views.table.row_facts import Given, Made, spelling

if TYPE_CHECKING:
    from trackside.jobs.index import JobSummary

_NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


@dataclass(slots=True)
class KnownJob:
    """What is known of one job at present; None for what was not read yet."""

    row: "JobSummary"
    given: Given | None = None
    made: Made | None = None
    _spelled: tuple[Given | None, Mapping[str, str]] | None = None
    """And of what: other threads read while `given` is replaced."""

    @property
    def shown(self) -> str:
        return shown_name(self.row.name)

    @property
    def spelled(self) -> Mapping[str, str]:
        given, known = self.given, self._spelled
        if known is None or known[0] is not given:
            parameters = given.parameters if given else {}
            known = given, {spelling(name): value for name, value in parameters.items()}
            self._spelled = known
        return known[1]

    def seconds(self, now: float) -> float | None:
        started = self.row.training_started
        return None if started is None else max(0.0, (self.row.ended or now) - started)


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks at the table."""

    may_change: Callable[[str, str], bool] = lambda name, owner: True
    """Whether they may change the job of this name and owner."""


def values_of(job: KnownJob, name: Name, now: float) -> Sequence[Value]:
    """The `Lookup` of a query."""
    if name.kind == FIELD:
        return _FIELDS[name.text](job, now)
    found: Value | None = None
    if name.kind in ("", "param"):
        found = job.spelled.get(spelling(name.text))
    if found is None and name.kind in ("", "metric"):
        found = _metric(job, name.text)
    if found is None and name.kind in ("", "tag") and job.given is not None:
        found = job.given.tags.get(name.text)
    return () if found is None else (found,)


def sort_value(job: KnownJob, name: Name, now: float) -> Value | None:
    if name == Name("loss") and job.made is not None:  # the one that is shown
        return job.made.loss.last if job.made.loss else None
    found = next(iter(values_of(job, name, now)), None)
    return found if found is not None else _shown_value(job, name)


def _shown_value(job: KnownJob, name: Name) -> Value | None:
    """Of columns that show something else, or more, than a query can ask for."""
    if name == Name("use") and job.made is not None and job.made.use is not None:
        use = job.made.use
        return next((each for each in (use.gpu, use.cpu, use.memory) if each is not None), None)
    if name == Name("tags") and job.given is not None:
        return " ".join(f"{tag}={value}" for tag, value in job.given.tags.items()) or None
    is_progress = name == Name("progress", FIELD) and job.made is not None
    if is_progress and job.made is not None and job.made.step is not None:
        return -1.0 / (1.0 + max(0, job.made.step))  # below every share, by the step
    return None


def row_json(job: KnownJob, columns: Sequence[Name], viewer: Viewer, now: float) -> dict[str, Any]:
    row, given, made = job.row, job.given or Given(), job.made or Made()
    shown = {str(name): values_of(job, name, now) for name in columns}
    return {
        "name": row.name,
        "shown": job.shown,
        "owner": row.owner or "",
        "status": row.status,
        "secondary": row.secondary,
        "created": row.created,
        "started": row.training_started,
        "ended": row.ended,
        "seconds": job.seconds(now),
        "progress": None if made.step is None else {"step": made.step, "of": made.of},
        "loss": made.loss
        and {
            "name": made.loss.name,
            "last": _plain(made.loss.last),
            "spark": [*made.loss.spark],
        },
        "findings": made.found
        and {
            "count": made.found.count,
            "sentence": made.found.sentence,
            "rule": made.found.rule,
            "step": made.found.step,
        },
        "failure": given.failure,
        "hosts": given.hosts,
        "use": made.use and {"cpu": made.use.cpu, "memory": made.use.memory, "gpu": made.use.gpu},
        "tags": dict(given.tags),
        "note": given.note,
        "values": {name: _plain(held[0]) for name, held in shown.items() if held},
        "may_change": viewer.may_change(row.name, row.owner or ""),
    }


def _metric(job: KnownJob, name: str) -> float | None:
    if job.given is not None and (reported := job.given.metrics.get(name)) is not None:
        return reported
    if job.made is None or (at := job.made.names.find(name)) is None:
        return None
    return job.made.values[at]


def _plain(value: Value) -> Value:
    """Numbers that JSON lacks are texts."""
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return _NON_FINITE[str(value)]
    return value


def _states(job: KnownJob, now: float) -> Sequence[Value]:
    row = job.row
    states = ["finished", row.status.lower()] if row.is_final else ["live"]
    if row.secondary == Secondary.PENDING:
        states.append("queued")
    if job.made is not None and job.made.found is not None:
        states.append("sick")
    return states


def _tags(job: KnownJob, now: float) -> Sequence[Value]:
    tags = job.given.tags if job.given else {}
    return [*tags, *tags.values(), *(f"{name}={value}" for name, value in tags.items())]


def _num_findings(job: KnownJob, now: float) -> Sequence[Value]:
    if job.made is None:
        return ()
    return (float(job.made.found.count) if job.made.found else 0.0,)


def _progress(job: KnownJob, now: float) -> Sequence[Value]:
    made = job.made
    return (100.0 * made.step / made.of,) if made and made.of and made.step is not None else ()


def _use(figure: str) -> "_Field":
    def values(job: KnownJob, now: float) -> Sequence[Value]:
        use = job.made.use if job.made else None
        return _known(getattr(use, figure, None))

    return values


def _known(value: Value | None) -> Sequence[Value]:
    return () if value is None else (value,)


_Field = Callable[[KnownJob, float], Sequence[Value]]
_FIELDS: dict[str, _Field] = {
    "name": lambda job, now: (job.shown, job.row.name),
    "status": lambda job, now: (job.row.status, job.row.secondary),
    "is": _states,
    "owner": lambda job, now: _known(job.row.owner or None),
    "created": lambda job, now: (job.row.created,),
    "started": lambda job, now: _known(job.row.training_started),
    "ended": lambda job, now: _known(job.row.ended),
    "seconds": lambda job, now: _known(job.seconds(now)),
    "age": lambda job, now: (now - job.row.created,),
    "step": lambda job, now: _known(
        float(job.made.step) if job.made and job.made.step is not None else None
    ),
    "progress": _progress,
    "findings": _num_findings,
    "finding": lambda job, now: job.made.found.rules if job.made and job.made.found else (),
    "host": lambda job, now: job.given.machines if job.given else (),
    "hosts": lambda job, now: (float(job.given.hosts),) if job.given else (),
    "attempt": lambda job, now: (float(job.row.attempt),),
    "cpu": _use("cpu"),
    "memory": _use("memory"),
    "gpu": _use("gpu"),
    "tag": _tags,
    "note": lambda job, now: _known((job.given.note if job.given else "") or None),
    "has": lambda job, now: (),
}
