"""Reads the text of a query into the parts of `query_tree`. Pure."""

import re
from collections.abc import Callable

from trackside.errors import BadQuery
from trackside.views.query.query_tree import And, Free, Node, Not, Or, Pattern, Term, Text, named
from trackside.views.query.search_conditions import Name

MOST_CHARACTERS = 2000
MOST_DEPTH = 30
MOST_PATTERNS = 10
"""Each may take some time."""
_SIGN = re.compile(r"==|!=|<=|>=|=|<|>|~")
_LOOSE_SIGN = re.compile(r"\s*(==|!=|<=|>=|=|<|>|~)\s*")
"""Blanks may stand around any sign but the colon."""
_WRITE = 'Write one like status:failed, lr>0.01, name~/bert/ or "two words".'


def read_query(text: str, *, has_fields: bool) -> Node:
    """Without fields, as for log lines, only words and patterns have a meaning: `a:b` is a word."""
    if len(text) > MOST_CHARACTERS:
        raise BadQuery(
            f"The query has {len(text):,} characters.",
            f"At most {MOST_CHARACTERS:,} are read.",
            MOST_CHARACTERS,
        )
    reader = _Reader(text, has_fields)
    node = reader.alternatives()
    if reader.at < len(text):
        raise BadQuery("This `)` closes nothing.", "Remove it, or put it into quotes.", reader.at)
    return node


