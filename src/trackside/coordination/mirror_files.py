"""The files of a job's folder that the mirror copies from and to storage, on one host."""

import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trackside.coordination.coordination import EndOrder, Meeting
from trackside.coordination.documents import JournalCopy, StoredRequest
from trackside.coordination.mirror_state import (
    Deliver,
    Forget,
    KeepGeneration,
    Local,
    Plan,
    Said,
    StopJob,
    WriteJournal,
    WriteMeeting,
    WriteOrder,
    WriteRecord,
)
from trackside.files import damaged_files, durable
from trackside.files.json_record import DamagedRecord, record
from trackside.quick_dataclass import dataclass
from trackside.records import hosts as host_records
from trackside.records.host_processes import wake_supervisors
from trackside.records.hosts import HostRecord, Phase
from trackside.records.journal import Journal, fold_lines
from trackside.records.layout import JobFolder
from trackside.records.status import Secondary

TAKEN = ".taken"
"""The ending of a request's file once a process has taken it: it is not delivered again."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What the next supervisor of this host must know."""

    epoch: int = 0
    generation: int = 0
    format: int = 1


class MirrorFiles:
    def __init__(self, folder: JobFolder, plan: Plan, attempt: int) -> None:
        self._folder = folder
        self._plan = plan
        self._attempt = attempt
        self._journal_read: tuple[tuple[int, int], JournalCopy] | None = None
        self._said_read: tuple[tuple[int, ...], Said] | None = None

    @property
    def memory(self) -> Memory:
        found = damaged_files.read(Memory, self._folder.mirror) or Memory()
        return found if found.epoch == self._plan.epoch else Memory()

    def journal(self) -> JournalCopy | None:
        """As it is on the disk; None when it cannot be read, which its owner reports."""
        status = os.stat(self._folder.journal)
        version = (status.st_size, status.st_mtime_ns)
        if self._journal_read is None or self._journal_read[0] != version:
            copy = journal_copy(self._folder.journal.read_bytes())
            if copy is None:
                return None
            self._journal_read = (version, copy)
        return self._journal_read[1]

    def said(self) -> Said:
        """What this host has to tell, read again only when one of its files has changed."""
        own = self._folder.host(self._plan.host, self._attempt).record
        order = self._folder.end_order(self._attempt)
        meeting = self._folder.meeting(self._attempt)
        version = tuple(map(_changed_at, (own, order, meeting)))
        if self._said_read is None or self._said_read[0] != version:
            found = host_records.read(own)
            said = Said(
                attempt=self._attempt,
                record=None if found is None else asdict(found),
                has_ended=found is not None and found.phase is Phase.ENDED,
                order=damaged_files.read_object(order),
                meeting=damaged_files.read_object(meeting),
            )
            self._said_read = (version, said)
        return self._said_read[1]

    def asked(self) -> tuple[StoredRequest, ...]:
        """What processes of this host ask other hosts for."""
        found = []
        for host in self._plan.hosts:
            if host != self._plan.host:
                found += [damaged_files.read(StoredRequest, path) for path in self._waiting(host)]
        return tuple(each for each in found if each is not None)

    def handled(self) -> tuple[str, ...]:
        """Requests that were delivered to this host before."""
        names = _names(self._folder.requests(self._plan.host))
        return tuple(
            name.removesuffix(ending)
            for name in names
            for ending in (".json", TAKEN)
            if name.endswith(ending)
        )

    def write(self, command: Local) -> None:
        """May be repeated. What another host wrote is checked before it is taken over."""
        try:
            self._write(command)
        except DamagedRecord as error:
            kind = type(command).__name__
            damaged_files.say_once(f"what storage has for {self._folder.root} ({kind})", str(error))
        if isinstance(command, WriteJournal | WriteOrder | Deliver | StopJob):
            wake_supervisors(self._folder)

    def _write(self, command: Local) -> None:
        match command:
            case WriteJournal():
                durable.write_bytes(self._folder.journal, command.journal.text.encode())
            case WriteRecord():
                self._write_record(command)
            case WriteOrder():
                self._write_order(command)
            case WriteMeeting():
                meeting = record(Meeting, command.meeting)
                durable.write_json(self._folder.meeting(command.attempt), asdict(meeting))
            case Deliver():
                self._deliver(command.request)
            case Forget():
                self._forget(command.identifier)
            case StopJob():
                self._stop(command.request)
            case KeepGeneration():
                kept = Memory(self._plan.epoch, command.generation)
                durable.write_json(self._folder.mirror, asdict(kept))

    def _write_record(self, command: WriteRecord) -> None:
        if command.host not in self._plan.hosts:
            raise DamagedRecord(f"there is no host {command.host!r}")
        found = record(HostRecord, command.record)
        path = self._folder.host(command.host, command.attempt).record
        path.parent.mkdir(parents=True, exist_ok=True)
        host_records.write(path, found)

    def _write_order(self, command: WriteOrder) -> None:
        """The lead's own order counts, if it has one."""
        path = self._folder.end_order(command.attempt)
        if not self._plan.is_lead or not path.exists():
            durable.write_json(path, asdict(record(EndOrder, command.order)))

    def _deliver(self, request: StoredRequest) -> None:
        folder = self._folder.requests(self._plan.host)
        path = folder / f"{request.id}.json"
        if not path.with_suffix(TAKEN).exists():
            folder.mkdir(parents=True, exist_ok=True)
            durable.write_json(path, asdict(request))

    def _forget(self, identifier: str) -> None:
        for host in self._plan.hosts:
            if host != self._plan.host:
                path = self._folder.requests(host) / f"{identifier}.json"
                path.unlink(missing_ok=True)

    def _stop(self, request: StoredRequest) -> None:
        known = {key: request.details.get(key) for key in ("message", "rule")}
        details: dict[str, Any] = {key: str(each) for key, each in known.items() if each}
        Journal(self._folder.journal).try_move(Secondary.STOPPING, **details)

    def _waiting(self, host: str) -> list[Path]:
        folder = self._folder.requests(host)
        return [folder / name for name in _names(folder) if name.endswith(".json")]


def journal_copy(data: bytes) -> JournalCopy | None:
    lines = data.split(b"\n")[:-1]
    try:
        history = fold_lines(lines)
        text = b"".join(line + b"\n" for line in lines).decode()
    except (DamagedRecord, UnicodeDecodeError):
        return None
    return JournalCopy(history.version, history.state.is_final, text)


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _names(folder: Path) -> Iterable[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except FileNotFoundError:
        return ()
