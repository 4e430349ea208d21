"""Issues: problems that rules found, and failures, grouped over jobs. `Issues` gathers them;
`fingerprints` says which belong together, `issue_states` what people have said about them, and
`suspects` what may have caused them.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from trackside.errors import InvalidIssueState, IssueNotFound
from trackside.files import damaged_files
from trackside.jobs.index import JobSummary
from trackside.jobs.records import UNREADABLE
from trackside.records.layout import Home
from trackside.records.status import Status
from trackside.storage.credentials import looked_up_once
from trackside.texts.shown_names import shown_name
from trackside.views.problems import issue_text
from trackside.views.problems.findings_cache import FindingsCache, Known
from trackside.views.problems.issue_states import (
    FIXED,
    MOST_MUTED_JOBS,
    MUTED,
    OPEN,
    REGRESSED,
    SETTABLE,
    Said,
    Standing,
    standing,
    states_of,
)
from trackside.views.problems.job_findings import (
    JobFindings,
    Seen,
    read_findings,
    resolved,
    watches,
)
from trackside.views.problems.suspects import Suspect, code_id, find_suspects

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

MOST_JOBS = 10_000
"""The newest that are looked at."""
MOST_NAMED = 50
"""Jobs that an issue names."""
SPARK_POINTS = 20
MOST_COMPARED = 20
"""Issues whose suspects are found in one call; those of others are known after the next ones."""
_ORDER = (REGRESSED, OPEN, MUTED, FIXED)


@dataclass(frozen=True, slots=True)
class Sighting:
    job: str
    shown: str
    step: int | None
    time: float
    tensor: str


@dataclass(frozen=True, slots=True)
class Mute:
    more_jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """The fields are those of the page's API."""

    id: str
    cause: str
    title: str
    message: str
    advice: str
    place: str
    line: str
    state: str
    num_jobs: int
    of_jobs: int
    jobs: list[str]
    """Newest first."""
    seconds: float
    """Training time of the jobs that show it."""
    first: Sighting
    last: Sighting
    spark: list[int]
    """Jobs that showed it, over time from the first until now."""
    suspects: list[Suspect]
    """What changed between `healthy` and `sick`, the likeliest cause first."""
    healthy: str | None
    """The last healthy job of the same script before `sick`."""
    sick: str
    """The first job that showed it or, if it has come back, the first since then."""
    mute: Mute | None
    said: Said | None
    """What somebody has said about it, and when."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Overview:
    issues: list[Issue]
    sentence: str
    num_unread: int = 0
    """Jobs that are not counted yet."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Watched:
    """A job and what is known of it."""

    row: JobSummary
    findings: JobFindings

    @property
    def name(self) -> str:
        return self.row.name

    def is_healthy(self, seen: Seen) -> bool:
        """Completed, judged by the rule that found the problem, and without it."""
        if self.row.status != Status.COMPLETED:
            return False
        if any(each.cause == seen.cause for each in self.findings.seen):
            return False
        return seen.is_failure or watches(self.findings.watched_by, seen.cause)


@dataclass(frozen=True, slots=True)
class Group:
    """What belongs to one issue."""

    id: str
    shown: tuple[tuple[Watched, Seen], ...]
    """By when the jobs were submitted."""
    said: Said | None

    @property
    def standing(self) -> Standing:
        return standing(self.said, [job.row.created for job, _ in self.shown])

    @property
    def is_open(self) -> bool:
        return self.standing.state in (OPEN, REGRESSED)

    @property
    def sick(self) -> tuple[Watched, Seen]:
        """The first; of an issue that came back, the first since it was called fixed."""
        if self.said is None or self.standing.state != REGRESSED:
            return self.shown[0]
        since = self.said.time
        return next(each for each in self.shown if each[0].row.created > since)

    @property
    def last_seen(self) -> float:
        return max(seen.time for _, seen in self.shown)


@dataclass(frozen=True, slots=True)
class Compared:
    healthy: str | None = None
    suspects: tuple[Suspect, ...] = ()


