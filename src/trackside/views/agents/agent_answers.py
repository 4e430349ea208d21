"""What a coding agent is told about jobs: dense plain text of bounded size, the cause first.

`cli/mcp.py` offers each method as a tool; everything here is gathered by the other views.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from trackside.errors import InputError, TracksideError
from trackside.jobs.index import JobSummary
from trackside.records.status import Status
from trackside.rules.checkup.diagnosis import diagnose
from trackside.texts.quantities import duration
from trackside.texts.shown_names import shown_name
from trackside.texts.terminal_text import one_line
from trackside.texts.truncation import plain, shortened
from trackside.views.agents.agent_comparison import compared_lines
from trackside.views.agents.agent_evidence import evidence_lines
from trackside.views.agents.agent_logs import LogsAround
from trackside.views.job.diagnosis_text import diagnosis_sentence, first_line, first_sentence
from trackside.views.job.failure_reason import in_short
from trackside.views.job.job_sources import JobSources
from trackside.views.job.job_view import Diagnosis, Job, job_view
from trackside.views.problems.issue_states import OPEN, REGRESSED
from trackside.views.problems.issues import Issue, Issues
from trackside.views.problems.job_findings import Seen, read_findings
from trackside.views.problems.suspects import Suspect
from trackside.views.query.query import parse
from trackside.views.query.search_conditions import Name, Value
from trackside.views.table.searched_table import searched, shown_names

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobService

MOST_BYTES = 3_500
"""Of an answer."""
MOST_JOBS = 50
_MOST_DIAGNOSES = 5
_MOST_COMPARED = 20
_MOST_SUSPECTS = 5
_MOST_FAILURE = 1_000
_MOST_ADVICE = 400
_DAY = 86_400.0

FindJob = Callable[[str], str]
"""The name on the wire, of what was typed: a whole name, the beginning of one, or `last`."""


class Answers:
    """All methods may be called from several threads."""

    def __init__(self, jobs: "JobService", find: FindJob) -> None:
        self._jobs = jobs
        self._find = find
        self._logs = LogsAround(jobs)
        self._issues = Issues(jobs)

    def list_jobs(self, query: str = "", limit: int = 20) -> str:
        """A line for each job that matches, newest first, with the values that the query names."""
        columns = shown_names(parse(query))
        found = [*searched(self._jobs, query, columns)]
        if not found:
            return "No job matches." if query else "There are no jobs."
        shown = found[: max(1, min(limit, MOST_JOBS))]
        lines = [self._row(job.row, values) for job, values in shown]
        if len(found) > len(shown):
            lines.append(f"… {len(found) - len(shown)} more: give a query or a higher limit.")
        return bounded(lines)

    def what_is_wrong(self, job: str = "") -> str:
        """The causes of one job, likeliest first; or the problems of all jobs."""
        if not job:
            return self._issues_of_all()
        view = job_view(self._jobs, self._find(job))
        suspects = self._suspects(view) if view.diagnoses else []
        return bounded([*_standing(view), *_causes(view), *suspects, *_more(view)])

    def _issues_of_all(self) -> str:
        if self._jobs.is_at_server:
            return bounded(self._newest_problems())
        overview = self._issues.overview(states=(OPEN, REGRESSED))
        return bounded([overview.sentence, *map(issue_line, overview.issues)])

    def _newest_problems(self) -> list[str]:
        """Of a server's jobs: one line each, with the jobs that have it."""
        problems: dict[str, list[tuple[JobSummary, str]]] = {}
        rows = self._jobs.list(limit=MOST_JOBS)
        for row in rows:
            for seen in self._seen(row):
                text = f"{seen.cause}: {first_sentence(seen.message)}"
                where = f", at {seen.line}" if seen.line and seen.line not in text else ""
                problems.setdefault(seen.issue, []).append((row, f"{text}{where}"))
        if not problems:
            return [f"Nothing is known to be wrong in the newest {len(rows)} jobs."]
        return [_problem_line(hit) for hit in problems.values()]

    def _seen(self, row: JobSummary) -> list[Seen]:
        """Grouped as the page groups them: by cause, layer and line of code."""
        try:
            return read_findings(self._jobs, row, "", time.time()).seen
        except TracksideError:
            return []  # removed meanwhile, or elsewhere

    def _suspects(self, view: Job) -> list[str]:
        """What changed since the last healthy job of the same script."""
        if self._jobs.is_at_server:
            return []
        try:
            issue = self._issues.find(view.diagnoses[0].issue)
        except (TracksideError, OSError):
            return []
        if issue.sick != view.name or issue.healthy is None:
            return []
        changed = [_suspect(each) for each in issue.suspects[:_MOST_SUSPECTS]]
        return [f"changed since {shown_name(issue.healthy)}, which was healthy:", *changed]

    def evidence(self, job: str, diagnosis: int = 1) -> str:
        """What shows that a cause of `what_is_wrong` is right; they count from 1."""
        name = self._find(job)
        sources = JobSources(self._jobs, name)
        view = job_view(self._jobs, name, sources)
        if not view.diagnoses:
            raise InputError(f"{view.shown} has no diagnosis: {view.sentence}")
        if not 1 <= diagnosis <= len(view.diagnoses):
            count = len(view.diagnoses)
            known = "1 diagnosis" if count == 1 else f"{count} diagnoses"
            raise InputError(f"{view.shown} has {known}; {diagnosis} is none of them.")
        chosen = view.diagnoses[diagnosis - 1]
        lines = [*evidence_lines(view, chosen, sources)]
        if chosen.evidence.log is not None:
            place = chosen.evidence.log
            lines.append("log at that time:")
            lines += self._logs.at_time(name, place.time, host=place.host, count=6)
        return bounded(lines)

    def compare(self, jobs: Sequence[str]) -> str:
        """Only what differs, then the last and best values of their metrics."""
        if not 2 <= len(jobs) <= _MOST_COMPARED:
            raise InputError(f"Give 2 to {_MOST_COMPARED} jobs, not {len(jobs)}.")
        names = [self._find(each) for each in jobs]
        return bounded([*compared_lines(self._jobs, names)])

    def logs_around(
        self,
        job: str,
        *,
        step: int | None = None,
        moment: float | None = None,
        pattern: str = "",
        host: str = "",
        count: int = 20,
    ) -> str:
        """Log lines around a step, a time or the first match of a regular expression; without any
        of them, the last lines."""
        name = self._find(job)
        count = max(1, min(count, 200))
        if pattern:
            return bounded(self._logs.at_pattern(name, pattern, host=host, count=count))
        if step is not None:
            return bounded(self._logs.at_step(name, step, host=host, count=count))
        if moment is not None:
            return bounded(self._logs.at_time(name, moment, host=host, count=count))
        return bounded(self._logs.tail(name, host=host, count=count))

    def stop_job(self, job: str) -> str:
        name = self._find(job)
        before = self._jobs.record(name).history.state
        if before.is_final:
            return f"{shown_name(name)} is already {before.secondary}; nothing was changed."
        return f"{shown_name(name)} is {self._jobs.stop(name).state.secondary}."

    def _row(self, row: JobSummary, values: Mapping[Name, Value | None]) -> str:
        parts = [shown_name(row.name), row.secondary, f"{_ago(row.created)} ago"]
        parts += [f"{name.text} {_value(held)}" for name, held in values.items()]
        found = first_line(self._first_problem(row))
        return f"{', '.join(parts)}{f': {found}' if found else ''}"

    def _first_problem(self, row: JobSummary) -> str:
        try:
            for cause in diagnose(self._jobs.findings(row.name)):
                return f"{cause.cause}: {diagnosis_sentence(cause)}"
            return _failure(self._jobs, row.name) if row.status == Status.FAILED else ""
        except TracksideError:
            return ""  # removed meanwhile, or elsewhere


