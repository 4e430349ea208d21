"""`python -m tests.rules.write_catalog`: makes `rules/catalog.json` from the rules' classes."""

import inspect
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from trackside.rules import catalog
from trackside.rules.builtin import BuiltInRule, TensorRule
from trackside.rules.checkup.vitals_rule import VitalsRule
from trackside.rules.needs import Need
from trackside.rules.parameters import InvalidParameters, build, parameters_of
from trackside.rules.rule_classes import GROUPS


def main() -> None:
    catalog.FILE.write_text(text())


def text() -> str:
    return json.dumps(list(records()), indent=1, ensure_ascii=False) + "\n"


def records() -> Iterator[dict[str, Any]]:
    for group, rules in GROUPS.items():
        for rule in rules:
            yield _record(group, rule)


def _record(group: str, rule: type[BuiltInRule[Any]]) -> dict[str, Any]:
    return {
        "name": rule.name(),
        "group": group,
        "module": rule.__module__,
        "is_profiler_rule": not issubclass(rule, TensorRule),
        "is_of_checkup": issubclass(rule, VitalsRule),
        "doc": inspect.getdoc(rule) or "",
        "watches": _watches(rule),
        "is_complete": _can_build(rule),
        "parameters": [asdict(each) for each in parameters_of(rule)],
        "advice": rule.advice,
        "kind": rule.kind.value,
        "explains": rule.explains,
        "leaves_training_loss": rule.leaves_training_loss,
        "is_independent": rule.is_independent,
        "explains_failure": rule.explains_failure,
        "ranks_before_if_at_start": rule.ranks_before_if_at_start,
        "rests_on": rule.rests_on,
        **_needs(rule),
    }


def _needs(rule: type[BuiltInRule[Any]]) -> dict[str, Any]:
    if not issubclass(rule, TensorRule) or issubclass(rule, VitalsRule) or not _can_build(rule):
        return {}
    return {"needs": [_short(need) for need in build(rule, {}).needs()]}


def _short(need: Need) -> dict[str, Any]:
    default = asdict(Need(need.collection))
    given = {name: value for name, value in asdict(need).items() if value != default[name]}
    return {"collection": need.collection, **given}


def _watches(rule: type[BuiltInRule[Any]]) -> str:
    if not issubclass(rule, TensorRule):
        return "the machine"
    if not _can_build(rule):
        return "tensors that you name"
    needs = build(rule, {}).needs()
    return ", ".join(dict.fromkeys(need.collection for need in needs)) or "the job"


def _can_build(rule: type[BuiltInRule[Any]]) -> bool:
    try:
        build(rule, {})
    except InvalidParameters:
        return False
    return True


if __name__ == "__main__":
    main()
