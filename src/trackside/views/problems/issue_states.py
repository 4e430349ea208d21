"""What people have said about issues: fixed, muted, open again. Stored durably, with who said it,
when, and which code was the newest then: in the database that several homes share, else in the
home.

Whether a fixed issue has come back, and whether a muted one is due, follows from later jobs.
"""

import fcntl
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol

from trackside.files import damaged_files, durable
from trackside.files.json_record import DamagedRecord, Moment, parsed_object, record
from trackside.files.permissions import private_opener
from trackside.jobs.index import Database
from trackside.jobs.local_reader import LocalReader
from trackside.records.layout import Home

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

OPEN, FIXED, MUTED, REGRESSED = "open", "fixed", "muted", "regressed"
STATES = (OPEN, FIXED, MUTED, REGRESSED)
SETTABLE = (OPEN, FIXED, MUTED)
MOST_MUTED_JOBS = 1_000_000
_COMPACT_BYTES = 1 << 18
"""From this size on, only the last line of each issue is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One thing that somebody said about an issue."""

    id: str
    state: str
    by: str
    time: Moment
    job: str = ""
    """The newest job of the scripts concerned at that time, …"""
    code: str = ""
    """… and what identifies its code: the commit, or a digest of its files."""
    more_jobs: int = 0
    """Of a muted issue: after how many more jobs that show it, it is open again."""

    def __post_init__(self) -> None:
        if self.state not in SETTABLE:
            raise DamagedRecord(f"{self.state!r} is no state that can be set")


@dataclass(frozen=True, slots=True)
class Standing:
    state: str
    more_jobs: int | None = None
    """How many more jobs must show a muted issue until it is open again."""


def standing(said: Said | None, created: Sequence[float]) -> Standing:
    """The state of an issue now. `created` is when each job that shows it was submitted."""
    if said is None:
        return Standing(OPEN)
    num_later = sum(moment > said.time for moment in created)
    if said.state == FIXED:
        return Standing(REGRESSED if num_later else FIXED)
    if said.state == MUTED and num_later < said.more_jobs:
        return Standing(MUTED, said.more_jobs - num_later)
    return Standing(OPEN)


class States(Protocol):
    """All methods may be called from several threads and processes at once."""

    def all(self) -> dict[str, Said]:
        """The last of each issue, by its id. What is damaged is left out."""

    def say(self, said: Said) -> None:
        """It is stored when this returns."""


class IssueStates:
    """Of one home: `States` in a file."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def all(self) -> dict[str, Said]:
        try:
            data = self._home.issue_states.read_bytes()
        except FileNotFoundError:
            return {}
        found: dict[str, Said] = {}
        num_damaged = 0
        for line in data.split(b"\n")[:-1]:
            try:
                said = record(Said, parsed_object(line))
            except DamagedRecord:
                num_damaged += 1
                continue
            found[said.id] = said
        if num_damaged:
            counted = damaged_files.counted(num_damaged, "line")
            damaged_files.say_once(self._home.issue_states, f"{counted} skipped")
        return found

    def say(self, said: Said) -> None:
        path = self._home.issue_states
        with open(self._home.issue_states_lock, "wb", opener=private_opener) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            if path.exists() and path.stat().st_size > _COMPACT_BYTES:
                kept = {**self.all(), said.id: said}
                durable.write_bytes(path, b"".join(map(_line, kept.values())))
            else:
                durable.append_lines(path, _line(said))


class SharedStates:
    """Of all homes that share a database: `States` in a table. `DatabaseError` without it."""

    def __init__(self, database: Database, before: States) -> None:
        """What this home has said `before` counts where the database knows nothing."""
        self._database = database
        self._before: States | None = before

    def all(self) -> dict[str, Said]:
        self._take_over()
        found: dict[str, Said] = {}
        for id, text in self._database.read("SELECT id, said FROM issue_states"):
            try:
                found[id] = record(Said, parsed_object(text.encode()))
            except DamagedRecord as error:
                damaged_files.say_once(f"issue {id}", f"{error}; its state is not known")
        return found

    def say(self, said: Said) -> None:
        self._take_over()
        self._database.write((f"{_PUT} DO UPDATE SET said = excluded.said", [_row(said)]))

    def _take_over(self) -> None:
        if self._before is not None:
            self._database.write((f"{_PUT} DO NOTHING", [*map(_row, self._before.all().values())]))
            self._before = None


_PUT = "INSERT INTO issue_states (id, said) VALUES (?, ?) ON CONFLICT (id)"


def states_of(jobs: "JobReader", home: Home) -> States:
    """Where they are, for these jobs."""
    here = IssueStates(home)
    database = jobs.shared_database if isinstance(jobs, LocalReader) else None
    return here if database is None else SharedStates(database, here)


def _row(said: Said) -> tuple[str, str]:
    return said.id, _line(said).decode()


def _line(said: Said) -> bytes:
    return json.dumps(asdict(said), ensure_ascii=False).encode() + b"\n"


def is_id(text: str) -> bool:
    return re.fullmatch(r"\d+-[0-9a-f]{12}", text) is not None