def _failure(jobs: "JobService", name: str) -> str:
    return first_line(in_short(jobs.describe(name).get("FailureReason", ""))) or "it failed"


def bounded(lines: Sequence[str]) -> str:
    """Whole lines, up to the size of an answer; what is left out is counted."""
    kept: list[str] = []
    left = MOST_BYTES
    for number, line in enumerate(lines):
        text = shortened(plain(line).replace("\n", " "), 1_200)
        left -= len(text.encode()) + 1
        if left < 0:
            return "\n".join([*kept, f"… {len(lines) - number} more lines left out"])
        kept.append(text)
    return "\n".join(kept)


def issue_line(issue: Issue) -> str:
    """The cause, in how many jobs, and the newest of them."""
    again = ", again after it was fixed" if issue.state == REGRESSED else ""
    newest = shown_name(issue.jobs[0])
    line = f", at {issue.line}" if issue.line else ""
    return f"{one_line(issue.cause)}{again}: {one_line(issue.title)}{line}; newest in {newest}"


def _suspect(suspect: Suspect) -> str:
    before, after = (
        shortened(one_line(each), 120) or "-" for each in (suspect.before, suspect.after)
    )
    return f"  {suspect.kind} {one_line(suspect.name)}: {before} -> {after}"


def _standing(view: Job) -> Iterator[str]:
    trained = sum(
        (phase.end or time.time()) - phase.start
        for phase in view.phases
        if phase.name == "Training"
    )
    steps = [rule.last_step for rule in view.rules if rule.last_step is not None]
    parts = [view.secondary]
    if steps:
        parts.append(f"step {max(steps):,}")
    if trained:
        parts.append(f"trained {duration(trained)}")
    yield f"{view.shown}: {', '.join(parts)}."


