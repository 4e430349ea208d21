"""Reads a regular expression into a tree, for `linear_pattern`.

The syntax of Python's `re`, without what needs backtracking: groups that look around, back
references, possessive repeats.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

MOST_CHARACTERS = 200
MOST_DEPTH = 20
_MOST_REPEATS = 200

Test = Callable[[str], bool]
"""Whether one character matches."""


class PatternError(ValueError):
    """What is wrong, and at which character of the pattern."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(what)
        self.at = at


@dataclass(frozen=True, slots=True)
class One:
    """One character."""

    test: Test


@dataclass(frozen=True, slots=True)
class Edge:
    """A place between characters: `^`, `$`, `b` or `B`."""

    kind: str


@dataclass(frozen=True, slots=True)
class Row:
    """One after the other; empty for nothing."""

    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    part: "Node"
    least: int
    most: int | None
    """None for any number."""


Node = One | Edge | Row | Choice | Repeat

_CLASSES: dict[str, Test] = {
    "d": str.isdecimal,
    "D": lambda each: not each.isdecimal(),
    "s": str.isspace,
    "S": lambda each: not each.isspace(),
    "w": lambda each: is_word(each),
    "W": lambda each: not is_word(each),
}
_EDGES = {"b": "b", "B": "B", "A": "^", "Z": "$"}
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "0": "\0"}
_CODES = {"x": 2, "u": 4}
_COUNT = re.compile(r"\{(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\}")
_GROUP = re.compile(r"\(\?(?:P<\w+>|:)")
_SIGNS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def read_pattern(text: str, *, ignores_case: bool) -> Node:
    """`PatternError` if it is none."""
    if len(text) > MOST_CHARACTERS:
        raise PatternError(f"it has more than {MOST_CHARACTERS} characters", MOST_CHARACTERS)
    start = 4 if text.startswith("(?i)") else 0
    reader = _Reader(text, ignores_case or start > 0, start)
    node = reader.choice()
    if reader.at < len(text):
        raise PatternError("this `)` closes nothing", reader.at)
    return node


