"""The built-in rules as `trackside rules` shows them, from a file: it loads none of them.

`python -m trackside.cli.rule_catalog` writes that file from the rules themselves, after a change to
their names, docstrings, parameters or advice; `tests/cli/test_rules.py` fails until that is done.
"""

import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from trackside.rules.builtin import BuiltInRule
    from trackside.rules.parameters import Parameter

FILE = Path(__file__).with_suffix(".json")
_EXAMPLES = {
    "collection_names": "gradients",
    "other_trials": "s3://bucket/out/earlier-job/debug-output",
}
"""Values for parameters that some rules require."""


class ListedParameter(TypedDict):
    name: str
    type: str
    default: str
    doc: str


class ListedRule(TypedDict):
    name: str
    doc: str
    watches: str
    is_profiler_rule: bool
    parameters: list[ListedParameter]
    num_forwarded: int
    """How many of the parameters, the last ones, are passed on to other rules."""
    advice: str
    example: str


class Group(TypedDict):
    title: str
    rules: list[ListedRule]
    shared: list[ListedParameter]
    """What every rule of it takes."""


def read() -> list[Group]:
    groups: list[Group] = json.loads(FILE.read_bytes())
    return groups


def make() -> list[Group]:
    """From the rules, which this loads."""
    from trackside.rules import catalog
    from trackside.rules.parameters import parameters_of
    from trackside.rules.profiler.profiler_rule import ProfilerRule

    shared = [_parameter(each) for each in parameters_of(ProfilerRule)]
    return [
        {
            "title": title,
            "rules": [_listed(rule) for rule in rules],
            "shared": shared if issubclass(rules[0], ProfilerRule) else [],
        }
        for title, rules in catalog.GROUPS.items()
    ]


def as_text(groups: list[Group]) -> str:
    return json.dumps(groups, indent=1, ensure_ascii=False) + "\n"


def _listed(rule: "type[BuiltInRule[Any]]") -> ListedRule:
    from trackside.rules import catalog
    from trackside.rules.builtin import TensorRule
    from trackside.rules.parameters import parameters_of

    parameters = parameters_of(rule)
    forwarded = [p for p in parameters if p.name.partition("_")[0] in catalog.PROFILER_RULES]
    own = [each for each in parameters if each not in forwarded]
    return {
        "name": rule.name(),
        "doc": inspect.getdoc(rule) or "",
        "watches": _watches(rule),
        "is_profiler_rule": not issubclass(rule, TensorRule),
        "parameters": [_parameter(each) for each in (*own, *forwarded)],
        "num_forwarded": len(forwarded),
        "advice": rule.advice,
        "example": _example(rule),
    }


def _watches(rule: "type[BuiltInRule[Any]]") -> str:
    from trackside.rules.builtin import TensorRule
    from trackside.rules.parameters import InvalidParameters, build

    if not issubclass(rule, TensorRule):
        return "the machine"
    try:
        needs = build(rule, {}).needs()
    except InvalidParameters:
        return "tensors that you name"
    return ", ".join(dict.fromkeys(need.collection for need in needs)) or "the job"


def _example(rule: "type[BuiltInRule[Any]]") -> str:
    """With what it requires, and the number that is most likely to be changed."""
    from trackside.rules.parameters import parameters_of
    from trackside.rules.profiler.profiler_rule import ProfilerRule

    shared = {each.name for each in parameters_of(ProfilerRule)}
    numbers = [
        each
        for each in parameters_of(rule)
        if isinstance(each.default, int | float)
        and not isinstance(each.default, bool)
        and each.name not in shared
    ]
    numbers.sort(key=lambda each: "threshold" not in each.name)  # the others stay in order
    given = [*_required(rule), *(f"{each.name}={_default(each)}" for each in numbers[:1])]
    return ":".join(filter(None, (rule.name(), ",".join(given))))


def _required(rule: "type[BuiltInRule[Any]]") -> list[str]:
    from trackside.rules.parameters import InvalidParameters, build, parameters_of

    try:
        build(rule, {})
    except InvalidParameters:
        names = [each.name for each in parameters_of(rule)]
        required = "other_trials" if "other_trials" in names else "collection_names"
        return [f"{required}={_EXAMPLES[required]}"]
    return []


def _parameter(parameter: "Parameter") -> ListedParameter:
    return {
        "name": parameter.name,
        "type": parameter.type,
        "default": _default(parameter),
        "doc": parameter.doc,
    }


def _default(parameter: "Parameter") -> str:
    default = parameter.default
    if isinstance(default, float):
        return f"{default:g}"
    if isinstance(default, tuple):
        return ",".join(map(str, default)) or "None"
    return getattr(default, "pattern", None) or f"{default}"


if __name__ == "__main__":
    FILE.write_text(as_text(make()), encoding="utf-8")
