"""Finds the exception that ended a Python process in its output, and the user's own line.

Output of ranks is separated by the prefixes of torchrun and mpirun. `process_failure` formats the
message.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace

from trackside.quick_dataclass import dataclass

HEADER = "Traceback (most recent call last):"

_RANK = re.compile(r"(?:(\[rank\d+\]:) ?|(\[\d+,\d+\]<std(?:err|out)>:))?(.*)")
_GROUP_MARGIN = re.compile(r"^ +[|] ")
"""Prefix of each line of an exception within a group."""
_FRAME = re.compile(r'\s*File "(?P<path>.+?)", line (?P<line>\d+)(?:,? in (?P<function>.+))?')
_CARETS = re.compile(r"\s*[~^]+\s*|\s+\.\.\.<\d+ lines>\.\.\.")
_LINKS = {
    "The above exception was the direct cause of the following exception:": "caused by",
    "During handling of the above exception, another exception occurred:": "while handling",
}
# Printed by launchers about the failed process; its own output comes before.
_LAUNCHER = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"
_ROOT_CAUSE = "Root Cause (first observed failure):"
_FIELD = re.compile(r"  (rank|exitcode) +: (-?\d+)")
_ELASTIC = re.compile(r"[WEIF]\d{4} \d\d:\d\d:\d\d.* torch/distributed/")
_NOT_OF_MESSAGE = re.compile(r"[WEIF]\d{4} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|={8}|-{8}")
"""What loggers and launchers print after an exception."""
_FAULT = "Fatal Python error: "
_LIBRARY = re.compile(r"(?:.*/)?(?:site|dist)-packages/|.*/lib(?:64)?/python\d[\d.]*/")
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""The folder of Trackside."""
_MOST_MESSAGE_LINES = 12


@dataclass(frozen=True, slots=True)
class Frame:
    path: str
    line: int
    function: str
    source: str = ""

    def is_users(self, code: str) -> bool:
        """In the code folder, or at least not in a library or Trackside."""
        if self.path.startswith("<") or _LIBRARY.match(self.path):
            return False
        return _is_below(self.path, code) or not self.path.startswith(_OURS)

    def place(self, code: str) -> str:
        """`train.py:41 in main`, by the name that the user knows."""
        below = f"{code.rstrip('/')}/"
        path = self.path[len(below) :] if self.path.startswith(below) else self.path
        if found := _LIBRARY.match(path):
            path = path[found.end() :]
        return f"{path}:{self.line}" + (f" in {self.function}" if self.function else "")


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception as printed."""

    message: tuple[str, ...]
    """The first line begins with the type."""
    frames: tuple[Frame, ...]
    link: str = ""
    """What `cause` is: "caused by", or "while handling"."""
    cause: Raised | None = None

    def frame(self, code: str) -> Frame | None:
        """The innermost of the user's own; if all are in libraries, the innermost."""
        own = [frame for frame in self.frames if frame.is_users(code)] or self.frames
        return own[-1] if own else None


@dataclass(frozen=True, slots=True)
class FailedRank:
    number: int
    code: int
    """Its exit code; a signal is its negative number."""
    before: tuple[str, ...]
    """The output before the launcher's report."""


def raised(lines: Sequence[str]) -> Raised | None:
    """The last exception of a process itself, not of its launcher; None without one."""
    split = [_of_rank(line) for line in lines]
    # After a prompt or a progress bar it starts in the middle of a line.
    starts = [i for i, (_, text) in enumerate(split) if text.endswith(HEADER)]
    for start in reversed(starts):
        rank = split[start][0]
        found = _parsed([text for other, text in split[start:] if other == rank])
        if found is not None and not found.message[0].startswith(_LAUNCHER):
            link, cause = _led_to([text for other, text in split[:start] if other == rank])
            return replace(found, link=link, cause=cause)
    return None if starts else _headless([text for _, text in split])


