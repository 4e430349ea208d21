"""Masks secret-looking values in a job's request or description."""

from collections.abc import Mapping, Sequence
from typing import Any

from trackside.texts.secret_names import MASK, hidden, hide_in_arguments

_RULES = ("DebugRuleConfigurations", "ProfilerRuleConfigurations")
_OWN = "Trackside"


def masked(request: Mapping[str, Any]) -> dict[str, Any]:
    """For callers without access: masks `Environment`, hyperparameters, rule parameters and program
    arguments by their names; and passwords in addresses.
    """
    masked_copy = dict(request)
    for name in ("Environment", "HyperParameters"):
        if name in masked_copy:
            masked_copy[name] = _values(masked_copy[name])
    for name in _RULES:
        if name in masked_copy:
            masked_copy[name] = [_rule(each) for each in masked_copy[name]]
    own = masked_copy.get(_OWN)
    if own is not None:
        if "options" in own:
            masked_copy[_OWN] = {**own, "options": _options(own["options"])}
        else:
            masked_copy[_OWN] = _options(own)
    return masked_copy


def masked_environment(request: Mapping[str, Any]) -> dict[str, Any]:
    """For the copy in storage, which every key with read access sees: scripts expect secrets in
    variables. Hyperparameters are kept, since they document how a model was made.
    """
    if "Environment" not in request:
        return dict(request)
    return {**request, "Environment": _values(request["Environment"])}


def _values(values: Mapping[str, str]) -> dict[str, str]:
    return {name: _value(name, value) for name, value in values.items()}


def _value(name: str, value: str) -> str:
    """SDKs write a text as JSON, and read it back so."""
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
