"""Everything about a job in one view, of jobs whose supervisors are stand-ins."""

import json
import shutil
from pathlib import Path

from tests.jobs.conftest import embedded_buckets as embedded_buckets
from tests.jobs.conftest import home as home
from tests.jobs.conftest import is_training, make_spec, run_to_end
from tests.jobs.conftest import jobs as jobs
from tests.jobs.conftest import settings as settings
from tests.rules.recording import Recording
from tests.wait import until
from trackside.curves.event_writer import SummaryWriter
from trackside.jobs.described_locations import curves_uri, tensors_uri
from trackside.jobs.jobs import Jobs
from trackside.records.finding import Finding
from trackside.records.rule_status import Evaluation, RuleStatus, write_evaluations
from trackside.storage.locate import locate
from trackside.views.curves.curve_list import vital_id
from trackside.views.curves.series import CurveReader
from trackside.views.job.job_sources import JobSources
from trackside.views.job.job_view import Job, job_view
from trackside.views.job.shared_sources import SharedSources
from trackside.views.tensors.open_trials import OpenTrials

CHECKUP = {"RuleConfigurationName": "Checkup", "RuleParameters": {"rule_to_invoke": "Checkup"}}
RATE_ZERO = Finding(
    rule="LearningRateZero",
    configuration="Checkup",
    message="The learning rate is 0 in all 36 updates.",
    advice="Print the rate.",
    step=0,
    mode="TRAIN",
    value=float("nan"),
    threshold=0.0,
    time=1_700_000_000.0,
)
STUCK = Finding(
    rule="NothingLearnt", configuration="Checkup", message="The loss is 1.1.", step=0, time=1.7e9
)


def folder_of(jobs: Jobs, uri: str | None) -> Path:
    assert uri is not None
    place = locate(uri, home=jobs.settings.home)
    assert place.local is not None
    return place.local


def file(jobs: Jobs, name: str, *findings: Finding) -> None:
    rules = jobs.settings.layout.job(name).rules
    rules.root.mkdir(exist_ok=True)
    rules.findings.write_bytes(b"".join(each.to_line() for each in findings))
    status = RuleStatus.ISSUES_FOUND if findings else RuleStatus.IN_PROGRESS
    evaluation = Evaluation(
        configuration="Checkup", rule="Checkup", status=status, last_step=41, is_over=True
    )
    write_evaluations(rules.statuses, [evaluation])


def held(jobs: Jobs, name: str = "job-1") -> None:
    hooked = {"S3OutputPath": "s3://out/runs"}
    jobs.submit(
        make_spec(
            name, hyper={"hold": "1"}, DebugRuleConfigurations=[CHECKUP], DebugHookConfig=hooked
        )
    )
    until(lambda: is_training(jobs, name))


def finish(jobs: Jobs, name: str = "job-1") -> None:
    (jobs.settings.layout.job(name).root / "release").touch()
    run_to_end(jobs, name)