class Issues:
    """Of the jobs of this machine, or of a server on itself. All methods may be called from several
    threads at once."""

    def __init__(self, jobs: "JobReader", home: Home | None = None) -> None:
        self._jobs = jobs
        home = home or jobs.settings.layout
        self._cache = FindingsCache(home.issues_cache)
        self._states = states_of(jobs, home)

    def overview(
        self,
        *,
        names: Collection[str] | None = None,
        states: Collection[str] | None = None,
        seconds: float | None = None,
    ) -> Overview:
        """What needs attention first. `names`: only these jobs, such as those that a query finds.
        `states`: only issues in one of these. `seconds`: how long jobs are read that were never
        read before, the newest first; the next call reads on."""
        now = time.time()
        known, num_unread = self._watched(now, seconds)
        watched = [each for each in known if names is None or each.name in names]
        groups = grouped(watched, self._states.all())
        chosen = [each for each in groups if states is None or each.standing.state in states]
        compared = self._compared(chosen, watched)
        issues = [issue_from(each, watched, compared[each.id], now) for each in chosen]
        return Overview(issues, _sentence(groups, watched, num_unread), num_unread)

    def find(self, id: str) -> Issue:
        """By its id or the beginning of it. `IssueNotFound` unless that names exactly one."""
        now = time.time()
        watched, _ = self._watched(now)
        groups = grouped(watched, self._states.all())
        found = [each for each in groups if each.id.startswith(id)] if id else []
        found = [each for each in found if each.id == id] or found
        if len(found) != 1:
            raise IssueNotFound.of(id, [each.id for each in found])
        [group] = found
        return issue_from(group, watched, self._compared(found, watched)[group.id], now)

    def set_state(self, id: str, state: str, *, more_jobs: int = 1, by: str = "") -> Issue:
        """`by` is who says so; by default whoever runs this process. `IssueNotFound`, and
        `InvalidIssueState`."""
        _check(state, more_jobs)
        issue = self.find(id)
        newest = self._newest_of_scripts(issue)
        said = Said(
            id=issue.id,
            state=state,
            by=by or self._jobs.owner,
            time=time.time(),
            job=newest,
            code=code_id(self._jobs, newest),
            more_jobs=more_jobs if state == MUTED else 0,
        )
        self._states.say(said)
        return self.find(issue.id)

    def _newest_of_scripts(self, issue: Issue) -> str:
        watched, _ = self._watched(time.time())
        hit = {*issue.jobs}
        scripts = {each.findings.script for each in watched if each.name in hit}
        return next(each.name for each in watched if each.findings.script in scripts)

    def _watched(self, now: float, seconds: float | None = None) -> tuple[list[Watched], int]:
        """Newest first, and how many were not read for lack of time. Jobs that have ended are read
        once."""
        rows = self._jobs.list(limit=MOST_JOBS)
        known = self._cache.jobs()
        reading = _Reading(self._jobs, known, now, seconds)
        with looked_up_once():
            read = [Watched(row, each) for row in rows if (each := reading.findings_of(row))]
        found = _of_scripts(read)
        self._cache.put_jobs(reading.fresh)
        if len(rows) < MOST_JOBS:
            self._cache.forget({*known} - {row.name for row in rows})
        return found, reading.num_unread

    def _compared(self, groups: Sequence[Group], watched: Sequence[Watched]) -> dict[str, Compared]:
        known = self._cache.suspects()
        fresh: dict[tuple[str, str, str], list[Any]] = {}
        found: dict[str, Compared] = {}
        num_left = MOST_COMPARED
        for group in groups:
            (sick, seen), healthy = group.sick, last_healthy(group, watched)
            if healthy is None:
                found[group.id] = Compared()
                continue
            key = (_identity(healthy), _identity(sick), group.id)
            suspects = _parsed(known.get(key))
            if suspects is None and num_left:
                num_left -= 1
                suspects = self._suspects(healthy, sick, seen)
                if sick.findings.is_final:
                    fresh[key] = [asdict(each) for each in suspects]
            found[group.id] = Compared(healthy.name, tuple(suspects or ()))
        self._cache.put_suspects(fresh)
        return found

    def _suspects(self, healthy: Watched, sick: Watched, seen: Seen) -> list[Suspect]:
        try:
            return find_suspects(self._jobs, healthy.name, sick.name, seen)
        except UNREADABLE as error:
            damaged_files.say_once(f"job {sick.name}", f"{error}; it is not compared")
            return []

    def list(
        self, *, names: Collection[str] | None = None, states: Collection[str] | None = None
    ) -> list[Issue]:
        return self.overview(names=names, states=states).issues


class _Reading:
    """Reads jobs that are not known, or may have changed, until its time is over."""

    def __init__(self, jobs: "JobReader", known: Known, now: float, seconds: float | None) -> None:
        self._jobs = jobs
        self._known = known
        self._now = now
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self.fresh: Known = {}
        """What differs from what was known."""
        self.num_unread = 0

    def findings_of(self, row: JobSummary) -> JobFindings | None:
        """None if the job cannot be read, as when it was just deleted, or not now."""
        created, known = self._known.get(row.name, (None, None))
        if created != row.created:
            known = None
        if known is not None and known.is_final:
            return known
        if self._deadline is not None and time.monotonic() > self._deadline:
            self.num_unread += known is None
            return known
        script = None if known is None else known.script
        try:
            found = read_findings(self._jobs, row, script, self._now)
        except UNREADABLE as error:
            damaged_files.say_once(f"job {row.name}", f"{error}; it is left out of issues")
            return None
        if found != known:
            self.fresh[row.name] = row.created, found
        return found


