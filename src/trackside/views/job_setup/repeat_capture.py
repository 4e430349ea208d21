"""Which collections a job was asked to save by name: those that `--capture` must name again.

A hook also saves what its rules need, so that what is stored is compared with what these rules
alone, and these rules with names, would save: see `cli/capture_options`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trackside.quick_dataclass import dataclass

_PLANNED = ("reductions", "exclude_regex")
"""Parameters of collections that are saved for rules, not requested by name."""
_OF_OPTIONS = {"save_interval", "ring"}
_Stored = tuple[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Captured:
    names: tuple[str, ...]
    is_all: bool
    """Whether the names, and the rules, say all of what is saved."""


def captured(described: Mapping[str, Any]) -> Captured:
    hook = described.get("DebugHookConfig", {})
    stored: list[_Stored] = [
        (each["CollectionName"], dict(each.get("CollectionParameters", {})))
        for each in hook.get("CollectionConfigurations", ())
    ]
    parameters = hook.get("HookParameters", {})
    planned = _planned(described, is_paced="save_interval" in parameters)
    is_usual = set(parameters) <= _OF_OPTIONS
    for count in range(len(stored) + 1):
        if stored == [*_asked([name for name, _ in stored[:count]], planned)]:
            return Captured(tuple(name for name, _ in stored[:count]), is_usual)
    own = (name for name, given in stored if not any(each in given for each in _PLANNED))
    return Captured(tuple(own), False)


def _asked(names: Sequence[str], planned: Mapping[str, Mapping[str, str]]) -> Iterator[_Stored]:
    """What is saved with these names: they are saved whole, at the steps of the rules."""
    for name in names:
        given = planned.get(name, {})
        yield name, {key: value for key, value in given.items() if key != "reductions"}
    yield from ((name, given) for name, given in planned.items() if name not in names)


def _planned(described: Mapping[str, Any], *, is_paced: bool) -> dict[str, Mapping[str, str]]:
    """What its rules alone would save, by `--rule`."""
    rules = described.get("DebugRuleConfigurations", ())
    if not rules:
        return {}
    # Imported when there are rules: `trackside show` prints the command, too.
    from trackside.records.spec import RuleConfiguration
    from trackside.rules.capture_plan import Pace, plan

    configured = [
        RuleConfiguration(
            name=each.get("RuleConfigurationName", ""),
            image=each.get("RuleEvaluatorImage", ""),
            parameters=each.get("RuleParameters", {}),
        )
        for each in rules
    ]
    found = plan(configured, Pace.HOOK if is_paced else Pace.WATCHFUL)
    return {str(each.name): dict(each.parameters) for each in found}
