"""What DescribeTrainingJob's readers count on is always there."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.jobs.conftest import make_spec, run_to_end
from tests.wait import until
from trackside.errors import JobFailed, JobNotFinished
from trackside.jobs.artifacts import Artifact
from trackside.jobs.describe import arn
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import read_folder, read_rules
from trackside.records.evaluator_process import first_evaluations
from trackside.records.hosts import HostRecord, Phase, SyncState, write
from trackside.records.journal import Journal
from trackside.records.layout import Home
from trackside.records.rule_status import RuleStatus, write_evaluations
from trackside.records.status import Secondary, Status


def test_a_finished_job_has_every_field_that_clients_read(jobs: Jobs):
    role = "arn:aws:iam::111122223333:role/trainer"
    tags = [{"Key": "team", "Value": "vision"}]
    jobs.submit(make_spec("Job-1", RoleArn=role, Tags=tags, VpcConfig={"Subnets": ["s"]}))
    run_to_end(jobs, "Job-1")
    reported = jobs.describe("Job-1")
    assert reported["TrainingJobName"] == "Job-1"
    assert reported["TrainingJobArn"] == "arn:aws:sagemaker:local:000000000000:training-job/job-1"
    assert reported["TrainingJobStatus"] == reported["SecondaryStatus"] == "Completed"
    assert reported["RoleArn"] == role
    assert reported["HyperParameters"] == {"sagemaker_program": "train.py"}
    assert reported["OutputDataConfig"]["KmsKeyId"] == ""
    assert reported["OutputDataConfig"]["CompressionType"] == "GZIP"
    assert reported["StoppingCondition"] == {
        "MaxRuntimeInSeconds": 28 * 86400
    }  # none was asked for
    assert reported["Trackside"]["max_runtime_seconds"] is None
    assert reported["ResourceConfig"]["VolumeSizeInGB"] == 30
    assert reported["AlgorithmSpecification"]["EnableSageMakerMetricsTimeSeries"] is False
    assert reported["EnableManagedSpotTraining"] is False
    assert reported["VpcConfig"] == {"Subnets": ["s"]}
    assert "Tags" not in reported
    assert "FailureReason" not in reported
    model = "s3://out/runs/Job-1/output/model.tar.gz"
    assert reported["ModelArtifacts"] == {"S3ModelArtifacts": model}


def test_times_are_aware_and_fit_together(jobs: Jobs):
    before = datetime.now(UTC)
    jobs.submit(make_spec())
    run_to_end(jobs)
    reported = jobs.describe("job-1")
    entries = reported["SecondaryStatusTransitions"]
    assert [entry["Status"] for entry in entries] == [
        "Starting",
        "Downloading",
        "Training",
        "Uploading",
        "Completed",
    ]
    assert all(entry["StatusMessage"] for entry in entries)
    assert before <= reported["CreationTime"] == entries[0]["StartTime"]
    assert reported["TrainingStartTime"] == entries[1]["StartTime"]
    assert reported["TrainingEndTime"] == reported["LastModifiedTime"] == entries[-1]["StartTime"]
    assert entries[-1]["StartTime"] == entries[-1]["EndTime"]
    took = reported["TrainingEndTime"] - reported["TrainingStartTime"]
    assert reported["TrainingTimeInSeconds"] == max(1, int(took.total_seconds()))
    assert reported["BillableTimeInSeconds"] == reported["TrainingTimeInSeconds"]


def test_whole_seconds_are_reported_of_a_longer_training(jobs: Jobs, home: Home):
    jobs.submit(make_spec())
    run_to_end(jobs)
    journal = home.job("job-1").journal
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    moves = [event for event in events if event["kind"] == "status"]
    for event, second in zip(moves, (0, 10, 20.25, 50, 71.75), strict=True):
        event["time"] = 1_000_000 + second
    journal.write_text("".join(json.dumps(event) + "\n" for event in events))
    reported = jobs.describe("job-1")
    assert reported["TrainingTimeInSeconds"] == 61
    assert reported["TrainingEndTime"] - reported["TrainingStartTime"] == timedelta(seconds=61.75)


def test_a_running_job_has_no_end_and_tells_how_far_its_hosts_are(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    place = home.job("job-1").host("algo-1", 1)
    until(place.record.exists)
    sync = SyncState(to="s3://out/ckpt", pending_files=2)
    write(place.record, HostRecord(phase=Phase.RUNNING, syncs={"/opt/ml/checkpoints": sync}))
    reported = jobs.describe("job-1")
    for absent in ("TrainingEndTime", "TrainingTimeInSeconds", "BillableTimeInSeconds"):
        assert absent not in reported
    assert "EndTime" not in reported["SecondaryStatusTransitions"][-1]
    assert reported["ModelArtifacts"]["S3ModelArtifacts"].endswith("/output/model.tar.gz")
    own = reported["Trackside"]
    assert own["attempt"] == 1
    assert own["folder"] == str(home.job("job-1").root)
    assert own["hosts"]["algo-1"]["phase"] == "running"
    assert own["syncs"]["algo-1"]["/opt/ml/checkpoints"]["pending_files"] == 2


def test_a_job_that_never_downloaded_has_no_training_time(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"dies": "always"}))
    jobs.wait("job-1", timeout_seconds=120)
    reported = jobs.describe("job-1")
    assert "TrainingStartTime" not in reported
    assert "TrainingTimeInSeconds" not in reported
    assert reported["TrainingEndTime"]


def test_an_uncompressed_model_and_the_profiler_are_reported_as_configured(jobs: Jobs):
    output = {"S3OutputPath": "s3://out/runs/", "CompressionType": "NONE"}
    jobs.submit(make_spec(OutputDataConfig=output, ProfilerConfig={"DisableProfiler": True}))
    reported = jobs.describe("job-1")
    assert reported["ModelArtifacts"] == {"S3ModelArtifacts": "s3://out/runs/job-1/output/model/"}
    assert reported["ProfilingStatus"] == "Disabled"
    assert reported["ProfilerConfig"]["ProfilingIntervalInMilliseconds"] == 500


def test_clients_that_insist_on_a_role_get_one(jobs: Jobs):
    jobs.submit(make_spec())
    assert jobs.describe("job-1")["RoleArn"] == "arn:aws:iam::000000000000:role/trackside"
    assert arn("ABC").endswith("/abc")


def test_a_failure_is_reported_with_exit_code_last_lines_and_where_the_rest_is(
    jobs: Jobs, home: Home
):
    reason = "AlgorithmError: ExecuteUserScriptError: no, exit code: 1"
    jobs.submit(make_spec(hyper={"failure": reason, "lines": "30"}))
    assert run_to_end(jobs).state.status is Status.FAILED
    assert jobs.describe("job-1")["FailureReason"] == reason
    failure = jobs.failure_of("job-1")
    assert isinstance(failure, JobFailed)
    assert failure.reason == reason
    text = str(failure)
    assert text.startswith(f"Job 'job-1' failed: {reason}\nExit code 1 on algo-1.\n")
    shown = [line for line in text.splitlines() if line.startswith("  | ")]
    assert shown == [f"  | line {number}" for number in range(10, 30)]
    log = home.job("job-1").host("algo-1", 1).log
    assert text.endswith(f"Its whole log is {log}; `trackside logs job-1` prints it.")


def test_the_host_that_failed_first_is_shown_with_those_that_failed_alike(jobs: Jobs, home: Home):
    jobs.submit(make_spec(num_hosts=4, hyper={"hold": "yes"}))
    folder = home.job("job-1")
    for number in range(1, 5):
        until(folder.host(f"algo-{number}", 1).record.exists)
    alike = "AlgorithmError: boom, exit code: 3"
    reason = "AlgorithmError: algo-3: boom, exit code: 3"

    def wrong(host: str, **fields: Any) -> None:
        write(folder.host(host, 1).record, HostRecord(phase=Phase.ENDED, **fields))

    Journal(folder.journal).move(Secondary.FAILED, reason=reason)
    run_to_end(jobs)
    wrong("algo-1", exit_code=-15, lost="ended with the others", ended_at=30.0)
    wrong("algo-2", exit_code=3, failure=alike, ended_at=20.0)
    wrong("algo-3", exit_code=3, failure=alike, ended_at=40.0)
    wrong("algo-4", exit_code=0)
    text = str(jobs.failure_of("job-1"))
    assert "Exit code 3 on algo-3 (the same on algo-2)." in text
    assert "The last lines of algo-3:" in text


def test_a_job_that_did_not_fail_has_no_failure(jobs: Jobs):
    jobs.submit(make_spec())
    run_to_end(jobs)
    assert jobs.failure_of("job-1") is None


def test_waiting_is_over_when_the_time_is(jobs: Jobs):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    with pytest.raises(JobNotFinished, match="Job 'job-1' is still .* after 0.2 s"):
        jobs.wait("job-1", timeout_seconds=0.2)


def test_artifacts_are_listed_with_checksums_and_folders_with_counts(jobs: Jobs, home: Home):
    jobs.submit(
        make_spec(
            hyper={"hold": "yes"},
            CheckpointConfig={"S3Uri": "s3://out/ckpt/"},
            TensorBoardOutputConfig={"S3OutputPath": "s3://out/tb"},
            DebugHookConfig={"S3OutputPath": "s3://out/debug"},
        )
    )
    for path in ("ckpt/a", "ckpt/b/c", "ckpt-of-another/d", "tb/job-1/tensorboard-output/e"):
        file = home.buckets / "out" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"1234")
    folders = [
        Artifact("checkpoints", "s3://out/ckpt", 8, 2),
        Artifact("tensorboard", "s3://out/tb/job-1/tensorboard-output", 4, 1),
    ]
    assert jobs.artifacts("job-1") == folders
    (home.job("job-1").root / "release").touch()
    run_to_end(jobs)
    model = "s3://out/runs/job-1/output/model.tar.gz"
    published = Artifact("output", model, 7, sha256="0" * 64)
    assert jobs.artifacts("job-1") == [published, *folders]


RULES: dict[str, Any] = {
    "DebugRuleConfigurations": [
        {"RuleConfigurationName": name, "RuleParameters": {"rule_to_invoke": "Overfit"}}
        for name in ("Zeta", "Alpha")
    ],
    "ProfilerRuleConfigurations": [{"RuleConfigurationName": "Report"}],
}


def test_rules_are_in_progress_from_the_beginning_in_the_order_of_the_request(jobs: Jobs):
    name = "a-job-with-a-name-of-more-than-26-letters"
    jobs.submit(make_spec(name, hyper={"hold": "yes"}, **RULES))
    reported = jobs.describe(name)
    debug, profiler = (
        reported["DebugRuleEvaluationStatuses"],
        reported["ProfilerRuleEvaluationStatuses"],
    )
    assert [item["RuleConfigurationName"] for item in debug + profiler] == [
        "Zeta",
        "Alpha",
        "Report",
    ]
    for item in debug + profiler:
        assert item["RuleEvaluationStatus"] == "InProgress"
        assert item["LastModifiedTime"] == reported["CreationTime"]
        assert "StatusDetails" not in item
    arn = r"arn:aws:sagemaker:local:000000000000:processing-job/a-job-with-a-name-of-more--zeta"
    assert re.fullmatch(rf"{arn}-[0-9a-f]{{8}}", debug[0]["RuleEvaluationJobArn"])


def test_a_job_without_rules_has_no_statuses(jobs: Jobs):
    jobs.submit(make_spec())
    reported = jobs.describe("job-1")
    assert not any("RuleEvaluationStatuses" in member for member in reported)


def test_what_the_rules_came_to_is_reported_from_the_folder_and_from_storage(
    jobs: Jobs, home: Home
):
    jobs.submit(make_spec(hyper={"hold": "yes"}, **RULES))
    folder = home.job("job-1")
    evaluations = [
        replace(each, status=status, details=details, is_over=True, modified=1.5)
        for each, status, details in zip(
            first_evaluations(make_spec(**RULES), 0.0),
            (RuleStatus.ISSUES_FOUND, RuleStatus.NO_ISSUES_FOUND, RuleStatus.ERROR),
            ("x" * 2000, "", "no data"),
            strict=True,
        )
    ]
    folder.rules.root.mkdir()
    write_evaluations(folder.rules.statuses, evaluations)
    reported = jobs.describe("job-1")
    [zeta, alpha] = reported["DebugRuleEvaluationStatuses"]
    assert (zeta["RuleEvaluationStatus"], len(zeta["StatusDetails"])) == ("IssuesFound", 1024)
    assert alpha["RuleEvaluationStatus"] == "NoIssuesFound"
    assert alpha["LastModifiedTime"] == datetime.fromtimestamp(1.5, UTC)
    [report] = reported["ProfilerRuleEvaluationStatuses"]
    assert report["StatusDetails"] == "no data"
    record = read_folder(folder)
    stored = home.buckets / "out/runs/job-1/trackside/rules/statuses.json"
    stored.parent.mkdir(parents=True)
    stored.write_bytes(folder.rules.statuses.read_bytes())
    assert read_rules(replace(record, folder=None), home) == evaluations
