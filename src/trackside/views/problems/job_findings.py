"""What one job contributes to issues: which problems it showed, of which script it is, and which
rules watched it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trackside.files.json_record import Moment
from trackside.jobs.describe import describe
from trackside.jobs.index import JobSummary
from trackside.jobs.local_reader import LocalReader
from trackside.jobs.records import read_rules
from trackside.jobs.rule_updates import RuleUpdates
from trackside.records.finding import Finding
from trackside.records.metric_totals import JobMetrics
from trackside.records.rule_status import Evaluation, RuleStatus
from trackside.records.status import Status
from trackside.rules import catalog
from trackside.rules.checkup.diagnosis import Diagnosis, diagnose
from trackside.texts.truncation import shortened
from trackside.views.job.failure_reason import in_short
from trackside.views.job.script_remarks import CodeLine, lines_of
from trackside.views.job_setup.repeat_command import plain
from trackside.views.problems.fingerprints import failure_of, issue_id, place_of, script_line_of

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

MOST_SEEN = 50
"""Problems of one job."""
_MOST_TEXT = 500
RULES_SECONDS = 3600.0
"""How long after a job's end its rules may still find something."""
_STORED = re.compile(r".*/(?P<job>[^/]+)/source/sourcedir\.tar\.gz", re.DOTALL)
"""Where the code of a job is stored."""
_OF_JOB = "code of job "
_MOST_REPEATS = 100
_CHECKUP = "Checkup"
"""The rule that is many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A problem that a job showed."""

    issue: str
    cause: str
    """The rule that found it; of a job that failed, the exception or the kind of failure."""
    place: str = ""
    line: str = ""
    message: str = ""
    advice: str = ""
    explains: list[str]
    """Rules whose findings are its consequences."""
    step: int | None = None
    tensor: str = ""
    time: Moment = 0.0
    is_failure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFindings:
    script: str
    """Equal for jobs of the same script: see `script_of`."""
    seen: list[Seen]
    watched_by: list[str]
    """Rules that have judged it."""
    is_final: bool
    """Nothing of it changes any more."""


def read_findings(
    jobs: "JobReader", row: JobSummary, script: str | None, now: float
) -> JobFindings:
    """`script` if it is known already."""
    read = _Here(jobs, row) if isinstance(jobs, LocalReader) else _Anywhere(jobs, row)
    evaluations = read.evaluations()
    causes = diagnose(read.findings()) if evaluations else []
    seen: list[Seen] = []
    if causes or script is None or row.status == Status.FAILED:
        described = read.described(evaluations)
        script = script_of(described)
        lines = lines_of(described, jobs.settings.home) if causes else {}
        seen = [_diagnosed(each, row, lines.get(each.cause)) for each in causes]
        seen += [] if any(map(_explains_failure, causes)) else _failed(described, row)
    return JobFindings(
        script=script,
        seen=seen[:MOST_SEEN],
        watched_by=sorted({each.rule for each in evaluations if _has_judged(each)}),
        is_final=is_final(row, evaluations, now),
    )


class _Anywhere:
    """What is read of a job, by its name."""

    def __init__(self, jobs: "JobReader", row: JobSummary) -> None:
        self._jobs, self._name = jobs, row.name

    def evaluations(self) -> list[Evaluation]:
        return self._jobs.evaluations(self._name)

    def findings(self) -> list[Finding]:
        return self._jobs.findings(self._name)

    def described(self, evaluations: Sequence[Evaluation]) -> Mapping[str, Any]:
        return self._jobs.describe(self._name)


class _Here:
    """The same of a job of this machine: its record is read once."""

    def __init__(self, jobs: LocalReader, row: JobSummary) -> None:
        self._home = jobs.settings.layout
        self._record = jobs.record_of(row)

    def evaluations(self) -> list[Evaluation]:
        return read_rules(self._record, self._home)

    def findings(self) -> list[Finding]:
        updates = RuleUpdates(self._record, self._home).new()
        return [each for item in updates if isinstance(item, tuple) for each in item]

    def described(self, evaluations: Sequence[Evaluation]) -> Mapping[str, Any]:
        """Without metrics, which no issue needs."""
        return describe(self._record, JobMetrics(), evaluations)


