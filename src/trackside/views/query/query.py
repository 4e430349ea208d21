"""The language in which jobs, metrics and log lines are searched, wherever a text is typed: command
line, page, API. docs/query.md describes it. Pure: what a job has is looked up by the caller.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from trackside.errors import BadQuery
from trackside.views.query.query_fields import FIELD, FIELDS
from trackside.views.query.query_match import judge_of, nearest, text_judge
from trackside.views.query.query_syntax import read_query
from trackside.views.query.query_tree import And, Free, Node, Not, Or, Pattern, Term, leaves, named
from trackside.views.query.search_conditions import Name, Value

Lookup = Callable[[Name], Sequence[Value]]
"""What a job has under a name; empty if nothing. Names of the kind `field` are those of
`query_fields`, those without a kind are a hyperparameter's, a metric's or a tag's."""
Test = Callable[[Lookup], bool]
T = TypeVar("T")

NAME = Name("name", FIELD)
_HAS = Name("has", FIELD)


@dataclass(frozen=True, slots=True)
class Query:
    """`str` gives a text that parses to the same query."""

    tree: Node
    _test: Test = field(compare=False, repr=False)

    def matches(self, lookup: Lookup) -> bool:
        return self._test(lookup)

    @property
    def names(self) -> tuple[Name, ...]:
        """What must be known of each job."""
        found = (name for leaf in leaves(self.tree) for name in _names_of(leaf))
        return tuple(dict.fromkeys(found))

    @property
    def is_empty(self) -> bool:
        return self.tree == And(())

    def check_names(self, is_known: Callable[[Name], bool], known: Collection[Name]) -> None:
        """`BadQuery` for one that no job has, if it is near to one that some have: a slip."""
        for leaf in leaves(self.tree):
            for name in _names_of(leaf):
                if name.kind != FIELD and not is_known(name):
                    _refuse_slip(name, known, leaf.at)

    def __str__(self) -> str:
        return str(self.tree)


@dataclass(frozen=True, slots=True)
class TextQuery:
    """Finds texts: names of metrics, log lines."""

    tree: Node
    _test: Callable[[str], bool] = field(compare=False, repr=False)

    def matches(self, text: str) -> bool:
        return self._test(text)

    def __str__(self) -> str:
        return str(self.tree)


def parse(text: str, now: datetime | None = None) -> Query:
    """A query for jobs; an empty one matches all. `now` is what ages count from.

    `BadQuery` with the place if it cannot be understood.
    """
    tree = read_query(text, has_fields=True)
    moment = now or datetime.now()
    return Query(tree, _joined(tree, lambda leaf: _job_test(leaf, moment)))


def parse_text_query(text: str) -> TextQuery:
    """A query for texts: only words, patterns, `-`, `or` and parentheses have a meaning."""
    tree = read_query(text, has_fields=False)
    return TextQuery(tree, _joined(tree, _text_test))


def _joined(
    node: Node, test_of: Callable[[Free | Term], Callable[[T], bool]]
) -> Callable[[T], bool]:
    """One test of all."""
    match node:
        case Free() | Term():
            return test_of(node)
        case Not(part):
            negated = _joined(part, test_of)
            return lambda subject: not negated(subject)
        case And(parts):
            tests = [_joined(part, test_of) for part in parts]
            return lambda subject: all(test(subject) for test in tests)
        case Or(parts):
            tests = [_joined(part, test_of) for part in parts]
            return lambda subject: any(test(subject) for test in tests)


def _job_test(leaf: Free | Term, now: datetime) -> Test:
    if isinstance(leaf, Term) and leaf.name == _HAS:
        wanted = _names_of(leaf)
        return lambda lookup: any(lookup(name) for name in wanted)
    judge = text_judge(leaf.what, leaf.at + 2) if isinstance(leaf, Free) else judge_of(leaf, now)
    (name,) = _names_of(leaf)
    if isinstance(leaf, Term) and leaf.sign == "!=":  # of several values, none may be this one
        return lambda lookup: bool(held := lookup(name)) and all(map(judge, held))
    return lambda lookup: any(map(judge, lookup(name)))


def _text_test(leaf: Free | Term) -> Callable[[str], bool]:
    assert isinstance(leaf, Free)
    return text_judge(leaf.what, leaf.at + 2)


def _names_of(leaf: Free | Term) -> tuple[Name, ...]:
    if isinstance(leaf, Free):
        return (NAME,)
    if leaf.name != _HAS:
        return (leaf.name,)
    if isinstance(leaf.values, Pattern) or leaf.sign != ":":
        raise BadQuery("`has` needs a name.", "Write one like has:lr or has:metric.loss.", leaf.at)
    return tuple(named(value.text) for value in leaf.values)


def _refuse_slip(name: Name, known: Collection[Name], at: int) -> None:
    alike = [each.text for each in known if not name.kind or each.kind == name.kind]
    fields = [] if name.kind else list(FIELDS)
    if near := nearest(name.text, [*fields, *alike]):
        meant = f"{name.kind}.{near}" if name.kind else near
        raise BadQuery(f"No job has {str(name)!r}.", f"Did you mean {meant!r}?", at)
