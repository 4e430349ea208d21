"""Filter patterns about the fields of a message that is a JSON object: `{ $.loss > 3 }`. Pure.

A message without the field fits only `NOT EXISTS`; one that is not a JSON object fits nothing.
"""

import json
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

Test = Callable[[Any], bool]
Steps = tuple[str | int, ...]
"""To a field: names of members and numbers of items."""

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<mark> && | \|\| | [()] )
      | (?P<field> \$ (?: \.[\w-]+ | \[\d{1,6}\] | \['[^']*'\] )+ )
      | (?P<sign> != | <= | >= | = | < | > )
      | (?P<quoted> "(?:[^"\\]|\\.)*" )
      | (?P<bare> [^\s"=!<>&|()]+ )
    )\s*""",
    re.VERBOSE,
)
_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]|\['([^']*)'\]")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_ORDERED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_NAMED = {"NULL": None, "TRUE": True, "FALSE": False}
_MOST_DEEP = 20
_ABSENT = object()


class Malformed(ValueError):
    """Describes what is wrong with a pattern."""


def json_pattern(text: str) -> Callable[[str], bool]:
    """`Malformed` for an invalid pattern."""
    if not text.endswith("}"):
        raise Malformed("the brace is open")
    parser = _Parser(_tokens(text[1:-1]))
    test = parser.either()
    if parser.left:
        raise Malformed(f"unexpected {parser.left[0][1]!r}")

    def matches(message: str) -> bool:
        if not message.lstrip().startswith("{"):
            return False
        try:
            found = json.loads(message)
        except (ValueError, RecursionError):
            return False
        return test(found)

    return matches


def _tokens(text: str) -> list[tuple[str, str]]:
    """Each with its kind."""
    found, position = list[tuple[str, str]](), 0
    while position < len(text) and not text[position:].isspace():
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise Malformed(f"{text[position:].strip()!r} cannot be read")
        found.append((match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return found


class _Parser:
    """By descent: `||` binds less than `&&`, and both less than a comparison."""

    def __init__(self, tokens: Sequence[tuple[str, str]]) -> None:
        self.left = list(tokens)
        self._depth = 0

    def either(self) -> Test:
        tests = [self._both()]
        while self._took("||"):
            tests.append(self._both())
        return lambda found: any(test(found) for test in tests)

    def _both(self) -> Test:
        tests = [self._one()]
        while self._took("&&"):
            tests.append(self._one())
        return lambda found: all(test(found) for test in tests)

    def _one(self) -> Test:
        if not self._took("("):
            return self._comparison()
        self._depth += 1
        if self._depth > _MOST_DEEP:
            raise Malformed("its parentheses are too deep")
        test = self.either()
        self._depth -= 1
        if not self._took(")"):
            raise Malformed("a parenthesis is open")
        return test

    def _comparison(self) -> Test:
        steps = _steps(self._next("field", "a field such as $.name"))
        words = self._words()
        if words == ["NOT", "EXISTS"]:
            return lambda found: _at(found, steps) is _ABSENT
        if words == ["EXISTS"]:
            return lambda found: _at(found, steps) is not _ABSENT
        if len(words) == 2 and words[0] == "IS" and words[1] in _NAMED:
            wanted = _NAMED[words[1]]
            return lambda found: _at(found, steps) is wanted
        if words:
            raise Malformed(f"{' '.join(words)!r} is none of IS NULL, IS TRUE and NOT EXISTS")
        return _compared(steps, self._next("sign", "a comparison"), self._value())

    def _words(self) -> list[str]:
        words = []
        while self.left and self.left[0][0] == "bare":
            words.append(self.left.pop(0)[1].upper())
        return words

    def _value(self) -> str:
        if self.left and self.left[0][0] == "quoted":
            return re.sub(r"\\(.)", r"\1", self.left.pop(0)[1][1:-1])
        value = self._next("bare", "a value")
        if value.startswith("%"):
            raise Malformed("regular expressions are not offered here")
        return value

    def _took(self, mark: str) -> bool:
        if self.left and self.left[0] == ("mark", mark):
            del self.left[0]
            return True
        return False

    def _next(self, kind: str, wanted: str) -> str:
        if not self.left or self.left[0][0] != kind:
            there = repr(self.left[0][1]) if self.left else "the end"
            raise Malformed(f"{wanted} is expected before {there}")
        return self.left.pop(0)[1]


def _steps(field: str) -> Steps:
    matches = _STEP.finditer(field)
    return tuple(int(each[2]) if each[2] else each[1] or each[3] or "" for each in matches)


def _at(found: Any, steps: Steps) -> Any:
    for step in steps:
        if isinstance(step, int):
            there = isinstance(found, list) and step < len(found)
        else:
            there = isinstance(found, dict) and step in found
        if not there:
            return _ABSENT
        found = found[step]
    return found


def _compared(steps: Steps, sign: str, wanted: str) -> Test:
    if sign in _ORDERED:
        if not _NUMBER.fullmatch(wanted):
            raise Malformed(f"{wanted!r} is not a number, and {sign!r} compares numbers")
        compare, number = _ORDERED[sign], float(wanted)
        return lambda found: _is_number(there := _at(found, steps)) and compare(there, number)
    matches = _equal(wanted)
    if sign == "=":
        return lambda found: matches(_at(found, steps))
    return lambda found: (there := _at(found, steps)) is not _ABSENT and not matches(there)


def _equal(wanted: str) -> Test:
    number = float(wanted) if _NUMBER.fullmatch(wanted) else None
    parts = wanted.split("*")

    def matches(there: Any) -> bool:
        if _is_number(there):
            return number is not None and there == number
        return isinstance(there, str) and _is_like(there, parts)

    return matches


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_like(text: str, parts: Sequence[str]) -> bool:
    """The parts between stars must appear in order; searched greedily, so in linear time."""
    first, *rest = parts
    if not rest:
        return text == first
    *middle, last = rest
    if len(text) < len(first) + len(last):
        return False
    if not (text.startswith(first) and text.endswith(last)):
        return False
    position, end = len(first), len(text) - len(last)
    for part in middle:
        position = text.find(part, position, end)
        if position < 0:
            return False
        position += len(part)
    return True
