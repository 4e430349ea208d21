"""All built-in rules by the name that `rule_to_invoke` has, without importing any of them.

What is known of each is in `catalog.json`, which `python -m tests.rules.write_catalog` makes from
the classes; a test fails while the two differ.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from trackside.quick_dataclass import dataclass
from trackside.rules.needs import Need
from trackside.rules.parameters import Parameter
from trackside.rules.rule_kinds import Kind

if TYPE_CHECKING:
    from trackside.rules.builtin import BuiltInRule

FILE = Path(__file__).with_name("catalog.json")


class UnknownRule(ValueError):
    """No built-in rule has this name; the message has the nearest."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One rule, as its class declares it."""

    name: str
    group: str
    """By what it watches: a heading of the list of all rules."""
    module: str
    is_profiler_rule: bool
    is_of_checkup: bool
    doc: str
    """The docstring: a line, then paragraphs."""
    watches: str
    """Collections of tensors, with commas, or what else it judges."""
    is_complete: bool
    """It can be used without giving any parameter."""
    parameters: tuple[Parameter, ...]
    needs: tuple[Need, ...]
    """Of the rule with default parameters; those of the check-up come with it."""
    advice: str
    kind: Kind
    explains: tuple[str, ...]
    leaves_training_loss: bool
    is_independent: bool
    explains_failure: bool
    ranks_before_if_at_start: str
    rests_on: tuple[str, ...]

    @property
    def summary(self) -> str:
        return self.doc.partition("\n")[0]

    def load(self) -> "type[BuiltInRule[Any]]":
        """Its class; imports its module, and numpy."""
        return cast("type[BuiltInRule[Any]]", getattr(import_module(self.module), self.name))


@cache
def entries() -> Mapping[str, Entry]:
    """By name, in the order in which they are listed; those of the check-up from the likeliest
    cause on."""
    return {record["name"]: _entry(record) for record in json.loads(FILE.read_text())}


def groups() -> dict[str, list[Entry]]:
    """The same by what they watch."""
    found: dict[str, list[Entry]] = {}
    for entry in entries().values():
        found.setdefault(entry.group, []).append(entry)
    return found


def find(name: str) -> "type[BuiltInRule[Any]]":
    """The class, by its name in any letter case, with or without underscores."""
    return find_entry(name).load()


def find_entry(name: str) -> Entry:
    by_key = {_key(each): entry for each, entry in entries().items()}
    key = _key(name.partition("-")[0])  # the SDK's DetailedProfilerProcessingJobConfig-<time>
    if key in by_key:
        return by_key[key]
    raise UnknownRule(
        f"No rule is called {name!r}.{_suggestion(key, by_key)} `trackside rules` lists them."
    )


def _suggestion(key: str, by_key: Mapping[str, Entry]) -> str:
    from difflib import get_close_matches  # only for names that are wrong

    near = get_close_matches(key, by_key, n=1)
    return f" Did you mean {by_key[near[0]].name!r}?" if near else ""


def _key(name: str) -> str:
    return name.replace("_", "").lower()


def _entry(record: dict[str, Any]) -> Entry:
    return Entry(
        **{
            **record,
            "kind": Kind(record["kind"]),
            "explains": tuple(record["explains"]),
            "rests_on": tuple(record["rests_on"]),
            "parameters": tuple(_parameters(record["parameters"])),
            "needs": tuple(_needs(record.get("needs", ()))),
        }
    )


def _parameters(records: list[dict[str, Any]]) -> Iterator[Parameter]:
    for each in records:
        default = each["default"]
        yield Parameter(
            **{**each, "default": tuple(default) if isinstance(default, list) else default}
        )


def _needs(records: Iterable[dict[str, Any]]) -> Iterator[Need]:
    for each in records:
        yield Need(**{**each, "reductions": tuple(each.get("reductions", ()))})
