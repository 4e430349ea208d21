"""Searches lines for numbers in a separate process, so that a slow pattern blocks nothing else.

Python's `re` holds the interpreter's lock while it searches, and some patterns never return.
Exchanges JSON lines over its standard streams with `pattern_search.py`: first the patterns (number
and text), then lists of lines; each response has the matches and which patterns are off, and why.
"""

import json
import re
import signal
import sys
import time
import warnings
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

SPARE_SECONDS = 5.0
SHARE = 0.1
"""A pattern may use this share of a processor overall, plus this many seconds."""

Found = tuple[int, int, float]
"""Line, pattern, value."""


class TooLong(Exception):
    pass


class Pattern:
    def __init__(self, number: int, regex: str) -> None:
        with warnings.catch_warnings():  # of what a later Python may read otherwise
            warnings.simplefilter("ignore")
            self._compiled = re.compile(regex)
        self.number = number
        self._began = time.monotonic()
        self._spent = 0.0

    def search(self, lines: Sequence[str], found: list[Found]) -> int | None:
        """Adds every match that is a number. The line at which its time was up, or None."""
        share = SHARE * (time.monotonic() - self._began)
        before = time.process_time()
        at = 0
        try:
            # The script's load on the machine does not count: this timer runs with our own time.
            signal.setitimer(signal.ITIMER_VIRTUAL, max(0.01, SPARE_SECONDS + share - self._spent))
            for at, line in enumerate(lines):
                for match in self._compiled.finditer(line):
                    value = _number(match[1] if self._compiled.groups else match[0])
                    if value is not None:
                        found.append((at, self.number, value))
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except TooLong:
            return at
        self._spent += time.process_time() - before
        return None


def main() -> None:
    signal.signal(signal.SIGVTALRM, _give_up)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's; the supervisor decides
    patterns: list[Pattern] = []
    off: list[tuple[int, str]] = []
    for number, regex in json.loads(_next_line()):
        try:
            patterns.append(Pattern(number, regex))
        except re.error as error:  # valid where the job was submitted, with another Python
            off.append((number, f"is not a regular expression here ({error})"))
    while line := _next_line():
        lines = json.loads(line)
        found: list[Found] = []
        for pattern in [*patterns]:
            if (at := pattern.search(lines, found)) is not None:
                patterns.remove(pattern)
                off.append((pattern.number, f"takes too long, as on the line {lines[at][:80]!r}"))
        found.sort(key=lambda one: one[:2])  # as if line by line
        sys.stdout.write(json.dumps({"found": found, "off": off}) + "\n")
        sys.stdout.flush()
        off = []


def _give_up(number: int, frame: FrameType | None) -> NoReturn:
    raise TooLong


def _next_line() -> bytes:
    return sys.stdin.buffer.readline()


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


if __name__ == "__main__":
    main()