class _Reader:
    def __init__(self, text: str, has_fields: bool) -> None:
        self.text, self.at = text, 0
        self._has_fields = has_fields
        self._depth = 0
        self._num_patterns = 0

    def alternatives(self) -> Node:
        parts = [self._all()]
        while self._keyword("or"):
            parts.append(self._all())
        if len(parts) > 1 and any(part == And(()) for part in parts):
            raise BadQuery("One side of `or` is empty.", _WRITE, self.at)
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _all(self) -> Node:
        parts: list[Node] = []
        while not self._is_end() and not self._sees_keyword("or"):
            if self._keyword("and"):
                continue
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _one(self) -> Node:
        if self._take("-") or self._keyword("not"):
            if self._is_end() or self._sees_keyword("or") or self._sees_keyword("and"):
                raise BadQuery("There is nothing to negate here.", _WRITE, self.at)
            return self._deeper(lambda: Not(self._one()))
        if self._take("("):
            return self._deeper(self._group)
        return self._leaf()

    def _deeper(self, read: Callable[[], Node]) -> Node:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise BadQuery(f"More than {MOST_DEPTH} levels are nested.", "Use fewer.", self.at)
        found = read()
        self._depth -= 1
        return found

    def _group(self) -> Node:
        start = self.at - 1
        node = self.alternatives()
        if not self._take(")"):
            raise BadQuery("This `(` is not closed.", "Add a `)`, or put it into quotes.", start)
        if node == And(()):
            raise BadQuery("There is nothing between these parentheses.", _WRITE, start)
        return node

    def _leaf(self) -> Node:
        start = self.at
        if self._take("~"):
            found = self._pattern_or_text(start)
            return Free(
                Text(found.text, is_quoted=True) if isinstance(found, Text) else found, start
            )
        kind, head = self._head()
        sign = self._sign() if self._has_fields else ""
        if not sign:
            return Free(Text(f"{kind}{head.text}", head.is_quoted), start)
        if not head.text:
            raise BadQuery(f"A name is missing before `{sign}`.", _WRITE, start)
        name = Name(head.text, kind[:-1]) if kind else _name(head)
        value_at = self.at
        if sign == "~":
            return Term(name, sign, _as_values(self._pattern_or_text(start)), start, value_at)
        values = self._values(start) if sign == ":" else (self._value(start, ""),)
        return Term(name, sign, values, start, value_at)

    def _head(self) -> tuple[str, Text]:
        """A word; `metric.` before a quoted one is its kind."""
        for kind in ("param.", "metric.", "tag.") if self._has_fields else ():
            if self.text.startswith(f'{kind}"', self.at):
                self.at += len(kind)
                return kind, self._quoted()
        if self._next() == '"':
            return "", self._quoted()
        return "", Text(self._bare(is_head=self._has_fields))

    def _sign(self) -> str:
        if self._take_exactly(":"):
            return ":"
        found = _LOOSE_SIGN.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return "=" if found[1] == "==" else found[1]

    def _values(self, start: int) -> tuple[Text, ...]:
        """Alternatives; an empty one, as while typing, is left out."""
        values = [self._value(start, ",", is_needed=False)]
        while self._take_exactly(","):
            values.append(self._value(start, ",", is_needed=False))
        given = tuple(value for value in values if value.text or value.is_quoted)
        return given or (self._value(start, ","),)

    def _value(self, start: int, end: str, *, is_needed: bool = True) -> Text:
        if self._next() == '"':
            return self._quoted()
        found = self._bare(end)
        if not found and is_needed:
            typed = self.text[start : self.at].strip()
            raise BadQuery(f"A value is missing behind `{typed}`.", _WRITE, self.at)
        return Text(found, is_quoted=found.startswith("="))  # or it would become a part of the sign

    def _pattern_or_text(self, start: int) -> Text | Pattern:
        if self._next() != "/":
            return self._value(start, "")
        begin = self.at
        self._num_patterns += 1
        if self._num_patterns > MOST_PATTERNS:
            advice = "Put several into one, as /bert|gpt/."
            raise BadQuery(f"There are more than {MOST_PATTERNS} patterns.", advice, begin)
        self.at += 1
        letters = []
        while (letter := self._next()) != "/":
            if not letter:
                raise BadQuery(
                    "This pattern is not closed.",
                    r"Add a `/`; a slash within it is written as \/.",
                    begin,
                )
            is_slash = self.text.startswith("\\/", self.at)
            width = 2 if letter == "\\" else 1
            letters.append("/" if is_slash else self.text[self.at : self.at + width])
            self.at += width
        self.at += 1
        return Pattern("".join(letters), self._take_exactly("i"))

    def _quoted(self) -> Text:
        start = self.at
        self.at += 1
        letters = []
        while (letter := self._next()) != '"':
            if not letter:
                raise BadQuery(
                    "This quote is not closed.",
                    r'Add a `"`; a quote within it is written as \".',
                    start,
                )
            if letter == "\\" and self.text[self.at + 1 : self.at + 2] in ('"', "\\"):
                self.at += 1
                letter = self._next()
            letters.append(letter)
            self.at += 1
        self.at += 1
        return Text("".join(letters), is_quoted=True)

    def _bare(self, end: str = "", *, is_head: bool = False) -> str:
        """Up to a blank or a parenthesis that is not opened within it."""
        start, num_open = self.at, 0
        while (letter := self._next()) and not letter.isspace() and letter != '"':
            if letter == ")" and not num_open or end and letter == end:
                break
            if is_head and (letter in ":(" or _SIGN.match(self.text, self.at)):
                break
            num_open += {"(": 1, ")": -1}.get(letter, 0)
            self.at += 1
        return self.text[start : self.at]

    def _sees_keyword(self, word: str) -> bool:
        self._skip_blanks()
        end = self.at + len(word)
        if self.text[self.at : end].lower() != word:
            return False
        following = self.text[end : end + 1]
        if following and not following.isspace() and following not in '()"':
            return False
        return not (self._has_fields and _LOOSE_SIGN.match(self.text, end))

    def _keyword(self, word: str) -> bool:
        is_there = self._sees_keyword(word)
        self.at += len(word) * is_there
        return is_there

    def _is_end(self) -> bool:
        self._skip_blanks()
        return self._next() in ("", ")")

    def _take(self, letter: str) -> bool:
        self._skip_blanks()
        return self._take_exactly(letter)

    def _take_exactly(self, letter: str) -> bool:
        is_there = self._next() == letter
        self.at += is_there
        return is_there

    def _skip_blanks(self) -> None:
        while self._next().isspace():
            self.at += 1

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]


def _name(head: Text) -> Name:
    return Name(head.text) if head.is_quoted else named(head.text)


def _as_values(found: Text | Pattern) -> tuple[Text, ...] | Pattern:
    return found if isinstance(found, Pattern) else (found,)
