"""Searches whole logs for a regular expression and gives the hits as they are found.

The expression is a user's: it runs in a process of its own (`log_search_worker`) with a time limit.
"""

import json
import os
import select
import subprocess
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, Self

from trackside.errors import InputError, InvalidPattern, TracksideError
from trackside.jobs.logs import LogLine, chosen_hosts
from trackside.jobs.records import Record
from trackside.texts.terminal_text import visible
from trackside.views.logs.log_source import SearchPart
from trackside.views.logs.open_logs import OpenLog, OpenLogs

SECONDS = 60.0
"""Of processor time, for one log."""
BLOCK_SECONDS = 3.0
"""For a block, at most a megabyte, which takes a hundredth of it with most expressions."""
_MOST_PATTERN = 2_000
_SILENT_SECONDS = 60.0
_MOST_AT_ONCE = 4
_WAIT_SECONDS = 30.0
_BLOCK_LINES = 1000
_PIPE_BYTES = 1 << 20
_WORKER = Path(__file__).with_name("log_search_worker.py")


@dataclass(frozen=True, slots=True)
class Hit:
    host: str
    attempt: int
    line: int
    """Counted from 1."""
    time: float
    text: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SearchEnd:
    """The last item of a search."""

    matches: int
    more: bool = False
    """Whether there may be further hits."""
    slow: str = ""
    """Why the search was given up; empty if it was not."""
    advice: str = "Use a simpler expression, without nested repetitions such as (a+)+."

    def as_json(self) -> dict[str, Any]:
        end: dict[str, Any] = {"done": True, "matches": self.matches, "more": self.more}
        if self.slow:
            error = {"code": "slow_pattern", "message": self.slow, "advice": self.advice}
            end["error"] = error
        return end


class Searched(Protocol):
    """One host's log of one attempt, from some line on."""

    @property
    def host(self) -> str: ...

    @property
    def attempt(self) -> int: ...

    @property
    def first_line(self) -> int:
        """Counted from 0."""

    def parts(self) -> Iterator[SearchPart]: ...

    def time_at(self, offset: int) -> float:
        """Of a byte that was given; offsets count from the first."""


class LogSearch:
    """Searches of one server or command; only a few run at a time."""

    def __init__(
        self, logs: OpenLogs, *, seconds: float = SECONDS, most_at_once: int = _MOST_AT_ONCE
    ) -> None:
        self._logs = logs
        self._seconds = seconds
        self._free = threading.BoundedSemaphore(most_at_once)

    def search(
        self,
        record: Record,
        pattern: str,
        *,
        host: str | None = None,
        attempt: int | None = None,
        first_line: int = 1,
        most: int = 1000,
    ) -> "RunningSearch":
        """All hosts and attempts, or one. `InvalidPattern` at once if it is none."""
        hosts = chosen_hosts(record, host)
        attempts = [attempt] if attempt else range(1, max(1, record.history.attempt) + 1)
        searched = (
            _OfOpenLog(self._logs.get(record, name, number), max(0, first_line - 1))
            for name in hosts
            for number in attempts
        )
        if not self._free.acquire(timeout=_WAIT_SECONDS):
            raise InputError("Other searches are running. Try again when they have ended.")
        try:
            return RunningSearch(searched, pattern, most, self._seconds, self._free.release)
        except BaseException:
            self._free.release()
            raise


class RunningSearch:
    """Iterates over the hits of these logs, one log after the other; the last item is the end.

    `close` ends it early. It has ended by itself after the last item.
    """

    def __init__(
        self,
        logs: Iterable[Searched],
        pattern: str,
        most: int = sys.maxsize,
        seconds: float = SECONDS,
        when_closed: Callable[[], None] = lambda: None,
    ) -> None:
        """`InvalidPattern` if it is none."""
        if len(pattern) > _MOST_PATTERN:
            raise InvalidPattern(pattern[:80] + "…", f"it is longer than {_MOST_PATTERN}")
        self._logs = logs
        self._pattern = pattern
        self._most = max(1, most)
        self._seconds = seconds
        self._when_closed: Callable[[], None] | None = None
        self._num_found = 0
        self._is_cancelled = False
        self._worker = self._started()
        self._when_closed = when_closed
        self._items = self._found()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Hit | SearchEnd:
        try:
            return next(self._items)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def cancel(self) -> None:
        """From any thread: whoever iterates gets the end soon, and closes it."""
        self._is_cancelled = True
        self._worker.kill()

    def close(self) -> None:
        self._worker.close()
        if self._when_closed is not None:
            self._when_closed()
            self._when_closed = None

    def _started(self) -> "_Worker":
        worker = _Worker(self._pattern, self._most - self._num_found, self._seconds)
        try:
            worker.check()
        except BaseException:
            worker.close()
            raise
        return worker

    def _found(self) -> Iterator[Hit | SearchEnd]:
        for number, log in enumerate(self._logs):
            if self._is_cancelled:
                break
            if number:
                self._worker.close()
                self._worker = self._started()
            for line, offset, text in self._worker.hits(log):
                self._num_found += 1
                shown_line, time = log.first_line + line + 1, log.time_at(offset)
                yield Hit(log.host, log.attempt, shown_line, time, visible(text))
            if self._worker.slow or self._num_found >= self._most:
                break
        yield SearchEnd(self._num_found, self._num_found >= self._most, self._worker.slow)


