"""The expressions of SageMaker's Search: parsed, and applied to one record. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trackside.api.validation import invalid

MOST_PARTS = 20
_KEYED = {
    "Tags": ("Key", "Value"),
    "Metrics": ("MetricName", "Value"),
}
"""Lists whose items are found by a key, as `Tags.team`; metrics are the final ones."""
_LIST_NAMES = {"Metrics": "FinalMetricDataList"}
_PRESENCE = ("Exists", "NotExists")

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "Equals": lambda held, wanted: bool(held == wanted),
    "NotEquals": lambda held, wanted: bool(held != wanted),
    "GreaterThan": lambda held, wanted: bool(held > wanted),
    "GreaterThanOrEqualTo": lambda held, wanted: bool(held >= wanted),
    "LessThan": lambda held, wanted: bool(held < wanted),
    "LessThanOrEqualTo": lambda held, wanted: bool(held <= wanted),
}
OPERATORS = (*_COMPARE, "Contains", "In", *_PRESENCE)


@dataclass(frozen=True, slots=True)
class Filter:
    name: str
    operator: str = "Equals"
    value: str = ""

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> "Filter":
        name, operator = given.get("Name"), given.get("Operator", "Equals")
        if not isinstance(name, str) or not name:
            raise invalid("A filter of the search expression has no Name.")
        if operator not in OPERATORS:
            known = ", ".join(OPERATORS)
            raise invalid(f"The operator {operator!r} is not known. Known: {known}.")
        if operator not in _PRESENCE and "Value" not in given:
            raise invalid(f"The filter on {name!r} has no Value, which {operator} needs.")
        return cls(name, operator, str(given.get("Value", "")))

    def matches(self, record: Mapping[str, Any]) -> bool:
        held = value_at(record, self.name)
        if self.operator in _PRESENCE:
            return (held is not None) is (self.operator == "Exists")
        if held is None:
            return self.operator == "NotEquals"
        if self.operator == "Contains":
            return self.value in str(held)
        if self.operator == "In":
            return any(_compare("Equals", held, part.strip()) for part in self.value.split(","))
        return _compare(self.operator, held, self.value)


@dataclass(frozen=True, slots=True)
class Nested:
    """Filters that one item of a list must pass together."""

    list_name: str
    filters: Sequence[Filter]

    def matches(self, record: Mapping[str, Any]) -> bool:
        items = value_at(record, self.list_name)
        if not isinstance(items, list):
            return False
        return any(all(each.matches(item) for each in self.filters) for item in items)


@dataclass(frozen=True, slots=True)
class Expression:
    parts: Sequence["Filter | Nested | Expression"] = ()
    is_any: bool = False
    """Or, rather than And."""

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> "Expression":
        operator = given.get("Operator", "And")
        if operator not in ("And", "Or"):
            raise invalid(f"The operator {operator!r} of the search expression is not And or Or.")
        parts: list[Filter | Nested | Expression] = [
            Filter.parse(each) for each in _list(given, "Filters")
        ]
        parts += [_nested(each) for each in _list(given, "NestedFilters")]
        parts += [cls.parse(each) for each in _list(given, "SubExpressions")]
        return cls(parts, operator == "Or")

    @property
    def names(self) -> set[str]:
        """What a record must have for this to be decided."""
        return set(self._names())

    def matches(self, record: Mapping[str, Any]) -> bool:
        if not self.parts:
            return True
        return (any if self.is_any else all)(part.matches(record) for part in self.parts)

    def _names(self) -> Iterator[str]:
        for part in self.parts:
            match part:
                case Filter(name=name) | Nested(list_name=name):
                    yield name
                case Expression():
                    yield from part.names


def value_at(record: Mapping[str, Any], name: str) -> Any:
    """By a dotted path; keys of maps and of keyed lists may have dots themselves."""
    head, _, rest = name.partition(".")
    if head in _KEYED and rest:
        key, value = _KEYED[head]
        items = record.get(_LIST_NAMES.get(head, head), ())
        return next((item.get(value) for item in items if item.get(key) == rest), None)
    held = record.get(head)
    if not rest or held is None:
        return held
    if not isinstance(held, Mapping):
        return None
    return held[rest] if rest in held else value_at(held, rest)


def _nested(given: Mapping[str, Any]) -> Nested:
    path = given.get("NestedPropertyName")
    if not isinstance(path, str) or not path:
        raise invalid("A nested filter of the search expression has no NestedPropertyName.")
    filters = [Filter.parse(each) for each in _list(given, "Filters")]
    # Names inside are given with the path of the list, or without.
    return Nested(
        path,
        [Filter(each.name.removeprefix(f"{path}."), each.operator, each.value) for each in filters],
    )


def _list(given: Mapping[str, Any], member: str) -> list[Mapping[str, Any]]:
    items = given.get(member) or []
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise invalid(f"{member} of the search expression is not a list of objects.")
    if len(items) > MOST_PARTS:
        raise invalid(f"{member} of the search expression has more than {MOST_PARTS} entries.")
    return items


def _compare(operator: str, held: Any, wanted: str) -> bool:
    compare = _COMPARE[operator]
    if isinstance(held, bool):
        return compare(str(held).lower(), wanted.lower())
    if isinstance(held, int | float):
        number = _number(wanted)
        return operator == "NotEquals" if number is None else compare(held, number)
    return compare(str(held), wanted)


def _number(text: str) -> float | None:
    """A number, or a time as ISO text: times are numbers on the wire."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
