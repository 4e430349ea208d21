"""Rules as given on the command line: `DeadRelu:threshold_layer=80`, `my.py:MyRule`."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

import click

from trackside.quick_dataclass import dataclass

if TYPE_CHECKING:  # imported when there are rules
    from trackside.sdk.rule import AnyRule

FORM = "NAME[:PARAMETER=VALUE,…]"
KNOWN = "`trackside rules` lists them."
ALL = "all"

_IN_FILE = re.compile(r"(?P<file>.+?\.py):(?P<name>\w+)(?::(?P<rest>.*))?")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


@dataclass(frozen=True, slots=True)
class Named:
    """One rule as typed. `file` is set for a custom rule."""

    name: str
    parameters: dict[str, str] = field(default_factory=dict)
    file: str = ""


def parse(ctx: click.Context, option: click.Parameter, given: tuple[str, ...]) -> list[Named]:
    """A callback for a repeatable option."""
    return [_parse_one(ctx, option, text) for text in given]


def rules_of(named: Sequence[Named], stopping: Sequence[Named]) -> "list[AnyRule]":
    """The rules, each once and under a unique name; those in `stopping` stop the job."""
    asked = _expanded(named)
    stops: list[Named] = []
    for stop in _expanded(stopping):
        meant = [each for each in asked if _is_meant(each, stop)]
        if not meant:
            asked.append(stop)
        stops += meant or [stop]
    rules = [_stopping(_make(each)) if each in stops else _make(each) for each in asked]
    return _numbered(rules)


def _parse_one(ctx: click.Context, option: click.Parameter, text: str) -> Named:
    in_file = _IN_FILE.fullmatch(text)
    if in_file:
        rest = in_file["rest"] or ""
        return Named(in_file["name"], _parameters(ctx, option, text, rest), in_file["file"])
    name, _, rest = text.partition(":")
    if not name:
        raise click.BadParameter(f"{text!r} names no rule. {KNOWN}", ctx, option)
    if name.endswith(".py"):
        raise click.BadParameter(f"{text!r} names no rule of the file: {name}:MyRule.", ctx, option)
    if name.lower() == ALL:
        if rest:
            way_out = "Name the rule that you want another way: --rule all --rule NAME:…"
            raise click.BadParameter(f"{ALL!r} takes no parameters. {way_out}", ctx, option)
        return Named(ALL)
    return Named(name, _parameters(ctx, option, text, rest))


def _parameters(
    ctx: click.Context, option: click.Parameter, text: str, rest: str
) -> dict[str, str]:
    """`a=1,b=x,y` is {"a": "1", "b": "x,y"}: values may be lists."""
    parameters: dict[str, str] = {}
    last = ""
    for part in rest.split(",") if rest else ():
        if _ASSIGNMENT.match(part):
            last, _, parameters[last] = part.partition("=")
        elif last:
            parameters[last] += f",{part}"
        else:
            raise click.BadParameter(f"{text!r} is not of the form {FORM}.", ctx, option)
    return parameters


def _expanded(named: Iterable[Named]) -> list[Named]:
    """`all` yields to rules that are named explicitly; duplicates are dropped."""
    single = [each for each in named if each.name != ALL or each.file]
    if any(each.name == ALL and not each.file for each in named):
        from trackside.rules import capture_plan

        known = {_make(each).invokes for each in single}
        single += [Named(name) for name in capture_plan.all_rules() if name not in known]
    distinct: list[Named] = []
    for each in single:
        if each not in distinct:
            distinct.append(each)
    return distinct


def _is_meant(named: Named, stop: Named) -> bool:
    """`--stop-on Overfit` matches the Overfit that was requested, whatever its parameters."""
    is_same = _make(named).invokes == _make(stop).invokes and named.file == stop.file
    return is_same and stop.parameters in ({}, named.parameters)


def _make(named: Named) -> "AnyRule":
    from trackside.sdk.rule import Rule, built_in, built_in_profiler

    if named.file:
        return Rule.custom(
            named.name,
            source=named.file,
            rule_to_invoke=named.name,
            rule_parameters=named.parameters,
        )
    from trackside.rules import catalog

    try:
        found = catalog.find_entry(named.name)
    except catalog.UnknownRule:
        return built_in(named.name, **named.parameters)  # rejected together with other problems
    make = built_in_profiler if found.is_profiler_rule else built_in
    return make(found.name, **named.parameters)


def _numbered(rules: "Iterable[AnyRule]") -> "list[AnyRule]":
    used: dict[str, int] = {}
    numbered = []
    for rule in rules:
        used[rule.name] = used.get(rule.name, 0) + 1
        count = used[rule.name]
        numbered.append(rule if count == 1 else replace(rule, name=f"{rule.name}-{count}"))
    return numbered


def _stopping(rule: "AnyRule") -> "AnyRule":
    from trackside.sdk.actions import ActionList, StopTraining
    from trackside.sdk.rule import Rule

    if not isinstance(rule, Rule):
        raise click.UsageError(f"{rule.name} watches the machine; only tensor rules stop a job.")
    return replace(rule, actions=ActionList(StopTraining()))