def _causes(view: Job) -> Iterator[str]:
    if view.failure is not None:
        yield f"Failed: {one_line(view.failure.cause)}"
        if view.failure.hint:
            yield f"  try: {view.failure.hint}"
        yield from _trace(view.failure.text)
    for number, each in enumerate(view.diagnoses[:_MOST_DIAGNOSES], 1):
        yield from _cause(number, each)
    if len(view.diagnoses) > _MOST_DIAGNOSES:
        others = [each.cause for each in view.diagnoses[_MOST_DIAGNOSES:]]
        yield f"also: {', '.join(others)}"
    if not view.diagnoses and view.failure is None:
        yield view.sentence
        yield from view.gaps
    for remark in view.remarks[:_MOST_DIAGNOSES]:
        yield f"possible, by reading {one_line(remark.line)}: {remark.rule}: {remark.message}"
        yield f"  try: {shortened(one_line(remark.advice), _MOST_ADVICE)}"


def _more(view: Job) -> Iterator[str]:
    if view.diagnoses:
        yield f'More: evidence(job="{view.shown}", diagnosis=1).'


def _cause(number: int, diagnosis: Diagnosis) -> Iterator[str]:
    sure = f", {diagnosis.certainty}" if diagnosis.certainty else ""
    line = f", at {one_line(diagnosis.line)}" if diagnosis.line else ""
    yield f"{number}. {one_line(diagnosis.cause)}{sure}{line}: {diagnosis.sentence}"
    if diagnosis.advice:
        yield f"  try: {shortened(one_line(diagnosis.advice), _MOST_ADVICE)}"
    if diagnosis.explains:
        yield f"  explains: {', '.join(diagnosis.explains)}"


def _trace(text: str) -> Iterator[str]:
    """The end of what the script said."""
    lines = [line for line in plain(text).splitlines() if line.strip()][1:]
    left = _MOST_FAILURE
    kept: list[str] = []
    for line in reversed(lines):
        left -= len(line) + 3
        if left < 0:
            break
        kept.append(f"  {line}")
    yield from reversed(kept)


def _problem_line(hit: Sequence[tuple[JobSummary, str]]) -> str:
    newest, text = hit[0]
    others = [shown_name(row.name) for row, _ in hit[1:4]]
    more = f" and {len(hit) - 4} more" if len(hit) > 4 else ""
    also = f"; also in {', '.join(others)}{more}" if others else ""
    return (
        f"{shown_name(newest.name)} ({newest.secondary}, {_ago(newest.created)} ago): {text}{also}"
    )


def _value(held: Value | None) -> str:
    if held is None:
        return "-"
    return f"{held:.5g}" if isinstance(held, float) else one_line(held)


def _ago(moment: float) -> str:
    passed = max(0.0, time.time() - moment)
    return f"{passed / _DAY:.0f} days" if passed > 2 * _DAY else duration(passed)
