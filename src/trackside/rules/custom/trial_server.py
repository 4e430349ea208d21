"""Serves a job's trials to a custom rule: the evaluator's end of `served_store.py`.

The rule has neither credentials for a store nor access to the job's folder. It sends requests over
a socket, one line of JSON each, and may read only its own source and its trials. A response is any
number of data frames, then one with the result.
"""

import json
import logging
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any

from trackside.errors import ObjectNotFound, TracksideError
from trackside.rules.plain_files import open_file_below
from trackside.rules.saved.feeds import STORE_SECONDS, pulse
from trackside.storage.folder import FolderStore, version_of
from trackside.storage.locate import Location
from trackside.storage.store import Entry, check_key

logger = logging.getLogger(__name__)

FRAME = struct.Struct("!BI")
"""Frame type and number of bytes that follow."""
DATA, DONE, FAILED = 0, 1, 2
_QUESTION_BYTES = 1 << 16
_PIECE_BYTES = 1 << 20
_LISTED = 500
"""Entries per frame."""
_JOIN_SECONDS = 1.0


class ServedTrial:
    """One location whose objects a rule may read, by their names relative to it."""

    def __init__(self, place: Location, trusted: Path | None = None) -> None:
        """Below the folder `trusted`, by default the store's own, no link is followed."""
        self._store = place.store
        self._prefix = place.child("x").key[:-1]
        self._base: Path | None = None
        self._below = ""
        if isinstance(place.store, FolderStore):
            self._base = trusted or place.store.root
            inside = os.path.relpath(place.store.root, self._base)
            self._below = "" if inside == "." else f"{inside}/"
        local = place.local
        self.has_news: Callable[[], bool] = (
            _CheckInterval().is_over if local is None else pulse(local)
        )

    def list(self, prefix: str, after: str) -> Iterator[Entry]:
        after = self._prefix + after if after else ""
        for entry in self._store.list(self._prefix + prefix, after):
            name = entry.key.removeprefix(self._prefix)
            yield Entry(name, entry.size_bytes, entry.etag, entry.modified)

    def stat(self, name: str) -> Entry:
        check_key(name)
        if self._base is None:
            found = self._store.stat(self._prefix + name)
            return Entry(name, found.size_bytes, found.etag, found.modified)
        with self._opened(name) as descriptor:
            status = os.fstat(descriptor)
            return Entry(name, status.st_size, version_of(status), status.st_mtime)

    def read(self, name: str, start: int, end: int | None) -> Iterator[bytes]:
        check_key(name)
        if self._base is None:
            yield from self._store.read(self._prefix + name, start, end)
            return
        with self._opened(name) as descriptor:
            size = os.fstat(descriptor).st_size
            end = size if end is None else min(end, size)
            while start < end:
                piece = os.pread(descriptor, min(end - start, _PIECE_BYTES), start)
                if not piece:
                    return
                start += len(piece)
                yield piece

    @contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        assert self._base is not None
        try:
            descriptor = open_file_below(self._base, f"{self._below}{self._prefix}{name}")
        except FileNotFoundError:
            raise ObjectNotFound(f"{name!r} is not in the trial. Check the name.") from None
        try:
            yield descriptor
        finally:
            os.close(descriptor)


class TrialServer:
    """Owns one thread from `start` to `close`. Pass `far` to the rule's process before `start`."""

    def __init__(
        self, trials: Sequence[Callable[[], ServedTrial]], source: Callable[[], Location] | None
    ) -> None:
        """Each trial is opened at its first request: that may take time, and may fail."""
        self._near, self.far = socket.socketpair()
        self._finders = list(trials)
        self._trials: dict[int, ServedTrial] = {}
        self._source = source
        self._thread = Thread(target=self._run, name="trackside-rule-trials", daemon=True)

    def start(self) -> None:
        self.far.close()
        self._thread.start()

    def close(self) -> None:
        """Further requests of the rule get no response."""
        self.far.close()
        with suppress(OSError):
            self._near.shutdown(socket.SHUT_RDWR)
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)  # the thread may be waiting for a store
        self._near.close()

    def _run(self) -> None:
        try:
            with self._near.makefile("rb") as questions:
                while (line := questions.readline(_QUESTION_BYTES)).endswith(b"\n"):
                    self._answer(json.loads(line))
        except OSError:
            return  # the rule has ended, or the evaluator has
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            logger.warning("a custom rule asks for what it cannot have: %r", error)
        finally:
            with suppress(OSError):
                self._near.shutdown(socket.SHUT_RDWR)

    def _answer(self, asked: dict[str, Any]) -> None:
        pieces = self._pieces(asked)
        while True:
            try:
                piece = next(pieces, None)
            except (TracksideError, OSError) as error:
                code = getattr(error, "code", TracksideError.code)
                response = json.dumps({"code": code, "text": str(error)})
                return self._send(FAILED, response.encode())
            if piece is None:
                return self._send(DONE, b"")
            self._send(DATA, piece)

    def _pieces(self, asked: dict[str, Any]) -> Iterator[bytes]:
        match asked["ask"]:
            case "source":
                assert self._source is not None
                place = self._source()
                yield from place.store.read(place.key)
            case "list":
                yield from _listed(self._trial(asked).list(asked["prefix"], asked["after"]))
            case "stat":
                yield from _listed(iter([self._trial(asked).stat(asked["name"])]))
            case "read":
                yield from self._trial(asked).read(asked["name"], asked["start"], asked["end"])
            case "news":
                yield b"1" if self._trial(asked).has_news() else b""
            case other:
                raise ValueError(other)

    def _trial(self, asked: dict[str, Any]) -> ServedTrial:
        number = asked["trial"]
        if number not in self._trials:
            self._trials[number] = self._finders[number]()
        return self._trials[number]

    def _send(self, kind: int, data: bytes) -> None:
        self._near.sendall(FRAME.pack(kind, len(data)) + data)


def _listed(entries: Iterator[Entry]) -> Iterator[bytes]:
    """One line per object."""
    while batch := list(islice(entries, _LISTED)):
        rows = [[each.key, each.size_bytes, each.etag, each.modified] for each in batch]
        yield b"".join(json.dumps(row).encode() + b"\n" for row in rows)


class _CheckInterval:
    """Minimum interval between checks of a store without a cheaper way to detect changes."""

    def __init__(self) -> None:
        self._due = 0.0

    def is_over(self) -> bool:
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + STORE_SECONDS
        return True
