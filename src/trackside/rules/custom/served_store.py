"""The store through which a custom rule reads its trials: requests go to the evaluator.

`trial_server.py` is the other end. Objects can only be listed and read.
"""

import json
import os
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any

from trackside.errors import ObjectNotFound, StorageError
from trackside.rules.custom.trial_server import DATA, FAILED, FRAME
from trackside.storage.store import Entry, Store

_NOT_FOUND = ObjectNotFound.code


class EvaluatorLine:
    """One request at a time, from any thread of the process that was given the socket."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._answers = self._socket.makefile("rb")
        self._lock = Lock()
        self._pid = os.getpid()
        self._is_in_step = True

    def ask(self, what: str, **details: Any) -> bytes:
        if os.getpid() != self._pid:
            raise StorageError(
                "A process that a rule has started cannot read the trial. Read the values first "
                "and hand them over."
            )
        with self._lock:
            if not self._is_in_step:
                raise StorageError(
                    "A request to the evaluator was interrupted. Do not interrupt requests."
                )
            self._is_in_step = False  # an early exit leaves a partial response in the socket
            kind, data = self._exchange({"ask": what, **details})
            self._is_in_step = True
        if kind == FAILED:
            response = json.loads(data)
            raise (ObjectNotFound if response["code"] == _NOT_FOUND else StorageError)(
                response["text"]
            )
        return data

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def _exchange(self, question: dict[str, Any]) -> tuple[int, bytes]:
        self._socket.sendall(json.dumps(question).encode() + b"\n")
        pieces = []
        kind = DATA
        while kind == DATA:
            kind, size = FRAME.unpack(self._exactly(FRAME.size))
            pieces.append(self._exactly(size))
        return kind, b"".join(pieces) if kind != FAILED else pieces[-1]

    def _exactly(self, size: int) -> bytes:
        data = self._answers.read(size)
        if len(data) < size:
            raise StorageError(
                "The evaluator no longer responds: it has ended or refused the request."
            )
        return data


class ServedStore(Store):
    """One trial; keys are relative to it."""

    def __init__(self, line: EvaluatorLine, trial: int) -> None:
        self._line = line
        self._trial = trial

    def has_news(self) -> bool:
        """Whether there may be something new to read."""
        return bool(self._line.ask("news", trial=self._trial))

    def get(
        self, key: str, start: int = 0, end: int | None = None, *, etag: str | None = None
    ) -> bytes:
        return self._line.ask("read", trial=self._trial, name=key, start=start, end=end)

    def read(
        self, key: str, start: int = 0, end: int | None = None, *, etag: str | None = None
    ) -> Iterator[bytes]:
        yield self.get(key, start, end)

    def stat(self, key: str) -> Entry:
        [entry] = _entries(self._line.ask("stat", trial=self._trial, name=key))
        return entry

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        yield from _entries(self._line.ask("list", trial=self._trial, prefix=prefix, after=after))

    def put(
        self, key: str, data: bytes | Path | Iterable[bytes], *, replaces: str | None = None
    ) -> Entry:
        raise StorageError(f"{key!r} is not stored: a rule reads its trials and changes nothing.")

    def delete(self, keys: Iterable[str]) -> None:
        raise StorageError("Nothing is deleted: a rule reads its trials and changes nothing.")


def _entries(data: bytes) -> Iterator[Entry]:
    for row in data.splitlines():
        name, size_bytes, etag, modified = json.loads(row)
        yield Entry(name, size_bytes, etag, modified)
