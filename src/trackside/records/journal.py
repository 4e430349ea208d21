"""A job's status journal: an append-only file of JSON lines, the authoritative record of a job's
state.

Every move is one compare-and-set under a lock, on disk before it is reported. Any process of the
job may write; no process has state that is not here.

A damaged line is skipped and counted, and the lines after it count: see `fold_lines`.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from trackside.errors import DamagedJob, JobBusy, JobNotFound, MoveRefused
from trackside.files import damaged_files, durable
from trackside.files.json_record import (
    DamagedRecord,
    Moment,
    NewerFormat,
    parsed_object,
    record,
)
from trackside.quick_dataclass import dataclass
from trackside.records.death import Cause, Death
from trackside.records.layout import FORMAT
from trackside.records.status import FIRST, MESSAGES, Secondary, State, Status, can_follow
from trackside.system import boot_clock, process_table
from trackside.system.run_as import Choice

SUBMITTED = "submitted"
"""The note of who submitted a job; `owners` reads it."""
RETRY = "retry"
"""The note of an attempt that is followed by another: its cause, why in words, and how long its
script ran."""
RUN_AS = "run_as"
"""The note of which user runs the job's script, written before it starts: it stays the same
for every restart."""
UNDELIVERED = "undelivered"
"""The note of a notification that was not delivered: to whom, about what, and why."""
LOCK_SECONDS = 30.0
"""How long a command or a request waits for another writer: far longer than a line takes on a busy
disk. A writer that is suspended meanwhile would be waited for without end.
"""
MOST_ATTEMPTS = 1000
_LOCK_PAUSE_SECONDS = 0.01
_MOST_MISSING = 10_000
"""Lines that may be missing before one: bounds the numbers in it."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One secondary status the job has been in; its message may change while it lasts."""

    secondary: Secondary
    start: float
    message: str
    end: float | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class History:
    """The state that results from the journal's lines."""

    state: State
    version: int
    transitions: tuple[Transition, ...]
    attempt: int = 1
    failure_reason: str | None = None
    notes: tuple[dict[str, Any], ...] = ()
    num_damaged: int = 0
    """Lines that were skipped."""
    latest: float = field(default=0.0, compare=False)
    """The time of its last line, of any kind: no later line is older."""
    queued: boot_clock.Moment | None = field(default=None, compare=False)
    """Since when it is or was queued; None for jobs from before that was noted."""
    stopping_rule: str = ""
    """The configuration of the rule that stopped it; empty when a user did, or it was not stopped.
    """
    death: Death | None = None
    """Of the last attempt, once the job has ended; None if it completed or was stopped."""
    is_patchy: bool = field(default=False, compare=False)
    """Lines are missing or damaged since the last move, so there may have been other moves."""
    format: int = field(default=1, compare=False)
    """The version of the job's folder: `layout.FORMAT`."""

    @property
    def submitted(self) -> dict[str, Any]:
        """The note of the submitter; empty for jobs from before there was one."""
        return next((note for note in self.notes if note.get("what") == SUBMITTED), {})

    @property
    def created(self) -> float:
        return self.transitions[0].start

    @property
    def modified(self) -> float:
        return self.transitions[-1].start

    @property
    def message(self) -> str:
        return self.transitions[-1].message

    @property
    def training_started(self) -> float | None:
        """The first Downloading: from here the contract counts training time."""
        return self.first(Secondary.DOWNLOADING)

    @property
    def ended(self) -> float | None:
        return self.modified if self.state.is_final else None

    def has_trained(self, attempt: int) -> bool:
        return any(
            each.secondary is Secondary.TRAINING and each.attempt == attempt
            for each in self.transitions
        )

    @property
    def earlier_seconds(self) -> float:
        """How long the hosts ran in earlier attempts.

        The writer of a note may have died before the next attempt began, and a successor noted it
        again: the first note counts.
        """
        ran: dict[int, float] = {}
        for note in self.notes:
            if note.get("what") == RETRY:
                ran.setdefault(note.get("attempt", 1), float(note.get("seconds", 0.0)))
        return sum(ran.values())

    @property
    def earlier_deaths(self) -> tuple[Death, ...]:
        """Of the attempts that were followed by another; the first note of each counts, and one
        from before causes were recorded counts as the job's own."""
        found: dict[int, Death] = {}
        for note in self.notes:
            if note.get("what") == RETRY:
                number = note.get("attempt", 1)
                death = Death.of_line(note, number) or Death(cause=Cause.SIGNAL, attempt=number)
                found.setdefault(number, death)
        return tuple(found.values())

    @property
    def run_as(self) -> Choice:
        """Who runs its script."""
        noted = [note for note in self.notes if note.get("what") == RUN_AS]
        return Choice(noted[-1]["user"], noted[-1]["is_shared"]) if noted else Choice()

    def waited_seconds(self) -> float:
        """How long ago it was queued. After a reboot only the wall clock can tell."""
        age = self.queued.age_seconds() if self.queued else None
        return max(0.0, time.time() - self.modified) if age is None else age

    def first(self, secondary: Secondary) -> float | None:
        return next((t.start for t in self.transitions if t.secondary is secondary), None)


