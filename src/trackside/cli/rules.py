"""`trackside rules`: lists the built-in rules, shows one of them, and tries rules on a job."""

import difflib
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from trackside.cli import rule_catalog, rule_options
from trackside.cli.job_names import job_argument
from trackside.cli.rule_catalog import ListedParameter, ListedRule
from trackside.cli.styled_text import Text
from trackside.cli.terminal import Terminal
from trackside.cli.text import as_json
from trackside.errors import InputError

ISSUES_FOUND = 4
"""The exit code of a check that found something; 1 to 3 mean that the check itself failed."""


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
    groups = rule_catalog.read()
    if json:
        print(as_json([_record(rule) for group in groups for rule in group["rules"]]))
    else:
        _list(groups)


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
    terminal.print(Text(rule["name"], "bold"))
    for paragraph in rule["doc"].split("\n\n"):
        print()
        print("\n".join(_wrapped(paragraph, terminal.width, indent="")))
    print()
    print(f"Watches: {rule['watches']}")
    for parameter in _own(rule):
        print()
        named = _assignment(parameter)
        terminal.print_wrapped(Text().append(named, "cyan").append(f"  {parameter['type']}", "dim"))
        print("\n".join(_wrapped(parameter["doc"], terminal.width)))
    if rule["advice"]:
        print()
        print("\n".join(_wrapped(f"Try: {rule['advice']}", terminal.width, indent="")))
    print()
    print(f"  trackside run train.py --rule {rule['example']}")


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


def _list(groups: list[rule_catalog.Group]) -> None:
    terminal = Terminal.of_stdout()
    for number, group in enumerate(groups):
        if number:
            print()
        terminal.print(Text(group["title"], "bold underline"))
        for rule in group["rules"]:
            watches = "" if rule["is_profiler_rule"] else f"  {rule['watches']}"
            terminal.print(Text().append(f"  {rule['name']}", "bold").append(watches, "dim"))
            for line in _wrapped(_summary(rule), terminal.width):
                terminal.print(line)
            for line in _wrapped(_signature(rule, group["shared"]), terminal.width):
                terminal.print(Text(line, "cyan"))
        for each in group["shared"]:
            note = f"All of these also take {_assignment(each)}. {each['doc']}"
            print("\n".join(_wrapped(note, terminal.width, indent="  ")))


def _find(name: str) -> ListedRule:
    rules = {rule["name"].lower(): rule for group in rule_catalog.read() for rule in group["rules"]}
    if name.lower() in rules:
        return rules[name.lower()]
    from trackside.rules import catalog  # knows other spellings

    try:
        return rules[catalog.find(name).name().lower()]
    except catalog.UnknownRule as unknown:
        raise InputError(str(unknown)) from None


def _summary(rule: ListedRule) -> str:
    return rule["doc"].partition("\n")[0]


def _signature(rule: ListedRule, shared: list[ListedParameter]) -> str:
    parts = [_assignment(each) for each in _own(rule) if each not in shared]
    if rule["num_forwarded"]:
        parts.append("the parameters of all others as <Rule>_<parameter>")
    return ", ".join(parts)


def _own(rule: ListedRule) -> list[ListedParameter]:
    """Without those that it forwards to other rules."""
    parameters = rule["parameters"]
    return parameters[: len(parameters) - rule["num_forwarded"]]


def _assignment(parameter: ListedParameter) -> str:
    return f"{parameter['name']}={parameter['default']}"


def _record(rule: ListedRule) -> dict[str, Any]:
    return {
        "name": rule["name"],
        "summary": _summary(rule),
        "watches": rule["watches"],
        "parameters": rule["parameters"],
        "advice": rule["advice"],
    }


def _wrapped(text: str, columns: int, indent: str = "    ") -> Iterator[str]:
    plain = " ".join(text.split())
    yield from textwrap.wrap(
        plain, max(columns, 40), initial_indent=indent, subsequent_indent=indent
    )
