"""Evaluates built-in and custom rules on a job's saved data, for `trackside rules check`."""

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from trackside.cli import rule_options
from trackside.cli.finding_format import diagnosis_text, finding_formatter
from trackside.cli.job_trial import is_location, trial_of
from trackside.cli.tables import print_text
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

Check = Callable[[Saved], Verdict]


def check_rules(job: str, named: Sequence[rule_options.Named]) -> list[Verdict]:
    """The result of each rule on the data of the job, or of a trial at a location."""
    checks = _ready(rule_options.rules_of(named, ()))
    saved = _saved(job)
    return [check(saved) for check in checks]


def _ready(rules: Sequence[AnyRule]) -> list[Check]:
    """`InputError` with everything wrong with the built-in rules."""
    checks: list[Check] = []
    problems: list[str] = []
    for rule in rules:
        configured = RuleConfiguration(name=rule.name, parameters=texts(rule.rule_parameters))
        if rule.source is not None:
            checks.append(_custom(configured, _loaded(rule.source, rule.invokes)))
        elif wrong := [*parameter_violations(configured)]:
            problems += [_problem(rule, each) for each in wrong]
        elif rule.invokes in rule_source.installed():
            checks.append(_custom(configured, rule_source.installed()[rule.invokes].load()))
        else:
            checks.append(_built_in(configured))
    if problems:
        head = f"{len(problems)} problems with the rules:\n  " if len(problems) > 1 else ""
        raise InputError(head + "\n  ".join(problems))
    return checks


def _problem(rule: AnyRule, wrong: Violation) -> str:
    """For an unknown rule, the sentence that names it is sufficient."""
    if wrong.field == ".rule_to_invoke":
        return wrong.advice
    return str(Violation(f"{rule.name}{wrong.field}", wrong.value, wrong.advice))


def _built_in(configured: RuleConfiguration) -> Check:
    rule = build(catalog.find(configured.invokes), configured.parameters)
    return lambda saved: judge(configured.name, rule, saved)


def _custom(configured: RuleConfiguration, rule: Callable[..., Any]) -> Check:
    home = Settings.load().home
    return lambda saved: judge_custom(configured.name, rule, configured.parameters, saved, home)


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


def print_verdicts(verdicts: Sequence[Verdict]) -> None:
    formatter = finding_formatter()
    sys.stdout.write(diagnosis_text([each for v in verdicts for each in v.findings], formatter))
    for verdict in verdicts:
        sys.stdout.write(formatter.text(verdict.findings))
        for line in _ends(verdict):
            print_text(line)


def _ends(verdict: Verdict) -> Iterator[str]:
    if verdict.failure:
        yield f"{verdict.name}: raised an error.\n{verdict.failure}"
    elif verdict.missing:
        yield f"{verdict.name}: could not judge. {one_line(verdict.missing)}"
    elif not verdict.findings:
        yield f"{verdict.name}: found nothing."