class Journal:
    def __init__(self, path: Path, *, lock_seconds: float | None = None) -> None:
        """`JobBusy` when another process has held its lock for `lock_seconds`. The job's own
        processes pass none, and wait: they have nothing else to do.
        """
        self.path = path
        self._lock_seconds = lock_seconds

    def open(self, message: str = "", **who: Any) -> History:
        """Write the first lines; the folder must be new (creating it claims the name).

        The submitter `who` is noted, if given.
        """
        first = _line("status", secondary=FIRST.secondary, message=message)
        return self._begin(first, *_submitted(who))

    def open_queued(self, message: str, **who: Any) -> History:
        """Like `open`, for a queued job: it is `Pending`."""
        since = asdict(boot_clock.now())
        pending = _line("status", secondary=Secondary.PENDING, message=message, since=since)
        return self._begin(_line("status", secondary=FIRST.secondary), *_submitted(who), pending)

    def read(self) -> History:
        """`DamagedJob` when no line can be read."""
        history = self._fold()
        if history is None:
            raise DamagedJob.of(self.path.parent.name, f"its journal {str(self.path)!r} is empty")
        return history

    def version_stamp(self) -> tuple[int, int]:
        """Differs whenever the journal has changed: far cheaper than reading it."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            raise JobNotFound(self.path.parent.name) from None
        return status.st_size, status.st_mtime_ns

    def move(
        self,
        to: Secondary,
        *,
        message: str = "",
        reason: str | None = None,
        attempt: int | None = None,
    ) -> History:
        """Make the move, durably. `MoveRefused` when another process was there first."""
        event = _line("status", secondary=to, message=message, reason=reason, attempt=attempt)
        return self._append(event)

    def try_move(
        self,
        to: Secondary,
        *,
        only_from: Secondary | None = None,
        death: Death | None = None,
        **details: Any,
    ) -> History:
        """Make the move if it may follow now; either way return the job's history. `death`: of an
        end that is neither by success nor by a stop."""
        with self._locked() as descriptor:
            history = self.read()
            if only_from not in (None, history.state.secondary):
                return history
            if not can_follow(history.state, to, unseen=history.is_patchy):
                return history
            died = {} if death is None else death.line
            line = _line("status", secondary=to, **details, **died)
            return self._write(descriptor, history, line)

    def say(self, message: str) -> None:
        """Change the current status's message in place; does nothing when the job has ended."""
        with self._locked() as descriptor:
            history = self.read()
            if not history.state.is_final and history.message != message:
                event = _line("message", message=message)
                self._write(descriptor, history, event, spends_ballast=False)

    def note_run_as(self, choice: Choice) -> None:
        """Before the job starts; nothing is written for our own user."""
        if choice.user:
            self.note(RUN_AS, user=choice.user, is_shared=choice.is_shared)

    def note(self, what: str, **details: Any) -> History:
        """Record something other than a status: it may follow a final one."""
        return self._append(_line("note", what=what, **details))

    def send(self, put: Callable[[bytes], object]) -> None:
        """Store a copy by `put`, and once more if a line was added meanwhile: so of several
        concurrent senders, the last one stores a complete copy.
        """
        sent = b""
        while (data := self.path.read_bytes()) != sent:
            put(data)
            sent = data

    def _begin(self, *opening: dict[str, Any]) -> History:
        """All at once, for a folder that no other process sees yet."""
        now = time.time()
        events = [{**event, "seq": seq, "time": now} for seq, event in enumerate(opening, 1)]
        events[0]["format"] = FORMAT
        lines = [*map(_encoded, events)]
        durable.create(self.path, b"".join(lines))
        return fold_lines(lines)

    def _append(self, event: dict[str, Any]) -> History:
        with self._locked() as descriptor:
            return self._write(descriptor, self._fold(), event)

    def _write(
        self,
        descriptor: int,
        history: History | None,
        event: dict[str, Any],
        *,
        spends_ballast: bool = True,
    ) -> History:
        """Append one line, after checking the resulting history."""
        after, line = appended(history, event, self._now())
        self._put(descriptor, line, spends_ballast)
        return after

    # Replaced in simulations: the clock and the file.

    def _now(self) -> float:
        return time.time()

    def _put(self, descriptor: int, line: bytes, spends_ballast: bool) -> None:
        # A caller whose move failed will repeat it: the same line twice would make the history
        # invalid.
        append = partial(durable.write_lines, descriptor, line, self.path)
        if spends_ballast:
            durable.giving_up_ballast(self.path, append)
        else:
            append()

    def _fold(self) -> History | None:
        """None before the first line."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            raise JobNotFound(self.path.parent.name) from None
        # A last line without its newline is partial, due to a crash: it was never reported.
        lines = data.split(b"\n")[:-1]
        if not lines:
            return None
        try:
            history = fold_lines(lines)
        except DamagedRecord as error:
            what = f"its journal {str(self.path)!r} is damaged: {error}"
            raise DamagedJob.of(self.path.parent.name, what) from error
        if history.num_damaged:
            damaged_files.say_once(
                self.path, f"{damaged_files.counted(history.num_damaged, 'line')} skipped"
            )
        return history

    @contextmanager
    def _locked(self) -> Iterator[int]:
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            raise JobNotFound(self.path.parent.name) from None
        try:
            self._lock(descriptor)
            durable.drop_torn_line(descriptor)
            yield descriptor
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        if self._lock_seconds is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            return
        deadline = time.monotonic() + self._lock_seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    holder = process_table.lock_holder(descriptor)
                    name = self.path.parent.name
                    raise JobBusy(name, str(self.path), self._lock_seconds, holder) from None
            time.sleep(_LOCK_PAUSE_SECONDS)


def appended(history: History | None, event: dict[str, Any], now: float) -> tuple[History, bytes]:
    """The history with this event appended, and its line. `MoveRefused` when it may not follow.
    Pure.
    """
    event["seq"] = history.version + 1 if history else 1
    # The wall clock may jump back; the order of a journal never does.
    event["time"] = max(now, history.latest if history else 0.0)
    return _fold_one(history, event), _encoded(event)


def fold_lines(lines: Iterable[bytes]) -> History:
    """The history of these lines; `DamagedRecord` when none of them can be read.

    A line counts if it is complete and its number is greater than the previous one's. A move counts
    if it may follow the status before it, or if lines between the two are missing or damaged; but
    nothing follows a final status. Other lines are skipped and counted. The next writer follows the
    same rule.
    """
    history: History | None = None
    num_damaged = 0
    problem: Exception | None = None
    for number, line in enumerate(lines, 1):
        try:
            history = _fold_one(history, _checked(line, number))
        except (DamagedRecord, MoveRefused) as error:
            num_damaged += 1
            problem = problem or error
            history = history and replace(history, is_patchy=True)
    if history is None:
        raise DamagedRecord(f"no line of it can be read ({problem or 'it has none'})")
    if history.format > FORMAT:
        raise NewerFormat(history.format)
    return replace(history, num_damaged=num_damaged) if num_damaged else history


@dataclass(frozen=True, slots=True)
class _Line:
    """The fields of all lines, and those of some kinds. Notes have more."""

    kind: str
    seq: int
    time: Moment
    secondary: Secondary | None = None
    message: str | None = None
    reason: str | None = None
    attempt: int = 1
    since: boot_clock.Moment | None = None
    what: str | None = None
    who: str | None = None
    key: str | None = None
    rule: str | None = None
    format: int = 1


def _checked(line: bytes, number: int) -> dict[str, Any]:
    """The line with this number as JSON; `DamagedRecord` if impossible."""
    event = parsed_object(line)
    known = record(_Line, event)
    needed = {"status": known.secondary, "message": known.message, "note": known.what}
    if known.kind in needed and needed[known.kind] is None:
        raise DamagedRecord(f"a {known.kind} without content")
    if not 1 <= known.seq < number + _MOST_MISSING or not 1 <= known.attempt <= MOST_ATTEMPTS:
        raise DamagedRecord(f"number {known.seq} of attempt {known.attempt}")
    return event


def _line(kind: str, **details: Any) -> dict[str, Any]:
    return {"kind": kind, **{key: value for key, value in details.items() if value is not None}}


def _submitted(who: dict[str, Any]) -> list[dict[str, Any]]:
    return [_line("note", what=SUBMITTED, **who)] if who else []


def _encoded(event: dict[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def _fold_one(history: History | None, event: dict[str, Any]) -> History:
    if history is None:
        message = event.get("message") or MESSAGES[FIRST.secondary]
        first = Transition(FIRST.secondary, event["time"], message)
        version = event.get("format", 1)
        begun = History(FIRST, event["seq"], (first,), latest=event["time"], format=version)
        is_first = event["kind"] == "status" and event["secondary"] == FIRST.secondary
        return begun if is_first else _fold_one(replace(begun, version=0), event)
    if event["seq"] <= history.version:
        raise DamagedRecord(f"line {event['seq']} behind line {history.version}")
    is_patchy = history.is_patchy or event["seq"] > history.version + 1
    latest = max(history.latest, event["time"])
    history = replace(history, version=event["seq"], is_patchy=is_patchy, latest=latest)
    match event["kind"]:
        case "status":
            return _fold_move(history, event)
        case "message":
            last = replace(history.transitions[-1], message=event["message"])
            return replace(history, transitions=(*history.transitions[:-1], last))
        case _:
            return replace(history, notes=(*history.notes, event))


def _fold_move(history: History, event: dict[str, Any]) -> History:
    secondary = Secondary(event["secondary"])
    state = history.state.after(secondary, unseen=history.is_patchy)
    attempt = event.get("attempt", history.attempt)
    ended = replace(history.transitions[-1], end=event["time"])
    message = event.get("message") or MESSAGES[secondary]
    # A final transition starts and ends at once.
    end = event["time"] if state.is_final else None
    entered = Transition(secondary, event["time"], message, end, attempt)
    since = event.get("since")
    return replace(
        history,
        state=state,
        attempt=attempt,
        transitions=(*history.transitions[:-1], ended, entered),
        queued=boot_clock.Moment.from_record(since) if since else history.queued,
        failure_reason=event.get("reason") if state.status is Status.FAILED else None,
        death=Death.of_line(event, attempt) if state.is_final else None,
        stopping_rule=event.get("rule") or history.stopping_rule,
        is_patchy=False,
    )
