"""`trackside rules check`: rules tried on what a job has saved."""

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from trackside.cli import rule_options
from trackside.cli.job_names import job_argument
from trackside.cli.job_trial import is_location, trial_of
from trackside.cli.tables import print_text
from trackside.cli.teller import diagnosis_text, new_teller
from trackside.cli.text import as_json
from trackside.errors import InputError, Violation
from trackside.records.spec import RuleConfiguration
from trackside.rules import catalog
from trackside.rules.custom import rule_source
from trackside.rules.parameters import build
from trackside.rules.saved.profile import Profile
from trackside.rules.validation import parameter_violations
from trackside.rules.verdict import Saved, Verdict, judge, judge_custom
from trackside.sdk.debugger import texts
from trackside.sdk.job import attach
from trackside.sdk.locations import is_remote
from trackside.sdk.rule import AnyRule
from trackside.settings import Settings
from trackside.texts.terminal_text import one_line

ISSUES_FOUND = 4
"""The exit code of a check that found something; 1 to 3 say that the check itself went wrong."""

Ask = Callable[[Saved], Verdict]


@click.command
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
    """Try rules on what a job, running or ended, has saved so far.

    Tensor rules and those of your own look at its tensors, profiler rules at the figures of its
    machine. A LOCATION is a trial, or for profiler rules a job's profiler-output. Nothing is done
    but to tell: no actions are taken. The exit code is 0 when nothing was found, 4 when something
    was, and 1 when a rule of your own raised an error.

    \b
    Examples:
      trackside rules check train-2026-11-15-22-50-46-123 --rule DeadRelu
      trackside rules check train-2026-11-15-22-50-46-123 --rule mine.py:MyRule
      trackside rules check s3://bucket/out/job/debug-output --rule all
    """
    asks = _ready(rule_options.rules_of(named, ()))
    saved = _saved(job)
    verdicts = [ask(saved) for ask in asks]
    if json:
        print(as_json([asdict(verdict) for verdict in verdicts]))
    else:
        _tell(verdicts)
    if any(verdict.failure for verdict in verdicts):
        ctx.exit(1)
    ctx.exit(ISSUES_FOUND if any(verdict.findings for verdict in verdicts) else 0)


def _ready(rules: Sequence[AnyRule]) -> list[Ask]:
    """`InputError` with all that is wrong with the built-in ones."""
    asks: list[Ask] = []
    problems: list[str] = []
    for rule in rules:
        asked = RuleConfiguration(name=rule.name, parameters=texts(rule.rule_parameters))
        if rule.source is not None:
            asks.append(_custom(asked, _loaded(rule.source, rule.invokes)))
        elif wrong := [*parameter_violations(asked)]:
            problems += [_problem(rule, each) for each in wrong]
        elif rule.invokes in rule_source.installed():
            asks.append(_custom(asked, rule_source.installed()[rule.invokes].load()))
        else:
            asks.append(_built_in(asked))
    if problems:
        head = f"{len(problems)} problems with the rules:\n  " if len(problems) > 1 else ""
        raise InputError(head + "\n  ".join(problems))
    return asks


def _problem(rule: AnyRule, wrong: Violation) -> str:
    """Of a rule that is unknown, the sentence that names it says all."""
    if wrong.field == ".rule_to_invoke":
        return wrong.advice
    return str(Violation(f"{rule.name}{wrong.field}", wrong.value, wrong.advice))


def _built_in(asked: RuleConfiguration) -> Ask:
    rule = build(catalog.find(asked.invokes), asked.parameters)
    return lambda saved: judge(asked.name, rule, saved)


def _custom(asked: RuleConfiguration, rule: Callable[..., Any]) -> Ask:
    home = Settings.load().home
    return lambda saved: judge_custom(asked.name, rule, asked.parameters, saved, home)


def _loaded(source: str, invokes: str) -> Callable[..., Any]:
    """From a file of this machine, or one in storage."""
    path = Path(source).expanduser()
    if not is_remote(source) and not path.is_file():
        raise InputError(f"There is no file {source!r} to take the rule {invokes} from.")
    rule_source.make_smdebug_importable()
    with tempfile.TemporaryDirectory() as folder:
        if is_remote(source):
            path = rule_source.fetch(source, Path(folder), Settings.load().home)
        try:
            return rule_source.find(rule_source.load(path), invokes)
        except Exception as error:
            raise InputError(f"{source!r} gives no rule {invokes}: {error}") from error


def _saved(job: str) -> Saved:
    is_over = not is_location(job) and attach(job).status.is_final
    return Saved(lambda: trial_of(job), lambda: _profile_of(job), is_over=is_over)


def _profile_of(job: str) -> Profile:
    path = job if is_location(job) else attach(job).profiler_artifacts_path
    if path is None:
        raise InputError(
            f"Job {job!r} has no profile. Start one with a profiler rule, as "
            "`trackside run --rule ProfilerReport`, or give profiler_config in the SDK."
        )
    return Profile(path)


def _tell(verdicts: Sequence[Verdict]) -> None:
    teller = new_teller()
    sys.stdout.write(diagnosis_text([each for v in verdicts for each in v.findings], teller))
    for verdict in verdicts:
        sys.stdout.write(teller.text(verdict.findings))
        for line in _ends(verdict):
            print_text(line)


def _ends(verdict: Verdict) -> Iterator[str]:
    if verdict.failure:
        yield f"{verdict.name}: raised an error.\n{verdict.failure}"
    elif verdict.missing:
        yield f"{verdict.name}: could not judge. {one_line(verdict.missing)}"
    elif not verdict.findings:
        yield f"{verdict.name}: found nothing."
