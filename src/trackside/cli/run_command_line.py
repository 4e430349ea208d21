"""The command line of `trackside run`: the program, NAME=VALUE options, and errors of a job in
terms of its options.

Arguments after `--` reach the script byte for byte: click parses only those before.
"""

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from trackside.errors import InvalidSpec, Violation

if TYPE_CHECKING:  # imported when there are rules
    from trackside.sdk.rule import AnyRule

_BEHIND = "trackside.behind"
_TYPED = "trackside.typed"
_EXTRA = re.compile(r"unexpected extra arguments? \((\S+?)[ )]")
"""The first of the arguments that click cannot parse."""


class Run(click.Command):
    """Script arguments among our options cause an error that shows where they belong."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_TYPED] = [*args]
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_BEHIND] = args[at + 1 :]
        own = args[:at]
        try:
            return super().parse_args(ctx, [*own])
        except click.NoSuchOption as unknown:
            raise _meant_for_script(unknown, own, unknown.option_name) from None
        except click.UsageError as wrong:
            if extra := _EXTRA.search(wrong.message):
                raise _meant_for_script(wrong, own, extra[1]) from None
            raise

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", "[SCRIPT] [-- ARGUMENT…]"]


def typed_command(ctx: click.Context) -> list[str]:
    return ["trackside", "run", *ctx.meta[_TYPED]]


def program_of(ctx: click.Context) -> dict[str, Any]:
    """For the estimator: the script or module and its arguments, or a command; nothing if an image
    brings its own."""
    behind, script, module = ctx.meta[_BEHIND], ctx.params["entry_point"], ctx.params["module"]
    if script is None and module is None:
        if not behind and ctx.params["image_uri"]:
            return {}
        if not behind:
            [missing] = [each for each in ctx.command.params if each.name == "entry_point"]
            raise click.MissingParameter(ctx=ctx, param=missing)
        return {"command": behind}
    return {"entry_point": script, "module": module, "arguments": behind or None}


def _meant_for_script(wrong: click.UsageError, typed: list[str], given: str) -> click.UsageError:
    """Both `--epochs` and `epochs=3`."""
    message = wrong.format_message()
    message += "" if message.endswith((".", ")")) else "."
    if not typed[0].startswith("-") and "." not in typed[0]:  # `python`, `torchrun`
        form = shlex.join(["trackside", "run", "--", *typed])
        return click.UsageError(f"{message} A command stands behind `--`: {form}", wrong.ctx)
    script = next((each for each in typed if each.endswith((".py", ".sh"))), "SCRIPT")
    form = shlex.join(["trackside", "run", script, "--", given])
    way_out = f"The script's own arguments stand at the end, behind `--`: {form} …"
    return click.UsageError(f"{message} {way_out}", wrong.ctx)


_UNITS = {"": 1.0, "g": 1.0, "m": 1 / 1024, "t": 1024.0}


def gigabytes(ctx: click.Context, option: click.Parameter, given: str | None) -> float | None:
    """A callback for a size as Docker takes it: `8g`, `512m`; without a unit, gigabytes."""
    if given is None:
        return None
    found = re.fullmatch(r"(\d+\.?\d*)\s*([gmt]?)(?:i?b)?", given.strip(), re.IGNORECASE)
    size = float(found[1]) * _UNITS[found[2].lower()] if found else 0.0
    if not size:
        advice = f"{given!r} is no size. Write gigabytes, as in 8 or 0.5g, or 512m."
        raise click.BadParameter(advice, ctx, option)
    return size


def whole_gigabytes(ctx: click.Context, option: click.Parameter, given: str | None) -> int | None:
    size = gigabytes(ctx, option, given)
    if size is not None and size != int(size):
        advice = f"{given!r} is not whole gigabytes. Write {math.ceil(size)}."
        raise click.BadParameter(advice, ctx, option)
    return None if size is None else int(size)


FORM = "NAME=VALUE"


def as_mapping(
    ctx: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    """A callback for such an option; a repeated name is an error."""
    mapping: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r} is not of the form {FORM}.", ctx, option)
        if name in mapping:
            raise click.BadParameter(f"{name!r} is given twice.", ctx, option)
        mapping[name] = value
    return mapping


_OF_REQUEST = {
    "TrainingJobName": "--name",
    "InputDataConfig": "--channel",
    "DebugRuleConfigurations": "--rule",
    "ProfilerRuleConfigurations": "--rule",
}
"""Members without an estimator argument."""
_FIELD = re.compile(r"(?P<head>\w+)(?P<rest>.*)", re.DOTALL)
_RULE = re.compile(r"rules\[(?P<index>\d+)\]\.rule_parameters(?:\.(?P<parameter>\w+))?")
_ARGUMENT = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b")
_MAPPINGS = ("hyperparameters", "environment", "tags")
_INVOKED = "rule_to_invoke"


def in_options(
    failure: InvalidSpec, command: click.Command, rules: "Sequence[AnyRule]"
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


def _option(field: str, names: Mapping[str, str], rules: "Sequence[AnyRule]") -> str:
    """With the name included, for NAME=VALUE options; the value selects one of several."""
    if found := _RULE.fullmatch(field):
        return _rule_option(rules[int(found["index"])], found["parameter"])
    parts = _FIELD.fullmatch(field)
    if parts is None or parts["head"] not in names:
        return field
    named = f" {parts['rest'][1:]}" if parts["head"] in _MAPPINGS else ""
    return names[parts["head"]] + named.rstrip()


def _rule_option(rule: "AnyRule", parameter: str | None) -> str:
    option = "--stop-on" if getattr(rule, "actions", None) else "--rule"
    return option if parameter in (None, _INVOKED) else f"{option} {rule.name}:{parameter}"
