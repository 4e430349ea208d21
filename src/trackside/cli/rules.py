"""`trackside rules`: which built-in rules there are, what one of them does, and one tried out."""

import inspect
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import click
from rich.text import Text

from trackside.cli import rule_options
from trackside.cli.tables import new_console
from trackside.cli.text import as_json
from trackside.cli.trial_of import trial_of
from trackside.cli.waiting import new_teller
from trackside.errors import InputError, InvalidSpec, Violation
from trackside.harmless import one_line
from trackside.rules import catalog
from trackside.rules.builtin import BuiltInRule, TensorRule
from trackside.rules.parameters import InvalidParameters, build, parameters_of
from trackside.rules.validation import parameter_violations
from trackside.rules.verdict import Verdict, judge
from trackside.sdk.debugger import texts
from trackside.spec import RuleConfiguration

ISSUES_FOUND = 4
"""The exit code of a check that found something; 1 to 3 say that the check itself went wrong."""


class Rules(click.Group):
    """`rules check` is a command of its own; any other word is the name of a rule."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in self.commands:
            return super().resolve_command(ctx, args)
        return "show", show, args


@click.group(cls=Rules, invoke_without_command=True, subcommand_metavar="[NAME | check JOB]")
@click.option("--json", is_flag=True, help="Print JSON.")
@click.pass_context
def rules(ctx: click.Context, json: bool) -> None:
    """List the built-in rules: what each watches, its parameters and their defaults.

    With a name, everything about that rule. `check` tries rules on a job's saved tensors.

    \b
    Examples:
      trackside rules
      trackside rules VanishingGradient
      trackside rules check train-2026-11-15-22-50-46-123 --rule DeadRelu
    """
    if ctx.invoked_subcommand is not None:
        return
    known = [*catalog.TENSOR_RULES.values(), *catalog.PROFILER_RULES.values()]
    if json:
        print(as_json([_record(rule) for rule in known]))
    else:
        _list(known)


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
    console = new_console()
    console.print(Text(rule.name(), "bold"))
    for paragraph in (inspect.getdoc(rule) or "").split("\n\n"):
        print()
        print("\n".join(_wrapped(paragraph, console.width, indent="")))
    print()
    print(f"Watches: {_watches(rule)}")
    for parameter in parameters_of(rule):
        print()
        named = f"{parameter.name}={_shown(parameter.default)}"
        console.print(Text.assemble((named, "cyan"), (f"  {parameter.type}", "dim")))
        print("\n".join(_wrapped(parameter.doc, console.width)))
    if rule.advice:
        print()
        print("\n".join(_wrapped(f"Try: {rule.advice}", console.width, indent="")))
    print()
    print(f"  trackside run train.py --rule {_example(rule)}")


@rules.command
@click.argument("job", metavar="JOB|TRIAL")
@click.option(
    "--rule",
    "named",
    multiple=True,
    required=True,
    callback=rule_options.parse,
    metavar="RULE",
    help=f"{rule_options.FORM}; may be repeated.",
)
@click.option("--json", is_flag=True, help="Print JSON.")
@click.pass_context
def check(ctx: click.Context, job: str, named: list[rule_options.Named], json: bool) -> None:
    """Try rules on the tensors that a job, running or ended, has saved so far.

    JOB may also be where a trial is. Nothing is done but to tell: no actions are taken.
    The exit code is 0 when nothing was found and 4 when something was.

    \b
    Examples:
      trackside rules check train-2026-11-15-22-50-46-123 --rule DeadRelu
      trackside rules check s3://bucket/out/job/debug-output --rule all
    """
    verdicts = [*judge(_built(named), trial_of(job))]
    if json:
        print(as_json([asdict(verdict) for verdict in verdicts]))
    else:
        _tell(verdicts)
    ctx.exit(ISSUES_FOUND if any(verdict.findings for verdict in verdicts) else 0)


def _list(known: Sequence[type[BuiltInRule[Any]]]) -> None:
    console = new_console()
    for rule in known:
        title = Text.assemble((rule.name(), "bold"), (f"  {_watches(rule)}", "dim"))
        console.print(title, soft_wrap=True)
        for line in _wrapped(_summary(rule), console.width):
            console.print(line, soft_wrap=True)
        for line in _wrapped(_signature(rule), console.width):
            console.print(Text(line, "cyan"), soft_wrap=True)


def _built(named: Sequence[rule_options.Named]) -> dict[str, TensorRule]:
    """`InvalidSpec` with all that is wrong with them."""
    built: dict[str, TensorRule] = {}
    violations: list[Violation] = []
    for rule in rule_options.rules_of(named, ()):
        if rule.source is not None:
            raise InputError(
                f"{rule.name} is a rule of your own. It is evaluated beside a job: "
                f"`trackside run SCRIPT --rule {rule.source}:{rule.name}`."
            )
        asked = RuleConfiguration(name=rule.name, parameters=texts(rule.rule_parameters))
        wrong = [*parameter_violations(asked)]
        violations += [
            Violation(f"{rule.name}{each.field}", each.value, each.advice) for each in wrong
        ]
        if not wrong:
            built[rule.name] = _of_tensors(rule.name, build(_find(rule.invokes), asked.parameters))
    if violations:
        raise InvalidSpec(violations)
    return built


def _of_tensors(name: str, rule: BuiltInRule[Any]) -> TensorRule:
    if not isinstance(rule, TensorRule):
        raise InputError(f"{name} watches the machine, and a trial has only tensors.")
    return rule


def _tell(verdicts: Sequence[Verdict]) -> None:
    teller = new_teller()
    for verdict in verdicts:
        if verdict.findings:
            sys.stdout.write(teller.text(verdict.findings))
        elif verdict.missing:
            print(f"{verdict.name}: could not judge. {one_line(verdict.missing)}")
        else:
            print(f"{verdict.name}: found nothing.")


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
    return ", ".join(f"{each.name}={_shown(each.default)}" for each in parameters_of(rule))


def _shown(default: Any) -> str:
    if isinstance(default, float):
        return f"{default:g}"
    if isinstance(default, tuple):
        return ",".join(map(str, default)) or "None"
    return getattr(default, "pattern", None) or f"{default}"


def _example(rule: type[BuiltInRule[Any]]) -> str:
    for parameter in parameters_of(rule):
        if isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool):
            return f"{rule.name()}:{parameter.name}={_shown(parameter.default)}"
    return rule.name()


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
