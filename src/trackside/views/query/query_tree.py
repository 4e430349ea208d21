"""The parts of a parsed query, and their text: parsing that gives the same parts again. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from trackside.views.query.query_fields import FIELD, FIELDS
from trackside.views.query.search_conditions import Name


@dataclass(frozen=True, slots=True)
class Text:
    """A word or value as typed; quoted, its characters have no other meaning."""

    text: str
    is_quoted: bool = False

    def __str__(self) -> str:
        return quoted(self.text) if self.is_quoted else self.text


@dataclass(frozen=True, slots=True)
class Pattern:
    """`/text/`, `/text/i`."""

    text: str
    ignores_case: bool = False

    def __str__(self) -> str:
        slashed = self.text.replace("/", r"\/")
        return f"/{slashed}/{'i' if self.ignores_case else ''}"


@dataclass(frozen=True, slots=True)
class Free:
    """A word without a name before it: what is searched contains it, or matches it."""

    what: Text | Pattern
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"~{self.what}" if isinstance(self.what, Pattern) else str(self.what)


@dataclass(frozen=True, slots=True)
class Term:
    """A name, a sign, and values: several are alternatives."""

    name: Name
    sign: str
    values: tuple[Text, ...] | Pattern
    at: int = field(default=0, compare=False)
    value_at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        values = self.values
        shown = str(values) if isinstance(values, Pattern) else ",".join(map(str, values))
        return f"{_named(self.name)}{self.sign}{shown}"


@dataclass(frozen=True, slots=True)
class Not:
    part: "Node"

    def __str__(self) -> str:
        return f"-{_grouped(self.part, And, Or)}"


@dataclass(frozen=True, slots=True)
class And:
    """No parts match everything."""

    parts: "tuple[Node, ...]"

    def __str__(self) -> str:
        return " ".join(_grouped(part, And, Or) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    parts: "tuple[Node, ...]"

    def __str__(self) -> str:
        return " or ".join(_grouped(part, Or) for part in self.parts)


Node = Free | Term | Not | And | Or


def leaves(node: Node) -> Iterator[Free | Term]:
    match node:
        case Free() | Term():
            yield node
        case Not(part):
            yield from leaves(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from leaves(part)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def named(typed: str) -> Name:
    """A name as typed, without quotes: a field's in any case, or another's."""
    lower = typed.lower()
    return Name(lower, FIELD) if lower in FIELDS else Name.parse(typed)


def _named(name: Name) -> str:
    if name.kind == FIELD:
        return name.text
    kind = f"{name.kind}." if name.kind else ""
    is_plain = all(each.isalnum() or each in "_./-@" for each in name.text)
    is_plain = is_plain and name.text[:1] not in ("", "-")
    is_plain = is_plain and (bool(kind) or named(name.text) == name)
    return kind + (name.text if is_plain else quoted(name.text))


def _grouped(node: Node, *kinds: type[Node]) -> str:
    return f"({node})" if isinstance(node, kinds) else str(node)
