"""Searches the bytes of a log for a regular expression in a process of its own, which is killed
when the expression takes too long: Python's `re` holds the interpreter's lock while it searches.

Reads from its standard input a line of JSON (`pattern`, `most`, `seconds`, `block_seconds`), then
parts: a line of JSON with `bytes` and that many bytes, or with the `path`, `start` and `end` of a
file to read; `skipped` is a number for a stored chunk, see `log_source.SearchPart`. Writes lines of
JSON: first `{}` or `{"bad": why}`, then a `[line, offset, text]` for each hit, both counted from 0
in what it was given, and a number after each block, how many lines it has searched. The last is
`{"done": true}`, `{"slow": line}`, or `{"lost": why}` if a file is gone.
"""

import json
import re
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, BinaryIO, NoReturn

MOST_TEXT = 2000
"""Characters of a hit."""
_PART_BYTES = 1 << 20
"""A longer line is searched in parts."""
_BLOCK_BYTES = 1 << 16
"""Small enough to be read into the same memory again and again."""
_STAMP_LENGTH = len("2026-11-15T22:50:46.123Z ")
"""As in `records/log_lines.py`, which takes longer to import than this needs to start."""
_READING_SECONDS = 3.0
_MEMORY_BYTES = 2 << 30
_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-OQ-WYZ\\`-~]"
)


Matches = Iterator[tuple[int, str, re.Match[str]]]
"""Number of a line, the text that was searched, which may be a part of it, and what was found."""
Matching = Callable[[list[str]], Matches]


class TooLong(Exception):
    pass


class LineSearch:
    """The state between two blocks."""

    def __init__(self, pattern: str, most: int) -> None:
        with warnings.catch_warnings():  # of what a later Python may read otherwise
            warnings.simplefilter("ignore")
            self._compiled = re.compile(pattern)
        self._ignores_case = bool(self._compiled.flags & re.IGNORECASE)
        self._literals = required_texts(pattern)
        self._left = most
        self._carried = b""
        """The beginning of a line that has not ended."""
        self._offset = 0
        self._hit_line = -1
        self.line = 0

    @property
    def is_full(self) -> bool:
        return self._left <= 0

    def hits(self, block: bytes) -> Iterator[tuple[int, int, str]]:
        """Of all lines that end in this block; call `rest` after the last."""
        data = self._carried + block
        end = data.rfind(b"\n") + 1
        if end:
            yield from self._in_lines(data[:end])
        self._carried = data[end:]
        if len(self._carried) > _PART_BYTES and not self.is_full:
            yield from self._in_part(self._carried)
            self._offset += len(self._carried)
            self._carried = b""

    def hits_in_chunk(self, chunk: bytes, skipped: int) -> Iterator[tuple[int, int, str]]:
        """The same for a stored chunk; one that cannot have a hit is not taken apart."""
        is_whole = not skipped and not self._carried and chunk.endswith(b"\n")
        if is_whole and not self._may_hit(chunk):
            num_lines = chunk.count(b"\n")
            self.line += num_lines
            self._offset += len(chunk) - num_lines * _STAMP_LENGTH
        elif is_whole and not self._literals and b"\x1b" not in chunk and b"\r" not in chunk:
            for block in _whole_lines(chunk):
                yield from self._each_line(block, self._matching_plain, _STAMP_LENGTH)
                self._offset += len(block) - block.count(b"\n") * _STAMP_LENGTH
                if self.is_full:
                    return
        else:
            raw = b"\n".join([line[_STAMP_LENGTH:] for line in chunk.split(b"\n")])
            yield from self.hits(raw[skipped:])

    def _may_hit(self, data: bytes) -> bool:
        if not self._literals or b"\x1b" in data or b"\r" in data:
            return True
        if self._ignores_case:
            if not data.isascii():
                return True
            data = data.lower()
        return any(literal in data for literal in self._literals)

    def rest(self) -> Iterator[tuple[int, int, str]]:
        """Of the last line, which has no end."""
        if self._carried and not self.is_full:
            yield from self._in_part(self._carried)

    def _in_part(self, data: bytes) -> Iterator[tuple[int, int, str]]:
        for text in searched_texts(data.decode(errors="replace")):
            if self._hit_line != self.line and (found := self._compiled.search(text)):
                yield self._hit(self.line, self._offset, text, found)

    def _in_lines(self, data: bytes) -> Iterator[tuple[int, int, str]]:
        if b"\x1b" in data or b"\r" in data:
            yield from self._each_line(data, self._matching_careful)
        elif not self._literals or (self._ignores_case and not data.isascii()):
            yield from self._each_line(data, self._matching_plain)
        else:
            yield from self._by_literals(data)
        self._offset += len(data)

    def _each_line(
        self, data: bytes, matching: "Matching", stamp: int = 0
    ) -> Iterator[tuple[int, int, str]]:
        """`stamp`: the characters before each line that are not the log's."""
        lines = data.decode(errors="replace").split("\n")
        del lines[-1]  # what follows the last newline
        if stamp:
            lines = [line[stamp:] for line in lines]
        first, counted, at = self.line, 0, 0
        for number, text, found in matching(lines):
            if first + number == self._hit_line:
                continue
            for _ in range(number - counted):
                at = data.find(b"\n", at) + 1
            counted = number
            yield self._hit(first + number, self._offset + at - number * stamp, text, found)
            if self.is_full:
                return
        self.line = first + len(lines)

    def _matching_plain(self, lines: list[str]) -> "Matches":
        """Most of the time is spent here, and so without a loop of our own."""
        results: list[re.Match[str] | None] = []
        too_long = None
        try:
            results.extend(map(self._compiled.search, lines))
        except TooLong as error:
            too_long = error
        for number, found in enumerate(results):
            if found:
                yield number, lines[number], found
        if too_long is not None:
            self.line += len(results)
            raise too_long

    def _matching_careful(self, lines: list[str]) -> "Matches":
        """Without sequences, and each state of a progress bar."""
        number = 0
        try:
            for number, line in enumerate(lines):
                text, found = self._first_match(line)
                if found:
                    yield number, text, found
        except TooLong:
            self.line += number
            raise

    def _first_match(self, line: str) -> tuple[str, re.Match[str] | None]:
        if "\r" not in line and "\x1b" not in line:
            return line, self._compiled.search(line)
        for text in searched_texts(line):
            if found := self._compiled.search(text):
                return text, found
        return "", None

    def _by_literals(self, data: bytes) -> Iterator[tuple[int, int, str]]:
        number, counted = self.line, 0
        for start, end in lines_with(self._literals, data.lower() if self._ignores_case else data):
            text = data[start:end].decode(errors="replace")
            number += data.count(b"\n", counted, start)
            counted = start
            self.line = number
            if (found := self._compiled.search(text)) and number != self._hit_line:
                yield self._hit(number, self._offset + start, text, found)
                if self.is_full:
                    return
        self.line = number + data.count(b"\n", counted)

    def _hit(
        self, number: int, offset: int, text: str, found: re.Match[str]
    ) -> tuple[int, int, str]:
        self._left -= 1
        self._hit_line = number
        if len(text) > MOST_TEXT:  # the part with the match
            start = max(0, min(found.start() - 200, len(text) - MOST_TEXT))
            text = f"{'…' if start else ''}{text[start : start + MOST_TEXT]}…"
        return number, offset, text


def searched_texts(line: str) -> Iterator[str]:
    """The line without sequences; of a progress bar, each of its states."""
    text = _SEQUENCE.sub("", line) if "\x1b" in line else line
    yield from filter(None, text.split("\r")) if "\r" in text else (text,)


def lines_with(literals: Sequence[bytes], data: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each line that has one of these texts."""
    places = {literal: data.find(literal) for literal in literals}
    while places := {literal: at for literal, at in places.items() if at >= 0}:
        found = min(places.values())
        end = data.find(b"\n", found)
        end = len(data) if end < 0 else end
        yield data.rfind(b"\n", 0, found) + 1, end
        for literal, at in places.items():
            if at < end:
                places[literal] = data.find(literal, end)


def required_texts(pattern: str) -> list[bytes]:
    """Every match has one of these texts in it; none if that is not known."""
    try:
        from re import _constants, _parser  # type: ignore[attr-defined]

        parsed = _parser.parse(pattern)
    except (ImportError, RecursionError):  # another Python; it is only faster with it
        return []
    texts = _required(parsed, _constants)
    if any(len(text) < 2 or "\ufffd" in text or not text.isprintable() for text in texts):
        return []
    ignores_case = parsed.state.flags & re.IGNORECASE
    if ignores_case and not all(map(str.isascii, texts)):
        return []
    return [(text.lower() if ignores_case else text).encode() for text in texts]


def _required(parsed: Any, names: Any) -> list[str]:
    """Of all that could be used, the alternatives whose shortest text is longest."""
    found: list[list[str]] = []
    run = ""
    for code, argument in parsed:
        if code is names.LITERAL:
            run += chr(argument)
            continue
        found.append([run] if run else [])
        run = ""
        if code is names.SUBPATTERN and not argument[1] and not argument[2]:  # no flags of its own
            found.append(_required(argument[3], names))
        elif code is names.MAX_REPEAT and argument[0] > 0:
            found.append(_required(argument[2], names))
        elif code is names.BRANCH:
            each = [_required(part, names) for part in argument[1]]
            found.append([text for texts in each for text in texts] if all(each) else [])
    found.append([run] if run else [])
    return max(found, key=lambda texts: (min(map(len, texts), default=0), -len(texts)))


Part = tuple[bytes, int | None]
"""Bytes, and `skipped` if they are a stored chunk."""


def parts(file: BinaryIO) -> Iterator[Part]:
    while header := file.readline():
        part = json.loads(header)
        skipped = part["skipped"]
        if "path" not in part:
            yield file.read(part["bytes"]), skipped
        else:
            for block in _blocks(part["path"], part["start"], part["end"], skipped is not None):
                yield block, skipped


def _whole_lines(chunk: bytes) -> Iterator[bytes]:
    """A chunk, which ends with a line, in parts of about the size of a block."""
    start = 0
    while start < len(chunk):
        end = chunk.find(b"\n", min(start + _BLOCK_BYTES, len(chunk) - 1)) + 1
        yield chunk[start:end]
        start = end


def _blocks(path: str, start: int, end: int, is_chunk: bool) -> Iterator[bytes]:
    with open(path, "rb", buffering=0) as file:
        if is_chunk:
            yield file.read()
            return
        file.seek(start)
        while start < end and (block := file.read(min(_BLOCK_BYTES, end - start))):
            start += len(block)
            yield block


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's; the parent decides
    signal.signal(signal.SIGVTALRM, _give_up)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    request = json.loads(sys.stdin.buffer.readline())
    search = None
    try:
        _allow(_READING_SECONDS)
        search = LineSearch(request["pattern"], request["most"])
        _say({})
        _search(search, request["block_seconds"], request["seconds"])
    except (TooLong, MemoryError):
        _say({"slow": search.line if search else 0})
    except OSError as error:
        _say({"lost": str(error)})
    except (re.error, OverflowError, RecursionError) as error:
        _say({"bad": str(error)})


def _search(search: LineSearch, block_seconds: float, seconds: float) -> None:
    for block, skipped in parts(sys.stdin.buffer):
        _allow(min(block_seconds, seconds - time.process_time()))
        hits = search.hits(block) if skipped is None else search.hits_in_chunk(block, skipped)
        for hit in hits:
            _say(hit)
        if search.is_full:
            break
        _say(search.line)
    else:
        for hit in search.rest():
            _say(hit)
    _allow(0)
    _say({"done": True})


def _allow(seconds: float) -> None:
    """The load of others on the machine does not count: this timer runs with our own time."""
    if seconds < 0:
        raise TooLong
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


def _say(message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _give_up(number: int, frame: FrameType | None) -> NoReturn:
    raise TooLong


if __name__ == "__main__":
    main()
