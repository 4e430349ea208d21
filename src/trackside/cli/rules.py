"""`trackside rules`: which built-in rules there are, what one of them does, and one tried out."""

import difflib
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from trackside.cli.rule_check import check
from trackside.cli.styled_text import Text
from trackside.cli.terminal import Terminal
from trackside.cli.text import as_json
from trackside.errors import InputError
from trackside.rules import catalog
from trackside.rules.builtin import BuiltInRule, TensorRule
from trackside.rules.parameters import InvalidParameters, Parameter, build, parameters_of
from trackside.rules.profiler.profiler_rule import ProfilerRule
from trackside.rules.rule_classes import GROUPS

_SHARED = {each.name for each in parameters_of(ProfilerRule)}
"""What every profiler rule takes: told once for all of them."""
_EXAMPLES = {
    "collection_names": "gradients",
    "other_trials": "s3://bucket/out/earlier-job/debug-output",
}
"""Of parameters that some rules cannot do without."""


class Rules(click.Group):
    """`rules check` is a command of its own; any other word is the name of a rule."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in self.commands:
            return super().resolve_command(ctx, args)
        names = [arg for arg in args if not arg.startswith("-")]
        if len(names) > 1:
            raise click.UsageError(_two_words(*names[:2]), ctx)
        return "show", show, args


@click.group(
    cls=Rules,
    invoke_without_command=True,
    subcommand_metavar="[NAME | check JOB]",
    short_help="List the built-in rules, or try some on a job.",
)
@click.option("--json", is_flag=True, help="Print JSON.")
@click.pass_context
def rules(ctx: click.Context, json: bool) -> None:
    """List the built-in rules: what each watches, its parameters and their defaults.

    With a name, everything about that rule. `check` tries rules on what a job has saved.

    \b
    Examples:
      trackside rules
      trackside rules VanishingGradient
      trackside rules check train-2026-11-15-22-50-46-123 --rule DeadRelu
    """
    if ctx.invoked_subcommand is not None:
        return
    if json:
        print(as_json([_record(rule) for rules in GROUPS.values() for rule in rules]))
    else:
        _list()


@click.command
@click.argument("name")
@click.option("--json", is_flag=True, help="Print JSON.")
def show(name: str, json: bool) -> None:
    """One rule in full.

    \b
    Example:
      trackside rules VanishingGradient
    """
    rule = _find(name)
    if json:
        print(as_json(_record(rule)))
        return
    terminal = Terminal.of_stdout()
    terminal.print(Text(rule.name(), "bold"))
    for paragraph in (inspect.getdoc(rule) or "").split("\n\n"):
        print()
        print("\n".join(_wrapped(paragraph, terminal.width, indent="")))
    print()
    print(f"Watches: {_watches(rule)}")
    for parameter in _own(rule):
        print()
        named = f"{parameter.name}={_shown(parameter.default)}"
        terminal.print_wrapped(Text().append(named, "cyan").append(f"  {parameter.type}", "dim"))
        print("\n".join(_wrapped(parameter.doc, terminal.width)))
    if rule.advice:
        print()
        print("\n".join(_wrapped(f"Try: {rule.advice}", terminal.width, indent="")))
    print()
    print(f"  trackside run train.py --rule {_example(rule)}")


rules.add_command(check)


def _two_words(first: str, second: str) -> str:
    if difflib.get_close_matches(first, ["check"]):
        return f"No rule is called {first!r}. Did you mean `trackside rules check {second}`?"
    return f"One rule at a time: {first!r} or {second!r}. Without a name all are listed."


def _list() -> None:
    terminal = Terminal.of_stdout()
    for number, (title, known) in enumerate(GROUPS.items()):
        if number:
            print()
        terminal.print(Text(title, "bold underline"))
        for rule in known:
            terminal.print(Text().append(f"  {rule.name()}", "bold").append(_aside(rule), "dim"))
            for line in _wrapped(_summary(rule), terminal.width):
                terminal.print(line)
            for line in _wrapped(_signature(rule), terminal.width):
                terminal.print(Text(line, "cyan"))
        if issubclass(known[0], ProfilerRule):
            for each in parameters_of(ProfilerRule):
                told = f"All of these take {each.name}={_shown(each.default)} too. {each.doc}"
                print("\n".join(_wrapped(told, terminal.width, indent="  ")))


def _aside(rule: type[BuiltInRule[Any]]) -> str:
    return f"  {_watches(rule)}" if issubclass(rule, TensorRule) else ""


def _find(name: str) -> type[BuiltInRule[Any]]:
    try:
        return catalog.find(name)
    except catalog.UnknownRule as unknown:
        raise InputError(str(unknown)) from None


def _watches(rule: type[BuiltInRule[Any]]) -> str:
    if not issubclass(rule, TensorRule):
        return "the machine"
    try:
        needs = build(rule, {}).needs()
    except InvalidParameters:
        return "tensors that you name"
    return ", ".join(dict.fromkeys(need.collection for need in needs)) or "the job"


def _summary(rule: type[BuiltInRule[Any]]) -> str:
    return (inspect.getdoc(rule) or "").partition("\n")[0]


def _signature(rule: type[BuiltInRule[Any]]) -> str:
    own = [each for each in _own(rule) if each.name not in _SHARED]
    told = [f"{each.name}={_shown(each.default)}" for each in own]
    if _gathered(rule):
        told.append("the parameters of all others as <Rule>_<parameter>")
    return ", ".join(told)


def _own(rule: type[BuiltInRule[Any]]) -> list[Parameter]:
    """Without those that a rule takes for others."""
    gathered = _gathered(rule)
    return [each for each in parameters_of(rule) if each not in gathered]


def _gathered(rule: type[BuiltInRule[Any]]) -> list[Parameter]:
    return [
        each for each in parameters_of(rule) if each.name.partition("_")[0] in catalog.entries()
    ]


def _shown(default: Any) -> str:
    if isinstance(default, float):
        return f"{default:g}"
    if isinstance(default, tuple):
        return ",".join(map(str, default)) or "None"
    return getattr(default, "pattern", None) or f"{default}"


def _example(rule: type[BuiltInRule[Any]]) -> str:
    """With what it cannot do without, and the number one is most likely to change."""
    numbers = [
        each
        for each in parameters_of(rule)
        if isinstance(each.default, int | float)
        and not isinstance(each.default, bool)
        and each.name not in _SHARED
    ]
    numbers.sort(key=lambda each: "threshold" not in each.name)  # the others stay in order
    told = [*_required(rule), *(f"{each.name}={_shown(each.default)}" for each in numbers[:1])]
    return ":".join(filter(None, (rule.name(), ",".join(told))))


def _required(rule: type[BuiltInRule[Any]]) -> list[str]:
    try:
        build(rule, {})
    except InvalidParameters:
        names = [each.name for each in parameters_of(rule)]
        wanted = "other_trials" if "other_trials" in names else "collection_names"
        return [f"{wanted}={_EXAMPLES[wanted]}"]
    return []


def _record(rule: type[BuiltInRule[Any]]) -> dict[str, Any]:
    return {
        "name": rule.name(),
        "summary": _summary(rule),
        "watches": _watches(rule),
        "parameters": [
            {**asdict(each), "default": _shown(each.default)} for each in parameters_of(rule)
        ],
        "advice": rule.advice,
    }


def _wrapped(text: str, columns: int, indent: str = "    ") -> Iterator[str]:
    plain = " ".join(text.split())
    yield from textwrap.wrap(
        plain, max(columns, 40), initial_indent=indent, subsequent_indent=indent
    )