def fault(lines: Sequence[str]) -> Raised | None:
    """The output of Python's faulthandler, if enabled: the innermost frame comes first."""
    start = next((i for i in reversed(range(len(lines))) if lines[i].startswith(_FAULT)), None)
    if start is None:
        return None
    rest = lines[start + 1 :]
    current = next((i for i, line in enumerate(rest) if line.startswith("Current thread")), None)
    frames: list[Frame] = []
    for line in [] if current is None else rest[current + 1 :]:
        found = _FRAME.fullmatch(line)
        if found is None:
            break
        frames.append(_frame(found))
    return Raised((lines[start],), tuple(reversed(frames)))


def first_failed_rank(lines: Sequence[str]) -> FailedRank | None:
    """What torchrun reports about the first of its processes that failed."""
    start = next((i for i, line in enumerate(lines) if line.startswith(_ROOT_CAUSE)), None)
    if start is None:
        return None
    reported = {found[1]: int(found[2]) for line in lines[start:] if (found := _FIELD.match(line))}
    if not reported.keys() >= {"rank", "exitcode"}:
        return None
    by_launcher = next(i for i, line in enumerate(lines) if i == start or _ELASTIC.match(line))
    return FailedRank(reported["rank"], reported["exitcode"], tuple(lines[:by_launcher]))


def without_ranks(lines: Sequence[str]) -> list[str]:
    return [_of_rank(line)[1] for line in lines]


def _of_rank(line: str) -> tuple[str, str]:
    found = _RANK.fullmatch(line)
    assert found is not None  # it matches every line
    return found[1] or found[2] or "", _GROUP_MARGIN.sub("", found[3])


def _parsed(block: Sequence[str]) -> Raised | None:
    """`block` begins with the header."""
    at = next((i for i, text in enumerate(block[1:], 1) if text and not text[0].isspace()), 0)
    if not at:
        return None
    message = (block[at], *_rest_of_message(block[at + 1 :]))
    return Raised(message, tuple(_frames(block[1:at])))


def _headless(lines: Sequence[str]) -> Raised | None:
    """Frames without a header: it was cut off, or a file of the script does not compile."""
    ends = [i for i, text in enumerate(lines) if i and text[:1].strip() and lines[i - 1][:1] == " "]
    if not ends:
        return None
    start = ends[-1]
    while start and lines[start - 1][:1] == " ":
        start -= 1
    found = _parsed([HEADER, *lines[start:]])
    return found if found is not None and found.frames else None


def _led_to(before: Sequence[str]) -> tuple[str, Raised | None]:
    """The exception before this one, if Python marks them as related."""
    filled = [i for i, text in enumerate(before) if text.strip()]
    link = _LINKS.get(before[filled[-1]], "") if filled else ""
    starts = [i for i, text in enumerate(before) if text.endswith(HEADER)]
    if not link or not starts:
        return "", None
    return link, _parsed(before[starts[-1] : filled[-1]])


def _rest_of_message(lines: Sequence[str]) -> list[str]:
    """Up to the next blank line, or to the output of another process."""
    found: list[str] = []
    for text in lines[:_MOST_MESSAGE_LINES]:
        if not text.strip() or _NOT_OF_MESSAGE.match(text) or text.endswith(HEADER):
            break
        found.append(text)
    return found


def _frames(lines: Sequence[str]) -> list[Frame]:
    frames: list[Frame] = []
    for number, text in enumerate(lines):
        found = _FRAME.fullmatch(text)
        if found is None:
            continue
        follows = lines[number + 1] if number + 1 < len(lines) else ""
        is_source = not _FRAME.fullmatch(follows) and not _CARETS.fullmatch(follows)
        frames.append(_frame(found, follows.strip() if is_source else ""))
    return frames


def _frame(found: re.Match[str], source: str = "") -> Frame:
    return Frame(found["path"], int(found["line"]), found["function"] or "", source)


def _is_below(path: str, folder: str) -> bool:
    return not os.path.isabs(path) or path.startswith(folder.rstrip("/") + "/")
