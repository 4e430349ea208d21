"""`trackside report`: everything about a job, as one page."""

import webbrowser
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackside.capture.exceptions import SMDebugError
from trackside.capture.trial import Trial
from trackside.cli.job_names import job_argument
from trackside.cli.report_head import head
from trackside.cli.text import size
from trackside.curves.event_reader import Curves, read
from trackside.curves.machine_curves import is_machine_run
from trackside.errors import TracksideError
from trackside.files import durable
from trackside.files.json_record import DamagedRecord
from trackside.files.permissions import BY_UMASK
from trackside.records.layout import FIRST_HOST
from trackside.records.script_packages import ScriptPackages, from_bytes
from trackside.rules.report.facts import Material
from trackside.rules.report.page import report_page
from trackside.rules.report.profiler_report import ProfilerReport
from trackside.rules.saved.open_trial import open_trial
from trackside.rules.saved.profile import Profile
from trackside.sdk.job import TrainingJob
from trackside.sdk.known_jobs import known_jobs
from trackside.storage.locate import Location, locate
from trackside.texts.shown_names import shown_name

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobService


@click.command(short_help="Write an HTML report about a job.")
@job_argument()
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; by default JOB.html in this folder.",
)
@click.option("--open", "is_opened", is_flag=True, help="Show it in the browser.")
def report(job: str, output: Path | None, is_opened: bool) -> None:
    """Write one HTML page about a job: findings, curves, layers, machine, step times, rules.

    The page needs no network and no other file. Works during the job and after it.

    \b
    Examples:
      trackside report train-2026-11-15-22-50-46-123 --open
      trackside report train-2026-11-15-22-50-46-123 -o report.html
    """
    path = output or Path(f"{shown_name(job)}.html")
    page = report_page(gather(job, known_jobs()))
    path.parent.mkdir(parents=True, exist_ok=True)
    durable.write_bytes(path, page, mode=BY_UMASK)
    print(f"{path}  ({size(len(page))})")
    if is_opened:
        webbrowser.open(path.absolute().as_uri())


def gather(name: str, known: "JobService") -> Material:
    """The job's current data; each part that cannot be read is a gap."""
    described = known.describe(name)
    home = known.settings.home
    gaps: list[str] = []
    findings, evaluations = known.findings(name), known.evaluations(name)
    if not evaluations:
        gaps.append(
            "No rules watched the job. Start it with --rule all, or judge what it saved: "
            f"trackside rules check {shown_name(name)} --rule all"
        )
    job = TrainingJob(name, known)
    profile, judged = _profile(job, home, gaps)
    reported = {(each.rule, each.worker, each.tensor, each.mode) for each in findings}
    fresh = [
        each
        for each in (judged.found if judged else ())
        if (each.rule, each.worker, each.tensor, each.mode) not in reported
    ]
    curves = _curves(job, gaps)
    return Material(
        head=head(described, curves, job.artifacts(), _packages(job, home)),
        findings=[*findings, *fresh],
        evaluations=evaluations,
        curves=curves,
        trial=_trial(job, home, gaps),
        profile=profile,
        profiler_rules=judged.rules if judged else (),
        gaps=gaps,
        is_one_machine=described["Trackside"]["options"]["Placement"] == "local",
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )


def _packages(job: TrainingJob, home: Path) -> ScriptPackages | None:
    """Of the first host; None if the script has not ended, or Trackside did not start it."""
    place = locate(job.environment_uri, home=home).child(f"{FIRST_HOST}.json")
    try:
        return from_bytes(place.store.get(place.key))
    except (TracksideError, DamagedRecord):
        return None


def _curves(job: TrainingJob, gaps: list[str]) -> Curves | None:
    try:
        curves = read(job.curves_uri)
    except TracksideError as error:
        gaps.append(f"The curves cannot be read: {error}")
        return None
    if all(is_machine_run(run) for run, _ in curves.scalars):
        gaps.append(
            "No curves. Write them with a SummaryWriter, such as one for 'runs', or print them "
            "and name a pattern: trackside run --metric 'loss=loss: ([0-9.]+)'"
        )
    return curves


def _trial(job: TrainingJob, home: Path, gaps: list[str]) -> Trial | None:
    where = job.debugger_artifacts_path
    trial = _opened_trial(locate(where, home=home), home, gaps) if where else None
    if trial is None or not trial.tensor_names():
        gaps.append(
            "No tensors, so no layers. Start the job with --capture gradients,weights,losses, or "
            "give debugger_hook_config in the SDK; the script stays as it is."
        )
    elif missing := [
        name for name in ("gradients", "weights") if not trial.tensor_names(collection=name)
    ]:
        gaps.append(f"Not among the saved tensors: {' and '.join(missing)}. Add them to --capture.")
    return trial


def _opened_trial(place: Location, home: Path, gaps: list[str]) -> Trial | None:
    try:
        trial = open_trial(place, home)
    except (TracksideError, SMDebugError) as error:
        gaps.append(f"The saved tensors cannot be read: {error}")
        return None
    if trial is not None:
        trial.dynamic_refresh = False  # one page, one consistent state
    return trial


def _profile(
    job: TrainingJob, home: Path, gaps: list[str]
) -> tuple[Profile | None, ProfilerReport | None]:
    """With the profiler's rules, evaluated on all data."""
    where = job.profiler_artifacts_path
    if where is None:
        gaps.append(
            "No profile, so no step times and no profiler rules. Give the job a ProfilerConfig: "
            "profiler_config={} in the SDK is enough."
        )
        return None, None
    profile = Profile(where, home=home)
    try:
        profile.advance()
    except TracksideError as error:
        gaps.append(f"The profile cannot be read: {error}")
        return None, None
    if not profile.events:
        gaps.append(
            "The profile has no step times. They come from the hook of a PyTorch script: start "
            "the job with --capture losses, or give debugger_hook_config."
        )
    judged = ProfilerReport()
    for _ in judged.check(profile):
        pass
    return profile, judged
