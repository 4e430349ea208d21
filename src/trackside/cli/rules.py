"""`trackside rules`: lists the built-in rules, shows one of them, and tries rules on a job."""

import difflib
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from trackside.cli import rule_options
from trackside.cli.job_names import job_argument
from trackside.cli.styled_text import Text
from trackside.cli.terminal import Terminal
from trackside.cli.text import as_json
from trackside.errors import InputError
from trackside.rules import catalog
from trackside.rules.parameters import Parameter

ISSUES_FOUND = 4
"""The exit code of a check with findings; 1 to 3 mean that the check itself failed."""
_EXAMPLES = {
    "collection_names": "gradients",
    "other_trials": "s3://bucket/out/earlier-job/debug-output",
}
"""Values for parameters that some rules require."""


class Rules(click.Group):
    """`rules check` is a subcommand; any other word is the name of a rule."""

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
        print(as_json([_record(rule) for rules in catalog.groups().values() for rule in rules]))
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
    terminal.print(Text(rule.name, "bold"))
    for paragraph in rule.doc.split("\n\n"):
        print()
        print("\n".join(_wrapped(paragraph, terminal.width, indent="")))
    print()
    print(f"Watches: {rule.watches}")
    for parameter in _own(rule):
        print()
        named = _assignment(parameter)
        terminal.print_wrapped(Text().append(named, "cyan").append(f"  {parameter.type}", "dim"))
        print("\n".join(_wrapped(parameter.doc, terminal.width)))
    if rule.advice:
        print()
        print("\n".join(_wrapped(f"Try: {rule.advice}", terminal.width, indent="")))
    print()
    print(f"  trackside run train.py --rule {_example(rule)}")


@rules.command
@job_argument(or_place=True, metavar="JOB|LOCATION")
@click.option(
    "--rule",
    "named",
    multiple=True,
    required=True,
    callback=rule_options.parse,
    metavar="RULE",
    help=f"{rule_options.FORM}, or FILE.py:NAME for one of your own; may be repeated.",
)
@click.option("--json", is_flag=True, help="Print JSON.")
@click.pass_context
def check(ctx: click.Context, job: str, named: list[rule_options.Named], json: bool) -> None:
    """Run rules on what a job, running or finished, has saved so far.

    Tensor rules and custom rules read its tensors, profiler rules the metrics of its machine. A
    LOCATION is a trial, or for profiler rules a job's profiler-output. Findings are only printed:
    no actions are taken. The exit code is 0 when nothing was found, 4 when something was, and 1
    when a custom rule raised an error.

    \b
    Examples:
      trackside rules check train-2026-11-15-22-50-46-123 --rule DeadRelu
      trackside rules check train-2026-11-15-22-50-46-123 --rule mine.py:MyRule
      trackside rules check s3://bucket/out/job/debug-output --rule all
    """
    from trackside.cli.rule_check import check_rules, print_verdicts  # with every rule

    verdicts = check_rules(job, named)
    if json:
        print(as_json([asdict(verdict) for verdict in verdicts]))
    else:
        print_verdicts(verdicts)
    if any(verdict.failure for verdict in verdicts):
        ctx.exit(1)
    ctx.exit(ISSUES_FOUND if any(verdict.findings for verdict in verdicts) else 0)


def _two_words(first: str, second: str) -> str:
    if difflib.get_close_matches(first, ["check"]):
        return f"No rule is called {first!r}. Did you mean `trackside rules check {second}`?"
    return f"One rule at a time: {first!r} or {second!r}. Without a name all are listed."


def _list() -> None:
    terminal = Terminal.of_stdout()
    for number, (title, rules) in enumerate(catalog.groups().items()):
        if number:
            print()
        shared = _shared(rules)
        terminal.print(Text(title, "bold underline"))
        for rule in rules:
            watches = "" if rule.is_profiler_rule else f"  {rule.watches}"
            terminal.print(Text().append(f"  {rule.name}", "bold").append(watches, "dim"))
            for line in _wrapped(rule.summary, terminal.width):
                terminal.print(line)
            for line in _wrapped(_signature(rule, shared), terminal.width):
                terminal.print(Text(line, "cyan"))
        for each in shared:
            note = f"All of these also take {_assignment(each)}. {each.doc}"
            print("\n".join(_wrapped(note, terminal.width, indent="  ")))


def _shared(rules: list[catalog.Entry]) -> list[Parameter]:
    """The parameters that every profiler rule of a group takes; other rules share none."""
    if not all(rule.is_profiler_rule for rule in rules):
        return []
    return [each for each in rules[0].parameters if all(each in rule.parameters for rule in rules)]


def _find(name: str) -> catalog.Entry:
    try:
        return catalog.find_entry(name)
    except catalog.UnknownRule as unknown:
        raise InputError(str(unknown)) from None


def _signature(rule: catalog.Entry, shared: list[Parameter]) -> str:
    own = _own(rule)
    parts = [_assignment(each) for each in own if each not in shared]
    if len(own) < len(rule.parameters):
        parts.append("the parameters of all others as <Rule>_<parameter>")
    return ", ".join(parts)


def _own(rule: catalog.Entry) -> list[Parameter]:
    """Without those that it forwards to other rules."""
    known = catalog.entries()
    return [each for each in rule.parameters if each.name.partition("_")[0] not in known]


def _assignment(parameter: Parameter) -> str:
    return f"{parameter.name}={_default(parameter)}"


def _default(parameter: Parameter) -> str:
    default = parameter.default
    if isinstance(default, float):
        return f"{default:g}"
    if isinstance(default, tuple):
        return ",".join(map(str, default)) or "None"
    return f"{default}"


def _example(rule: catalog.Entry) -> str:
    """With its required parameters, and the number that is most likely to be changed."""
    profiler_rules = [each for each in catalog.entries().values() if each.is_profiler_rule]
    shared = _shared(profiler_rules)
    numbers = [
        each
        for each in rule.parameters
        if isinstance(each.default, int | float)
        and not isinstance(each.default, bool)
        and each not in shared
    ]
    numbers.sort(key=lambda each: "threshold" not in each.name)  # the others stay in order
    given = [*_required(rule), *map(_assignment, numbers[:1])]
    return ":".join(filter(None, (rule.name, ",".join(given))))


def _required(rule: catalog.Entry) -> list[str]:
    if rule.is_complete:
        return []
    names = [each.name for each in rule.parameters]
    required = "other_trials" if "other_trials" in names else "collection_names"
    return [f"{required}={_EXAMPLES[required]}"]


def _record(rule: catalog.Entry) -> dict[str, Any]:
    return {
        "name": rule.name,
        "summary": rule.summary,
        "watches": rule.watches,
        "parameters": [{**asdict(each), "default": _default(each)} for each in rule.parameters],
        "advice": rule.advice,
    }


def _wrapped(text: str, columns: int, indent: str = "    ") -> Iterator[str]:
    plain = " ".join(text.split())
    yield from textwrap.wrap(
        plain, max(columns, 40), initial_indent=indent, subsequent_indent=indent
    )