def _of_scripts(watched: Sequence[Watched]) -> list[Watched]:
    """A job that runs the stored code of another is of that one's script."""
    scripts = {each.name: each.findings.script for each in watched}
    found = []
    for each in watched:
        script = resolved(each.findings.script, scripts)
        if script != each.findings.script:
            each = Watched(each.row, replace(each.findings, script=script))
        found.append(each)
    return found


def grouped(watched: Sequence[Watched], said: Mapping[str, Said]) -> list[Group]:
    """What needs attention first."""
    found: dict[str, list[tuple[Watched, Seen]]] = {}
    for job in sorted(watched, key=lambda each: (each.row.created, each.name)):
        for seen in {each.issue: each for each in reversed(job.findings.seen)}.values():
            found.setdefault(seen.issue, []).append((job, seen))
    groups = [Group(id, tuple(shown), said.get(id)) for id, shown in found.items()]
    groups.sort(key=lambda each: (_ORDER.index(each.standing.state), -each.last_seen, each.id))
    return groups


def last_healthy(group: Group, watched: Sequence[Watched]) -> Watched | None:
    """Of the same script, before the first sick one."""
    sick, seen = group.sick
    before = [
        each
        for each in watched
        if each.row.created < sick.row.created
        and each.findings.script == sick.findings.script
        and each.is_healthy(seen)
    ]
    # A job that is sick for another reason says less about what changed.
    whole = [each for each in before if not each.findings.seen]
    return max(whole or before, key=lambda each: each.row.created, default=None)


def issue_from(group: Group, watched: Sequence[Watched], compared: Compared, now: float) -> Issue:
    first_job, first = group.shown[0]
    _, last = group.shown[-1]
    scripts = {job.findings.script for job, _ in group.shown}
    of_jobs = sum(each.findings.script in scripts for each in watched)
    mute = group.standing.more_jobs
    return Issue(
        id=group.id,
        cause=last.cause,
        title=issue_text.title(
            first,
            num_jobs=len(group.shown),
            of_jobs=of_jobs,
            first=shown_name(first_job.name),
            since=datetime.fromtimestamp(first.time),
            now=datetime.fromtimestamp(now),
        ),
        message=last.message,
        advice=last.advice,
        place=last.place,
        line=last.line,
        state=group.standing.state,
        num_jobs=len(group.shown),
        of_jobs=of_jobs,
        jobs=[job.name for job, _ in reversed(group.shown)][:MOST_NAMED],
        seconds=sum(_trained_seconds(job.row, now) for job, _ in group.shown),
        first=_sighting(*group.shown[0]),
        last=_sighting(*group.shown[-1]),
        spark=spark([seen.time for _, seen in group.shown], now),
        suspects=[*compared.suspects],
        healthy=compared.healthy,
        sick=group.sick[0].name,
        mute=None if mute is None else Mute(mute),
        said=group.said,
    )


def spark(times: Sequence[float], now: float) -> list[int]:
    """How many fall into each part of the time from the first until now."""
    start = min(times)
    width = max(now - start, 1.0) / SPARK_POINTS
    counts = [0] * SPARK_POINTS
    for each in times:
        counts[min(SPARK_POINTS - 1, max(0, int((each - start) / width)))] += 1
    return counts


def _sentence(groups: Sequence[Group], watched: Sequence[Watched], num_unread: int) -> str:
    is_open = [each for each in groups if each.is_open]
    return issue_text.summary(
        len(is_open),
        len({job.name for each in is_open for job, _ in each.shown}),
        len(watched),
        num_unread,
        is_watched=any(each.findings.watched_by for each in watched),
    )


def _sighting(job: Watched, seen: Seen) -> Sighting:
    return Sighting(job.name, shown_name(job.name), seen.step, seen.time, seen.tensor)


def _trained_seconds(row: JobSummary, now: float) -> float:
    if row.training_started is None:
        return 0.0
    return max(0.0, (now if row.ended is None else row.ended) - row.training_started)


def _identity(job: Watched) -> str:
    """A name may be used again when its job is deleted."""
    return f"{job.name} {job.row.created}"


def _parsed(known: Sequence[Any] | None) -> list[Suspect] | None:
    try:
        return None if known is None else [Suspect(**each) for each in known]
    except TypeError:
        return None


def _check(state: str, more_jobs: int) -> None:
    if state not in SETTABLE:
        raise InvalidIssueState(
            f"An issue cannot be set to {state!r}. Set it to {', '.join(SETTABLE)}; `regressed` "
            "follows from later jobs."
        )
    if state == MUTED and not 1 <= more_jobs <= MOST_MUTED_JOBS:
        raise InvalidIssueState(
            f"An issue cannot be muted for {more_jobs} more jobs. Give a number from 1 to "
            f"{MOST_MUTED_JOBS:,}."
        )
