"""What is wrong with a job, told in the options that `trackside run` was given instead of in the
words of the SDK and of the request."""

import re
from collections.abc import Mapping, Sequence

import click

from trackside.errors import InvalidSpec, Violation
from trackside.sdk.rule import AnyRule

_OF_REQUEST = {
    "TrainingJobName": "--name",
    "InputDataConfig": "--channel",
    "DebugRuleConfigurations": "--rule",
    "ProfilerRuleConfigurations": "--rule",
}
"""Members that are no argument of an estimator."""
_FIELD = re.compile(r"(?P<head>\w+)(?P<rest>.*)", re.DOTALL)
_RULE = re.compile(r"rules\[(?P<index>\d+)\]\.rule_parameters(?:\.(?P<parameter>\w+))?")
_ARGUMENT = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b")
_MAPPINGS = ("hyperparameters", "environment", "tags")
_INVOKED = "rule_to_invoke"


def in_options(
    failure: InvalidSpec, command: click.Command, rules: Sequence[AnyRule]
) -> InvalidSpec:
    """The same violations; those without an option keep their field."""
    names = _OF_REQUEST | {
        each.name: each.human_readable_name if isinstance(each, click.Argument) else each.opts[-1]
        for each in command.params
        if each.name
    }
    return InvalidSpec(
        [
            Violation(
                _option(each.field, names, rules),
                each.value,
                _ARGUMENT.sub(lambda found: names.get(found[0], found[0]), each.advice),
                constraint=each.constraint,
            )
            for each in failure.violations
        ]
    )


def _option(field: str, names: Mapping[str, str], rules: Sequence[AnyRule]) -> str:
    """With the name in it, for options of the form NAME=VALUE; the value shows which of several."""
    if found := _RULE.fullmatch(field):
        return _rule_option(rules[int(found["index"])], found["parameter"])
    parts = _FIELD.fullmatch(field)
    if parts is None or parts["head"] not in names:
        return field
    named = f" {parts['rest'][1:]}" if parts["head"] in _MAPPINGS else ""
    return names[parts["head"]] + named.rstrip()


def _rule_option(rule: AnyRule, parameter: str | None) -> str:
    option = "--stop-on" if getattr(rule, "actions", None) else "--rule"
    return option if parameter in (None, _INVOKED) else f"{option} {rule.name}:{parameter}"