def script_of(described: Mapping[str, Any]) -> str:
    """The program, and where it is from: the repository and the folder in it, or the folder on the
    submitter's machine; as much of that as is known. Of a job that runs the stored code of another,
    that job: see `resolved`.
    """
    options = described["Trackside"]["options"]
    git, launch = options.get("Git") or {}, options.get("Launch") or {}
    folder = options.get("InPlace") or launch.get("Folder") or ""
    source = _STORED.fullmatch(plain(described, "sagemaker_submit_directory"))
    if not folder and source and source["job"] != described["TrainingJobName"]:
        return "\n".join([_program(described, options), _OF_JOB + source["job"]])
    return "\n".join([_program(described, options), git.get("Remote") or "", folder])


def resolved(script: str, scripts: Mapping[str, str]) -> str:
    """That of the job whose stored code is run. `scripts` has the script of each job."""
    for _ in range(_MOST_REPEATS):
        _, _, of_job = script.partition(f"\n{_OF_JOB}")
        if not of_job or of_job not in scripts:
            break
        script = scripts[of_job]
    return script


def watches(rules: Sequence[str], cause: str) -> bool:
    """Whether one of these rules would have found it."""
    entry = catalog.entries().get(cause)
    return cause in rules or (entry is not None and entry.is_of_checkup and _CHECKUP in rules)


def _program(described: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    if script := plain(described, "sagemaker_program"):
        return script
    if module := options.get("Module"):
        return f"-m {module}"
    if command := options.get("Command"):
        return _program_of(command)
    image = options.get("Image") or described["AlgorithmSpecification"].get("TrainingImage")
    return str(image or "")


def _program_of(command: Sequence[str]) -> str:
    """`train.py` of `torchrun --nproc-per-node 2 train.py --lr 1`, and `-m package.train`."""
    for word, following in zip(command, [*command[1:], ""], strict=True):
        if word == "-m" and following:
            return f"-m {following}"
        if re.search(r"\.(py|sh|ipynb)$", word):
            return word
    return command[0]


def _diagnosed(cause: Diagnosis, row: JobSummary, line: CodeLine | None) -> Seen:
    own = [finding for finding in cause.findings if finding.rule == cause.cause]
    return Seen(
        issue=issue_id(cause, line.group if line else ""),
        cause=cause.cause,
        place=place_of(cause),
        line=line.place if line else shortened(script_line_of(cause), _MOST_TEXT),
        message=shortened(cause.message, _MOST_TEXT),
        advice=shortened(cause.advice, _MOST_TEXT),
        explains=[*cause.explains],
        step=cause.step,
        tensor=cause.tensor[:_MOST_TEXT],
        time=min(finding.time for finding in own) or row.created,
    )


def _explains_failure(cause: Diagnosis) -> bool:
    entry = catalog.entries().get(cause.cause)
    return entry is not None and entry.explains_failure


def _failed(described: Mapping[str, Any], row: JobSummary) -> Iterator[Seen]:
    if row.status != Status.FAILED or described["TrainingJobStatus"] != Status.FAILED:
        return  # the index of another machine may be a moment behind its records
    reason = in_short(described.get("FailureReason", ""))
    failure = failure_of(reason)
    yield Seen(
        issue=failure.issue,
        cause=failure.cause,
        line=failure.line,
        message=shortened(failure.text, _MOST_TEXT),
        explains=[],
        time=row.ended or row.created,
        is_failure=True,
    )


def _has_judged(evaluation: Evaluation) -> bool:
    return evaluation.status in (RuleStatus.NO_ISSUES_FOUND, RuleStatus.ISSUES_FOUND)


def is_final(row: JobSummary, evaluations: Sequence[Evaluation], now: float) -> bool:
    """Whether neither the job nor its rules will change anything."""
    if row.ended is None:
        return False
    return all(each.is_over for each in evaluations) or now - row.ended > RULES_SECONDS
