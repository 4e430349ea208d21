"""The one view of a job: the sentence, the diagnoses with their evidence, and what else is known.

Used by the page, `trackside watch`, `trackside mcp` and the report. The fields are those of the
page's API.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from trackside.records.finding import Finding
from trackside.records.rule_status import Evaluation, in_short
from trackside.records.status import Secondary, Status
from trackside.rules.checkup.diagnosis import Diagnosis as Cause
from trackside.rules.checkup.diagnosis import diagnose
from trackside.texts.shown_names import shown_name
from trackside.views.curves.gaps import NO_CURVES, NO_TENSORS, no_rules
from trackside.views.job import evidence, failure_hints, failure_reason
from trackside.views.job.deaths import death_in_words, death_of, tail_of
from trackside.views.job.diagnosis_text import Standing, diagnosis_sentence, job_sentence
from trackside.views.job.evidence import Evidence, KnownCurve, LogPlace
from trackside.views.job.job_sources import JobSources, Sources
from trackside.views.job.script_remarks import (
    Lines,
    ScriptRemark,
    lines_by_rule,
    remarks_on,
    unconfirmed,
)
from trackside.views.job_setup.repeat_command import repeated
from trackside.views.problems.fingerprints import issue_id

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

MOST_FINDINGS = 50
"""Of a diagnosis, listed."""
_CERTAINTIES = ("certain", "likely", "possible")


@dataclass(frozen=True, slots=True)
class FoundBy:
    """A finding of a diagnosis."""

    rule: str
    message: str
    step: int | None
    tensor: str
    worker: str
    mode: str
    time: float


@dataclass(frozen=True, slots=True)
class Diagnosis:
    cause: str
    sentence: str
    advice: str
    certainty: str
    """certain, likely, possible, or "" for rules whose limits the user chose."""
    step: int | None
    last_step: int | None
    """The last at which its rule found it again."""
    mode: str
    worker: str
    tensor: str
    line: str
    value: float | None
    threshold: float | None
    time: float
    issue: str
    num_findings: int
    explains: tuple[str, ...]
    findings: tuple[FoundBy, ...]
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Failure:
    cause: str
    """The FailureReason in short."""
    text: str
    hint: str
    death: str = ""
    """One of the twelve causes, as `records/death.py` names them; "" for jobs from before those."""
    words: str = ""
    """The same for people, with who killed for lack of memory."""
    host: str = ""
    tail: str = ""
    """The last lines of that host's log."""
    curves: tuple[str, ...] = ()
    """Ids of its memory's curves, where memory is the cause."""


@dataclass(frozen=True, slots=True)
class Remark:
    """What reading the script found, and nothing that was seen at run time: a possible mistake."""

    rule: str
    line: str
    """`train.py:31`."""
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class Rule:
    configuration: str
    rule: str
    status: str
    details: str
    last_step: int | None


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    start: float
    end: float | None


