"""Gathers what a job's report shows, from wherever its files are."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from trackside.capture.exceptions import SMDebugError
from trackside.capture.trial import Trial
from trackside.curves.event_reader import Curves, read
from trackside.curves.machine_curves import is_machine_run
from trackside.errors import TracksideError
from trackside.files.json_record import DamagedRecord
from trackside.jobs.described_locations import (
    Described,
    curves_uri,
    environment_uri,
    profile_uri,
    tensors_uri,
)
from trackside.records.finding import Finding
from trackside.records.layout import FIRST_HOST
from trackside.records.rule_status import Evaluation
from trackside.records.script_packages import ScriptPackages, from_bytes
from trackside.records.status import Status
from trackside.rules.checkup.diagnosis import diagnose
from trackside.rules.report.facts import Material
from trackside.rules.report.profiler_report import ProfilerReport
from trackside.rules.saved.open_trial import open_trial
from trackside.rules.saved.profile import Profile
from trackside.storage.locate import Location, locate_to_read
from trackside.texts.shown_names import shown_name
from trackside.views.curves.gaps import NO_CURVES, NO_TENSORS, no_rules
from trackside.views.job.diagnosis_text import diagnosis_sentence, job_sentence
from trackside.views.job.job_view import standing_of
from trackside.views.job.report_head import head
from trackside.views.job.script_remarks import lines_of

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader


def gather(name: str, known: "JobReader") -> Material:
    """The job's current data; each part that cannot be read is a gap."""
    described = known.describe(name)
    home = known.settings.home
    gaps: list[str] = []
    findings, evaluations = known.findings(name), known.evaluations(name)
    if not evaluations:
        gaps.append(no_rules(shown_name(name)))
    profile, judged = _profile(described, home, gaps)
    reported = {(each.rule, each.worker, each.tensor, each.mode) for each in findings}
    fresh = [
        each
        for each in (judged.found if judged else ())
        if (each.rule, each.worker, each.tensor, each.mode) not in reported
    ]
    curves = _curves(described, gaps)
    first = head(described, curves, known.artifacts(name), _packages(described, home))
    found = [*findings, *fresh]
    return Material(
        head=replace(first, sentence=_sentence(described, found, evaluations)),
        findings=found,
        lines={rule: each.place for rule, each in lines_of(described, home).items()}
        if found
        else {},
        evaluations=evaluations,
        curves=curves,
        trial=_trial(described, home, gaps),
        profile=profile,
        profiler_rules=judged.rules if judged else (),
        gaps=gaps,
        is_one_machine=described["Trackside"]["options"]["Placement"] == "local",
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )


def _sentence(
    described: Described, found: Sequence[Finding], evaluations: Sequence[Evaluation]
) -> str:
    """What the other views say; why a job failed, the head says itself."""
    causes = diagnose(found)
    if described["TrainingJobStatus"] != Status.FAILED:
        return job_sentence(standing_of(described), causes, evaluations)
    return diagnosis_sentence(causes[0]) if causes else ""


def _packages(described: Described, home: Path) -> ScriptPackages | None:
    """Of the first host; None if the script has not ended, or Trackside did not start it."""
    place = locate_to_read(environment_uri(described), home=home).child(f"{FIRST_HOST}.json")
    try:
        return from_bytes(place.store.get(place.key))
    except (TracksideError, DamagedRecord):
        return None


def _curves(described: Described, gaps: list[str]) -> Curves | None:
    try:
        curves = read(curves_uri(described))
    except TracksideError as error:
        gaps.append(f"The curves cannot be read: {error}")
        return None
    if all(is_machine_run(run) for run, _ in curves.scalars):
        gaps.append(NO_CURVES)
    return curves


def _trial(described: Described, home: Path, gaps: list[str]) -> Trial | None:
    where = tensors_uri(described)
    trial = _opened_trial(locate_to_read(where, home=home), home, gaps) if where else None
    if trial is None or not trial.tensor_names():
        gaps.append(NO_TENSORS)
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
    described: Described, home: Path, gaps: list[str]
) -> tuple[Profile | None, ProfilerReport | None]:
    """With the profiler's rules, evaluated on all data."""
    where = profile_uri(described)
    if where is None:
        gaps.append(
            "No profile, so no step times and no profiler rules. Give the job a ProfilerConfig: "
            "profiler_config={} in the SDK is enough."
        )
        return None, None
    profile = Profile(locate_to_read(where, home=home), home=home)
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