def write_curves(folder: Path, start: int, num_points: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with SummaryWriter(folder) as writer:
        for step in range(start, start + num_points):
            writer.add_scalar("loss/train", 1.0 / (step + 1), step, walltime=1e9 + step)


def save_tensors(folder: Path) -> None:
    recording = Recording(
        folder, collections={"gradients": "^gradient/", "vitals": "^vitals/", "weights": "weight$"}
    )
    for step in range(3):
        tensors = {"gradient/fc.weight": [1.0], "vitals/learning_rate/0": 0.0}
        recording.step(step, {**tensors, "vitals/update_ratio": 0.0})
    recording.end()


def shared(jobs: Jobs) -> SharedSources:
    """As the page reads jobs."""
    trials = OpenTrials(jobs.settings.layout)
    return SharedSources(jobs, "job-1", CurveReader(jobs), trials)


def test_a_running_job_says_what_is_wrong_and_shows_why(jobs: Jobs):
    held(jobs)
    file(jobs, "job-1", RATE_ZERO, STUCK)
    described = jobs.describe("job-1")
    save_tensors(folder_of(jobs, tensors_uri(described)))
    view = job_view(jobs, "job-1")
    assert view.sentence == "The learning rate is 0 in all 36 updates (since step 0)."
    (diagnosis,) = view.diagnoses
    assert (diagnosis.cause, diagnosis.certainty) == ("LearningRateZero", "certain")
    assert diagnosis.explains == ("NothingLearnt",)
    assert [each.rule for each in diagnosis.findings] == ["LearningRateZero", "NothingLearnt"]
    names = ("vitals/learning_rate/0", "vitals/update_ratio")
    assert diagnosis.evidence.vitals == tuple(vital_id(name) for name in names)
    listed = {curve.id for curve in CurveReader(jobs).curves("job-1")}
    assert {*diagnosis.evidence.vitals, *diagnosis.evidence.curves} <= listed
    assert diagnosis.evidence.log is not None
    assert diagnosis.evidence.log.time == RATE_ZERO.time
    assert view.has.tensors
    assert view.has.vitals
    assert not view.has.curves
    assert any("No curves." in gap for gap in view.gaps)
    assert view.workers == ("worker_0",)
    assert view.phases[-1].name == "Training"
    assert view.phases[-1].end is None
    assert job_view(jobs, "job-1", shared(jobs)).to_json() == view.to_json()
    finish(jobs)


def test_a_finished_job_is_read_from_storage(jobs: Jobs):
    held(jobs)
    file(jobs, "job-1")
    assert job_view(jobs, "job-1").sentence.startswith("Healthy so far: ")
    finish(jobs)
    described = jobs.describe("job-1")
    write_curves(folder_of(jobs, curves_uri(described)), 0, 5)
    view = job_view(jobs, "job-1")
    assert view.has.curves
    assert not any("No curves." in gap for gap in view.gaps)
    assert all(phase.end is not None for phase in view.phases)
    assert "Completed" not in [phase.name for phase in view.phases]


def test_the_place_in_the_log_is_when_the_step_was_logged(jobs: Jobs):
    held(jobs)
    late = Finding(rule="DeadLayer", message="Dead.", step=3, tensor="relu", time=1.7e9)
    file(jobs, "job-1", late)
    finish(jobs)
    write_curves(folder_of(jobs, curves_uri(jobs.describe("job-1"))), 0, 5)
    (diagnosis,) = job_view(jobs, "job-1").diagnoses
    assert diagnosis.evidence.log is not None
    assert diagnosis.evidence.log.time == 1e9 + 3
    (same,) = job_view(jobs, "job-1", shared(jobs)).diagnoses
    assert same == diagnosis


def test_sources_read_only_what_is_new(jobs: Jobs):
    held(jobs)
    finish(jobs)
    sources = JobSources(jobs, "job-1")
    folder = folder_of(jobs, curves_uri(jobs.describe("job-1")))
    write_curves(folder / "a", 0, 5)
    assert sources.refresh_curves() == 5
    assert sources.refresh_curves() == 0
    write_curves(folder / "b", 0, 2)
    assert sources.refresh_curves() == 2
    assert [len(curve.series) for curve in sources.chosen()] == [5, 2]
    write_curves(folder / "b", 2, 3)
    assert sources.refresh_curves() == 3
    assert [len(curve.series) for curve in sources.chosen()] == [5, 5]
    write_curves(folder / "c", 0, 1)
    assert sources.refresh_curves() == 1
    assert [curve.name for curve in sources.chosen()] == [f"{run}/loss/train" for run in "abc"]
    assert not sources.troubles


def test_every_host_is_named_also_of_a_job_that_is_only_in_storage(jobs: Jobs):
    jobs.submit(make_spec("job-1", num_hosts=3))
    run_to_end(jobs)
    assert job_view(jobs, "job-1").hosts == ("algo-1", "algo-2", "algo-3")
    assert [row.status for row in jobs.list()] == ["Completed"]  # the index knows it
    shutil.rmtree(jobs.settings.layout.job("job-1").root)
    assert job_view(jobs, "job-1").hosts == ("algo-1", "algo-2", "algo-3")


def test_a_failure_has_its_cause_and_a_hint(jobs: Jobs):
    reason = "AlgorithmError: ModuleNotFoundError: No module named 'nope', exit code: 1"
    jobs.submit(make_spec("job-1", hyper={"failure": reason}))
    run_to_end(jobs)
    view = job_view(jobs, "job-1")
    assert view.failure is not None
    assert "install it here" in view.failure.hint
    assert view.sentence.startswith("Failed: ")
    assert "No module named 'nope'" in view.sentence


def test_a_job_without_rules_says_how_to_watch_it(jobs: Jobs):
    jobs.submit(make_spec("job-1"))
    run_to_end(jobs)
    view = job_view(jobs, "job-1")
    assert view.sentence == "Completed. Not watched: start it with --rule all."
    assert view.diagnoses == ()
    assert any("trackside rules check job-1" in gap for gap in view.gaps)


def test_the_json_is_strict_and_has_the_members_of_the_api(jobs: Jobs):
    held(jobs)
    file(jobs, "job-1", RATE_ZERO)
    view = job_view(jobs, "job-1")
    text = json.dumps(view.to_json({"name": "job-1"}), allow_nan=False)
    members = json.loads(text)
    assert members["row"] == {"name": "job-1"}
    assert members["diagnoses"][0]["value"] == "NaN"
    assert {"row", "sentence", "diagnoses", "failure", "gaps", "rules", "hosts"} <= {*members}
    assert members.keys() == {*Job.__slots__} - {"name", "shown", "status", "secondary"} | {"row"}
    finish(jobs)
