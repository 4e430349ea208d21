"""A job's status journal: an append-only file of JSON lines, the truth about where a job stands.

Every move is one compare-and-set under a lock, on disk before anybody is told. Any process of the
job may write; nobody keeps state that is not here.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trackside import durable
from trackside.errors import JobNotFound
from trackside.run_as import Choice
from trackside.status import FIRST, MESSAGES, Secondary, State, Status, can_follow

SUBMITTED = "submitted"
"""The note of who submitted a job; `owners` reads it."""
RETRY = "retry"
"""The note of an attempt that is followed by another: why, and how long its script ran."""
RUN_AS = "run_as"
"""The note of which user runs the job's script, written before it starts: it stays the same
whoever starts it again."""


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
    """What the journal says, folded."""

    state: State
    version: int
    transitions: tuple[Transition, ...]
    attempt: int = 1
    failure_reason: str | None = None
    notes: tuple[dict[str, Any], ...] = ()

    @property
    def submitted(self) -> dict[str, Any]:
        """The note of who submitted it; empty for jobs from before there was one."""
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
    def run_as(self) -> Choice:
        """Who runs its script."""
        noted = [note for note in self.notes if note.get("what") == RUN_AS]
        return Choice(noted[-1]["user"], noted[-1]["is_shared"]) if noted else Choice()

    def first(self, secondary: Secondary) -> float | None:
        return next((t.start for t in self.transitions if t.secondary is secondary), None)


class Journal:
    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, message: str = "", **who: Any) -> History:
        """Write the first lines; the folder must be new (making it is the claim of the name).

        `who` submitted it is noted, if that is told.
        """
        first = _line("status", secondary=FIRST.secondary, message=message)
        return self._begin(first, *_submitted(who))

    def open_queued(self, message: str, **who: Any) -> History:
        """As `open`, for a job that waits: it is `Pending`."""
        pending = _line("status", secondary=Secondary.PENDING, message=message)
        return self._begin(_line("status", secondary=FIRST.secondary), *_submitted(who), pending)

    def read(self) -> History:
        return fold(self._events())

    def look(self) -> tuple[int, int]:
        """Differs whenever the journal has changed: far cheaper than to read it."""
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
        self, to: Secondary, *, only_from: Secondary | None = None, **details: Any
    ) -> History:
        """Make the move if it may follow now; either way return where the job stands."""
        with self._locked() as descriptor:
            history = fold(self._events())
            if only_from not in (None, history.state.secondary):
                return history
            if not can_follow(history.state, to):
                return history
            return self._write(descriptor, history, _line("status", secondary=to, **details))

    def say(self, message: str) -> None:
        """Change the present status's message in place; silent when the job has ended."""
        with self._locked() as descriptor:
            history = fold(self._events())
            if not history.state.is_final and history.message != message:
                self._write(descriptor, history, _line("message", message=message))

    def note_run_as(self, choice: Choice) -> None:
        """Before the job starts; nothing is written for our own user."""
        if choice.user:
            self.note(RUN_AS, user=choice.user, is_shared=choice.is_shared)

    def note(self, what: str, **details: Any) -> History:
        """Record something that is no status: it may follow a final one."""
        return self._append(_line("note", what=what, **details))

    def send(self, put: Callable[[bytes], object]) -> None:
        """Store a copy by `put`, and once more if a line came meanwhile: so of several who send
        at once, the last to come through leaves a copy that lacks nothing."""
        sent = b""
        while (data := self.path.read_bytes()) != sent:
            put(data)
            sent = data

    def _begin(self, *opening: dict[str, Any]) -> History:
        """All at once, for a folder that nobody else sees yet."""
        now = time.time()
        events = [{**event, "seq": seq, "time": now} for seq, event in enumerate(opening, 1)]
        durable.create(self.path, b"".join(map(_encoded, events)))
        return fold(events)

    def _append(self, event: dict[str, Any]) -> History:
        with self._locked() as descriptor:
            events = self._events()
            return self._write(descriptor, fold(events) if events else None, event)

    def _write(self, descriptor: int, history: History | None, event: dict[str, Any]) -> History:
        """Append one line; what it would make of the history is checked first."""
        event["seq"] = history.version + 1 if history else 1
        # The wall clock may jump back; the order of a journal never does.
        event["time"] = max(time.time(), history.modified if history else 0.0)
        after = _fold_one(history, event)
        line = _encoded(event)
        # Who is told that the move was not made will make it again: the same line twice would be
        # a history that nobody can read.
        durable.giving_up_ballast(
            self.path, lambda: durable.write_lines(descriptor, line, self.path)
        )
        return after

    def _events(self) -> list[dict[str, Any]]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            raise JobNotFound(self.path.parent.name) from None
        # A last line without its newline was torn by a crash: it was never announced.
        return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]

    @contextmanager
    def _locked(self) -> Iterator[int]:
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            raise JobNotFound(self.path.parent.name) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            durable.drop_torn_line(descriptor)
            yield descriptor
        finally:
            os.close(descriptor)


def fold(events: list[dict[str, Any]]) -> History:
    history: History | None = None
    for event in events:
        history = _fold_one(history, event)
    if history is None:
        raise ValueError("a journal without a line has no history")
    return history


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
        return History(FIRST, event["seq"], (first,))
    history = replace(history, version=event["seq"])
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
    state = history.state.after(secondary)
    attempt = event.get("attempt", history.attempt)
    ended = replace(history.transitions[-1], end=event["time"])
    message = event.get("message") or MESSAGES[secondary]
    # A final transition starts and ends at once.
    end = event["time"] if state.is_final else None
    entered = Transition(secondary, event["time"], message, end, attempt)
    return replace(
        history,
        state=state,
        attempt=attempt,
        transitions=(*history.transitions[:-1], ended, entered),
        failure_reason=event.get("reason") if state.status is Status.FAILED else None,
    )