class _Worker:
    """The process, which searches one log."""

    def __init__(self, pattern: str, most: int, seconds: float) -> None:
        self._pattern = pattern
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pipesize=_PIPE_BYTES,
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._input = self._child.stdin
        self._messages = self._read(self._child.stdout.fileno())
        self._is_fed = False
        """By a thread, which closes the input."""
        self.slow = ""
        request = {"pattern": pattern, "most": most, "seconds": seconds}
        request["block_seconds"] = min(BLOCK_SECONDS, seconds)
        self._input.write(json.dumps(request).encode() + b"\n")
        self._input.flush()

    def check(self) -> None:
        """`InvalidPattern` if it is none."""
        match next(self._messages, {"bad": "it takes too long to read"}):
            case {"bad": why}:
                raise InvalidPattern(self._pattern, str(why))
            case {"slow": _}:
                raise InvalidPattern(self._pattern, "it takes too long to read")

    def hits(self, log: Searched) -> Iterator[tuple[int, int, str]]:
        """Line and offset, counted from 0 in what is searched, and text. `slow` afterwards says why
        not all were found."""
        self._is_fed = True
        threading.Thread(target=self._feed, args=(log.parts(),), daemon=True).start()
        num_lines = log.first_line
        for message in self._messages:
            match message:
                case [int(line), int(offset), str(text)]:
                    yield line, offset, text
                case int(searched):
                    num_lines = log.first_line + searched
                case {"slow": int(line)}:
                    num_lines = log.first_line + line
                    break
                case {"lost": why}:
                    raise InputError(
                        f"The log of {log.host} was moved while it was searched ({why}). Search "
                        "again."
                    )
                case {"done": True}:
                    return
        self.slow = (
            f"The expression {self._pattern[:200]!r} takes too long, as on line {num_lines + 1:,} "
            f"of {log.host}; the search was ended there."
        )

    def kill(self) -> None:
        self._child.kill()

    def close(self) -> None:
        if self._child.stdout is None or self._child.stdout.closed:
            return
        self._child.kill()
        self._child.stdout.close()
        self._child.wait()
        if not self._is_fed:
            self._close_input()

    def _feed(self, parts: Iterator[SearchPart]) -> None:
        with suppress(OSError, TracksideError):  # it was killed, or has enough; or a store failed
            for part in parts:
                described: dict[str, Any] = {"bytes": len(part.data), "skipped": part.skipped}
                if part.path:
                    described |= {"path": part.path, "start": part.start, "end": part.end}
                self._input.write(json.dumps(described).encode() + b"\n")
                self._input.write(part.data)
        self._close_input()

    def _close_input(self) -> None:
        with suppress(OSError):
            self._input.close()

    def _read(self, pipe: int) -> Iterator[Any]:
        """Its messages, until it ends or is silent for too long."""
        waiting = select.poll()
        waiting.register(pipe, select.POLLIN)
        begun = b""
        while waiting.poll(_SILENT_SECONDS * 1000) and (data := os.read(pipe, 1 << 16)):
            *lines, begun = (begun + data).split(b"\n")
            yield from map(json.loads, lines)


@dataclass(frozen=True, slots=True)
class _OfOpenLog:
    log: OpenLog
    first_line: int

    @property
    def host(self) -> str:
        return self.log.host

    @property
    def attempt(self) -> int:
        return self.log.attempt

    def parts(self) -> Iterator[SearchPart]:
        return self.log.parts(self._start)

    def time_at(self, offset: int) -> float:
        return self.log.times([self._start + offset])[0]

    @property
    def _start(self) -> int:
        return self.log.starts([self.first_line])[0] if self.first_line else 0


class LineStream:
    """Lines of one host and attempt that are read one by one, such as a server's."""

    first_line = 0

    def __init__(self, host: str, attempt: int, lines: Iterable[LogLine]) -> None:
        self.host = host
        self.attempt = attempt
        self._lines = lines
        self._starts: list[int] = []
        self._times: list[float] = []

    def parts(self) -> Iterator[SearchPart]:
        offset = 0
        block: list[bytes] = []
        for line in self._lines:
            self._starts.append(offset)
            self._times.append(line.time)
            offset += len(line.data)
            block.append(line.data)
            if len(block) >= _BLOCK_LINES:
                yield SearchPart(data=b"".join(block))
                block.clear()
        yield SearchPart(data=b"".join(block))

    def time_at(self, offset: int) -> float:
        return self._times[bisect_right(self._starts, offset) - 1]


def streams_of(lines_of_host: Iterable[LogLine]) -> Iterator[LineStream]:
    """A stream for each attempt of one host's lines, each to be read before the next."""
    for (host, attempt), lines in groupby(lines_of_host, lambda line: (line.host, line.attempt)):
        yield LineStream(host, attempt, lines)
