"""`trackside findings`: what a job's rules have found."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from trackside.cli.finding_format import diagnosis_text, finding_formatter
from trackside.cli.job_names import job_argument
from trackside.cli.tables import print_text
from trackside.cli.text import as_json
from trackside.records.finding import Finding
from trackside.records.journal import History
from trackside.records.rule_status import Evaluation, RuleStatus
from trackside.records.status import Secondary, Status
from trackside.sdk.job import TrainingJob, is_watched, rule_statuses
from trackside.sdk.known_jobs import known_reader
from trackside.texts.shown_names import shown_name


@click.command(short_help="Show what rules have found, and what to try.")
@job_argument()
@click.option(
    "-f", "--follow", is_flag=True, help="Continue until the job and its rules have finished."
)
@click.option("--json", is_flag=True, help="Print JSON; with --follow a line for each finding.")
def findings(job: str, follow: bool, json: bool) -> None:
    """Show what the rules of a job have found: rule, step, tensor, value, and what to try.

    Findings of one rule at one step are shown as one.

    \b
    Examples:
      trackside findings train-2026-11-15-22-50-46-123
      trackside findings -f train-2026-11-15-22-50-46-123
      trackside findings train-2026-11-15-22-50-46-123 --json | jq '.[].tensor'
    """
    known = known_reader()
    described = known.describe(job)
    if not is_watched(described):
        print_text(_NONE_WATCH.format(job=shown_name(job)), stderr=True)
    if follow:
        _follow(TrainingJob(job, known), json=json)
    elif json:
        print(as_json([asdict(finding) for finding in known.findings(job)]))
    else:
        _print(known.findings(job), described)


_NONE_WATCH = (
    "No rules watch {job}. `trackside run --rule all` starts a job with rules; "
    "`trackside rules check {job} --rule NAME` looks at what this one has saved."
)


def _follow(job: TrainingJob, *, json: bool) -> None:
    formatter, has_failed = finding_formatter(), False
    for item in job.follow_all():
        match item:
            case History():
                has_failed = item.state.secondary is Secondary.FAILED
            case tuple() if json:
                sys.stdout.writelines(finding.to_line().decode() for finding in item)
            case tuple():
                sys.stdout.write(formatter.text(item))
            case Evaluation() if not json and item.status is not RuleStatus.IN_PROGRESS:
                lines = formatter.standing(
                    item.configuration, item.status, item.details, has_failed=has_failed
                )
                sys.stdout.write(lines)
            case _:
                continue
        sys.stdout.flush()


def _print(found: Sequence[Finding], described: Mapping[str, Any]) -> None:
    """The findings, and below them the status of each rule."""
    if not found and is_watched(described):
        print("Nothing found so far.")
    formatter = finding_formatter()
    sys.stdout.write(diagnosis_text(found, formatter))
    sys.stdout.write(formatter.text(found))
    has_failed = described["TrainingJobStatus"] == Status.FAILED
    for each in rule_statuses(described):
        name, status = each["RuleConfigurationName"], each["RuleEvaluationStatus"]
        details = each.get("StatusDetails", "")
        sys.stdout.write(formatter.standing(name, status, details, has_failed=has_failed))
