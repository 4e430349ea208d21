"""A job's request, or what is told of it, without the values that look secret."""

from collections.abc import Mapping, Sequence
from typing import Any

from trackside.texts.secret_names import MASK, hidden, hide_in_arguments

_RULES = ("DebugRuleConfigurations", "ProfilerRuleConfigurations")
_OWN = "Trackside"


def masked(request: Mapping[str, Any]) -> dict[str, Any]:
    """For whoever may not know them: `Environment`, hyperparameters, the parameters of rules and
    the arguments of a program, by their names; and passwords in addresses."""
    told = dict(request)
    for name in ("Environment", "HyperParameters"):
        if name in told:
            told[name] = _values(told[name])
    for name in _RULES:
        if name in told:
            told[name] = [_rule(each) for each in told[name]]
    own = told.get(_OWN)
    if own is not None:
        if "options" in own:
            told[_OWN] = {**own, "options": _options(own["options"])}
        else:
            told[_OWN] = _options(own)
    return told


def masked_environment(request: Mapping[str, Any]) -> dict[str, Any]:
    """For the copy in storage, which every key that may read sees: variables are where scripts
    expect secrets. Hyperparameters stay as they are, for they say how a model was made."""
    if "Environment" not in request:
        return dict(request)
    return {**request, "Environment": _values(request["Environment"])}


def _values(values: Mapping[str, str]) -> dict[str, str]:
    return {name: _value(name, value) for name, value in values.items()}


def _value(name: str, value: str) -> str:
    """SDKs write a text as JSON, and read it so again."""
    shown = hidden(name, value)
    return f'"{MASK}"' if shown == MASK and value.startswith('"') else shown


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    parameters = rule.get("RuleParameters")
    return {**rule, "RuleParameters": _values(parameters)} if parameters else dict(rule)


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    arguments: dict[str, Sequence[str]] = {
        name: options[name] for name in ("Arguments", "Command") if options.get(name)
    }
    return {**options, **{name: hide_in_arguments(each) for name, each in arguments.items()}}