@dataclass(frozen=True, slots=True)
class Has:
    """What the job has to show."""

    curves: bool
    vitals: bool
    tensors: bool
    ranks: bool
    machine: bool
    logs: bool


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    shown: str
    status: str
    secondary: str
    sentence: str
    diagnoses: tuple[Diagnosis, ...]
    failure: Failure | None
    remarks: tuple[Remark, ...]
    gaps: tuple[str, ...]
    rules: tuple[Rule, ...]
    hosts: tuple[str, ...]
    workers: tuple[str, ...]
    attempts: int
    has: Has
    phases: tuple[Phase, ...]
    command: str

    def to_json(self, row: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """In the form of the page's API; `row` is the job's in the table of jobs."""
        members = asdict(self)
        for name in ("name", "shown", "status", "secondary"):
            del members[name]
        plain: dict[str, Any] = _plain(members)
        return {"row": row, **plain}


def job_view(jobs: "JobReader", name: str, sources: Sources | None = None) -> Job:
    """`sources` of an earlier call read only what is new; by default all is read."""
    described = jobs.describe(name)
    read = sources or JobSources(jobs, name)
    read.refresh(described)
    known = _Read.of(read, jobs.record(name).spec.hosts)
    evaluations = jobs.evaluations(name)
    causes = diagnose(jobs.findings(name))
    remarks = remarks_on(described, jobs.settings.home)
    lines = lines_by_rule(remarks)
    has = _has(known, described)
    tags = described["Trackside"].get("tags") or {}
    return Job(
        name=name,
        shown=shown_name(name),
        status=described["TrainingJobStatus"],
        secondary=described["SecondaryStatus"],
        sentence=job_sentence(standing_of(described), causes, evaluations),
        diagnoses=tuple(_diagnosis(each, known, lines) for each in causes),
        failure=failure_of(described, causes, known.curves),
        remarks=tuple(map(_remark, unconfirmed(remarks, causes))),
        gaps=tuple(_gaps(shown_name(name), has, evaluations, read.troubles)),
        rules=tuple(map(_rule, evaluations)),
        hosts=known.hosts,
        workers=known.workers,
        attempts=described["Trackside"]["attempt"],
        has=has,
        phases=tuple(phases_of(described)),
        command=repeated(described, tags, jobs.settings.output).command,
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """What is in the files of a job."""

    sources: Sources
    curves: Sequence[KnownCurve]
    figures: Mapping[str, Sequence[str]]
    hosts: tuple[str, ...]
    workers: tuple[str, ...]

    @classmethod
    def of(cls, sources: Sources, hosts: tuple[str, ...]) -> "_Read":
        workers = tuple(sources.workers())
        return cls(sources, sources.known(), sources.figures(), hosts, workers)


def standing_of(described: Mapping[str, Any]) -> Standing:
    return Standing(
        described["TrainingJobStatus"],
        described["SecondaryStatus"],
        failure_reason.in_short(described.get("FailureReason", "")),
        described["Trackside"].get("stopping_rule") or "",
    )


def failure_of(
    described: Mapping[str, Any], causes: Sequence[Cause], curves: Sequence[KnownCurve] = ()
) -> Failure | None:
    """None for a job that has not failed; without a hint where a diagnosis explains it."""
    if described["TrainingJobStatus"] != Status.FAILED:
        return None
    text = described.get("FailureReason", "")
    is_explained = any(each.cause == failure_hints.CRASH for each in causes)
    hint = "" if is_explained else failure_hints.advice(text)
    short = failure_reason.in_short(text)
    if (death := death_of(described)) is None:
        return Failure(short, text, hint)
    return Failure(
        short,
        text,
        hint,
        death=death.cause,
        words=death_in_words(death),
        host=death.host,
        tail=tail_of(described, death),
        curves=evidence.memory_curves(death, curves),
    )


def phases_of(described: Mapping[str, Any]) -> list[Phase]:
    """From the journal; without the final status, which lasts."""
    found = []
    for each in described["SecondaryStatusTransitions"]:
        if not Secondary(each["Status"]).is_final:
            end = each["EndTime"].timestamp() if "EndTime" in each else None
            found.append(Phase(each["Status"], each["StartTime"].timestamp(), end))
    return found


def _diagnosis(cause: Cause, read: "_Read", lines: Lines) -> Diagnosis:
    """Certain, if reading the script agrees with what was seen: `lines` then has the place."""
    own = [each for each in cause.findings if each.rule == cause.cause]
    first = min(own, key=lambda each: each.step or 0)
    steps = [each.step for each in own if each.step is not None]
    line = lines.get(cause.cause)
    logged = None if first.step is None else read.sources.time_of_step(first.step)
    moment = logged or first.time
    return Diagnosis(
        cause=cause.cause,
        sentence=diagnosis_sentence(cause),
        advice=cause.advice,
        certainty="certain" if line else known_certainty(cause),
        step=cause.step,
        last_step=max(steps, default=None),
        mode=first.mode,
        worker=first.worker,
        tensor=cause.tensor,
        line=line.place if line else cause.line,
        value=first.value,
        threshold=first.threshold,
        time=first.time,
        issue=issue_id(cause, line.group if line else ""),
        num_findings=len(cause.findings),
        explains=cause.explains,
        findings=tuple(map(_found_by, cause.findings[:MOST_FINDINGS])),
        evidence=Evidence(
            curves=evidence.curves_of(first, read.curves),
            vitals=evidence.vitals_of(first, read.curves),
            heat=evidence.heat_of(first, read.figures),
            log=LogPlace(_host_of(first.worker, read.hosts), moment) if moment else None,
            texts=evidence.texts_of(first),
        ),
    )


def _remark(found: ScriptRemark) -> Remark:
    return Remark(found.rule, found.line.place, found.message, found.advice)


def known_certainty(cause: Cause) -> str:
    """As its rule says; "" for rules whose limits the user chose."""
    return cause.confidence if cause.confidence in _CERTAINTIES else ""


def _found_by(finding: Finding) -> FoundBy:
    return FoundBy(
        finding.rule,
        finding.message,
        finding.step,
        finding.tensor,
        finding.worker,
        finding.mode,
        finding.time,
    )


def _host_of(worker: str, hosts: Sequence[str]) -> str:
    """The host that a worker's name begins with; the first if it names none."""
    return next((host for host in hosts if worker.startswith(f"{host}-")), hosts[0])


def _rule(evaluation: Evaluation) -> Rule:
    return Rule(
        evaluation.configuration,
        evaluation.rule,
        str(evaluation.status),
        in_short(evaluation.details),
        evaluation.last_step,
    )


def _has(read: "_Read", described: Mapping[str, Any]) -> Has:
    kinds = {each.kind for each in read.curves}
    return Has(
        curves="metric" in kinds,
        vitals="vital" in kinds,
        tensors=bool(read.figures),
        ranks=len(read.workers) > 1,
        machine="machine" in kinds,
        logs="TrainingStartTime" in described,
    )


def _gaps(
    shown: str, has: Has, evaluations: Sequence[Evaluation], troubles: Sequence[str]
) -> list[str]:
    found = [*troubles]
    if not evaluations:
        found.append(no_rules(shown))
    if not has.curves:
        found.append(NO_CURVES)
    if not has.tensors:
        found.append(NO_TENSORS)
    return found


def _plain(value: Any) -> Any:
    """Lists for tuples, and texts for numbers that JSON lacks."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return value