class _Reader:
    def __init__(self, text: str, ignores_case: bool, at: int) -> None:
        self.text, self.at = text, at
        self._ignores_case = ignores_case
        self._depth = 0

    def choice(self) -> Node:
        parts = [self._row()]
        while self._take("|"):
            parts.append(self._row())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _row(self) -> Node:
        parts: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            parts.append(self._repeated())
        return parts[0] if len(parts) == 1 else Row(tuple(parts))

    def _repeated(self) -> Node:
        start = self.at
        node = self._atom()
        bounds = self._bounds()
        if bounds is None:
            return node
        if isinstance(node, Edge):
            raise PatternError("a place between characters cannot be repeated", start)
        self._take("?")  # as few as possible: the same texts match
        if self._next() and self._next() in "*+?" or self._is_count():
            raise PatternError("two repeats follow each other; put the first into (?:…)", self.at)
        return Repeat(node, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        sign = self._next()
        if sign and sign in _SIGNS:
            self.at += 1
            return _SIGNS[sign]
        if not self._is_count():
            return None
        found = _COUNT.match(self.text, self.at)
        assert found is not None
        least = int(found["least"] or 0)
        most = int(found["most"]) if found["most"] else None if found["comma"] else least
        if max(least, most or 0) > _MOST_REPEATS or most is not None and most < least:
            raise PatternError(f"repeats are {{m,n}} with m <= n <= {_MOST_REPEATS}", self.at)
        self.at = found.end()
        return least, most

    def _is_count(self) -> bool:
        """`{}` and `{,}` are texts, as other braces are."""
        found = _COUNT.match(self.text, self.at)
        return found is not None and bool(found["least"] or found["most"])

    def _atom(self) -> Node:
        start, letter = self.at, self.text[self.at]
        self.at += 1
        match letter:
            case "(":
                return self._group(start)
            case "[":
                return One(self._set(start))
            case ".":
                return One(lambda each: each != "\n")
            case "^" | "$":
                return Edge(letter)
            case "\\":
                return self._escaped(start)
            case "*" | "+" | "?":
                raise PatternError("there is nothing to repeat here", start)
        return One(self._same(letter))

    def _group(self, start: int) -> Node:
        if self._next() == "?":
            found = _GROUP.match(self.text, start)
            if found is None:
                raise PatternError("groups are (…) and (?:…); none looks around", start)
            self.at = found.end()
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise PatternError(f"more than {MOST_DEPTH} groups are nested", start)
        node = self.choice()
        self._depth -= 1
        if not self._take(")"):
            raise PatternError("this `(` is not closed", start)
        return node if isinstance(node, Choice | Row) else Row((node,))

    def _escaped(self, start: int) -> Node:
        letter = self._next()
        if letter and letter in _EDGES:
            self.at += 1
            return Edge(_EDGES[letter])
        found = self._class_or_letter(start)
        return One(self._same(found) if isinstance(found, str) else found)

    def _class_or_letter(self, start: int) -> Test | str:
        """Behind a backslash."""
        letter = self._next()
        self.at += 1
        if letter in _CLASSES:
            return _CLASSES[letter]
        if letter in _CODES:
            return self._code(_CODES[letter], start)
        if letter in _LETTERS:
            return _LETTERS[letter]
        if not letter or letter.isalnum():
            raise PatternError(f"`\\{letter}` has no meaning here", start)
        return letter

    def _code(self, num_digits: int, start: int) -> str:
        digits = self.text[self.at : self.at + num_digits]
        self.at += num_digits
        if not re.fullmatch(f"[0-9a-fA-F]{{{num_digits}}}", digits):
            raise PatternError(f"{num_digits} hexadecimal digits are needed", start)
        return chr(int(digits, 16))

    def _set(self, start: int) -> Test:
        is_negated = self._take("^")
        letters: set[str] = set()
        tests: list[Test] = []
        is_first = True
        while is_first or self._next() != "]":
            if self.at >= len(self.text):
                raise PatternError("this `[` is not closed", start)
            is_first = False
            self._item(letters, tests)
        self.at += 1
        spellings = {each for letter in letters for each in self._spellings(letter)}
        return _set_test(frozenset(spellings), tests, is_negated)

    def _item(self, letters: set[str], tests: list[Test]) -> None:
        at = self.at
        first = self._member()
        is_range = self._next() == "-" and self.text[self.at + 1 : self.at + 2] not in ("", "]")
        if not isinstance(first, str):
            if is_range:
                raise PatternError("a range needs a character at both ends", at)
            tests.append(first)
        elif not is_range:
            letters.add(first)
        else:
            self.at += 1
            last = self._member()
            if not isinstance(last, str) or last < first:
                raise PatternError("a range needs a character at both ends, in order", at)
            tests.append(self._range(first, last))

    def _member(self) -> Test | str:
        start = self.at
        self.at += 1
        return self._class_or_letter(start) if self.text[start] == "\\" else self.text[start]

    def _range(self, first: str, last: str) -> Test:
        if not self._ignores_case:
            return lambda each: first <= each <= last
        return lambda each: any(first <= one <= last for one in self._spellings(each))

    def _same(self, letter: str) -> Test:
        spellings = self._spellings(letter)
        return spellings.__contains__

    def _spellings(self, letter: str) -> frozenset[str]:
        if not self._ignores_case:
            return frozenset(letter)
        return frozenset(each for each in (letter, letter.lower(), letter.upper()) if each)

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self, letter: str) -> bool:
        is_there = self._next() == letter
        self.at += is_there
        return is_there


def _set_test(letters: frozenset[str], tests: list[Test], is_negated: bool) -> Test:
    def test(each: str) -> bool:
        return (each in letters or any(one(each) for one in tests)) is not is_negated

    return test
