"""Programs as people have them for AWS, unmodified, in environments of their own."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.aws_clients import second_aws_cli
from tests.client_shell import HURRIED, ClientShell, client_shell
from tests.e2e.test_capture import NET
from tests.e2e.test_capture import TRAIN as LOOP
from tests.wait import until

TRAIN = """
import argparse, os, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--name")
arguments = parser.parse_args()
print("begun", arguments.epochs, arguments.name, os.listdir(os.environ["SM_CHANNEL_TRAINING"]))
for number in range(200):
    print(f"line {number};")
print("loss: 0.25;", flush=True)
from trackside import SummaryWriter
with SummaryWriter("/opt/ml/output/tensorboard") as writer:
    writer.add_scalar("loss", 0.25, 0)
time.sleep(float(os.environ.get("PAUSE", "0")))
if os.environ.get("FAIL"):
    sys.exit(3)
with open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "w") as file:
    file.write("w")
"""

LINES = [f"line {number};" for number in range(200)]

HOSTS = """
import os
parts, labels = (os.listdir(os.environ[f"SM_CHANNEL_{name}"]) for name in ("PARTS", "LABELS"))
host = os.environ["SM_CURRENT_HOST"]
print(host, "has", parts, "and", labels, flush=True)
open(f"/opt/ml/checkpoints/{host}", "w").close()
"""

CALLER = """
import boto3, json, os
reported = {"arn": boto3.client("sts").get_caller_identity()["Arn"],
    "id": os.environ["AWS_ACCESS_KEY_ID"], "secret": os.environ["AWS_SECRET_ACCESS_KEY"]}
boto3.client("s3").put_object(Bucket="trackside", Key="reported.json", Body=json.dumps(reported))
"""

RULE = """
from smdebug.rules.rule import Rule

class Watch(Rule):
    def __init__(self, base_trial, most):
        super().__init__(base_trial)
        self.most = int(most)

    def invoke_at_step(self, step):
        return step > self.most and bool(self.base_trial.tensor_names(collection="gradients"))
"""

PRELUDE = (
    HURRIED
    + """
import boto3, json, sagemaker, sys
from sagemaker.debugger import Rule, TensorBoardOutputConfig, rule_configs
from sagemaker.pytorch import PyTorch
session = sagemaker.Session()
bucket = session.default_bucket()
boto3.client("s3").put_object(Bucket=bucket, Key="data/a.txt", Body=b"x")
def estimator(**changed):
    return PyTorch(**{
        "entry_point": "train.py", "source_dir": "code", "framework_version": "2.1",
        "py_version": "py310", "instance_count": 1, "instance_type": "ml.g4dn.xlarge",
        "hyperparameters": {"epochs": 3, "name": "a b"}, "volume_size": 400,
        "metric_definitions": [{"Name": "loss", "Regex": "loss: ([0-9.]+);"}],
        "sagemaker_session": session, **changed})
data = {"training": f"s3://{bucket}/data"}
"""
)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[ClientShell]:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(TRAIN)
    with client_shell(tmp_path) as shell:
        yield shell


def test_fit_with_rules_and_tensorboard_then_attach(shell: ClientShell):
    code = """
trainer = estimator(
    tags=[{"Key": "team", "Value": "vision"}],
    tensorboard_output_config=TensorBoardOutputConfig(s3_output_path=f"s3://{bucket}/tb"),
    rules=[Rule.sagemaker(rule_configs.loss_not_decreasing())])
trainer.fit(data, logs="None")
job = trainer.latest_training_job
again = PyTorch.attach(job.name, sagemaker_session=session)
drawn = boto3.client("s3").list_objects_v2(
    Bucket=bucket, Prefix=f"tb/{job.name}/tensorboard-output/")["Contents"]
found = boto3.client("s3").get_object(Bucket=bucket, Key=again.model_data.split("/", 3)[3])
print(json.dumps({
    "rules": [each["RuleConfigurationName"] for each in job.rule_job_summary()],
    "metrics": job.describe()["FinalMetricDataList"][0]["Value"],
    "hyperparameters": again.hyperparameters(), "tags": again.tags,
    "drawn": sum("tfevents" in each["Key"] for each in drawn),
    "model_bytes": found["ContentLength"]}))
"""
    _, reported = shell.python(PRELUDE + code)
    assert reported["rules"] == ["LossNotDecreasing"]
    assert reported["metrics"] == 0.25
    assert reported["hyperparameters"]["epochs"] == "3"
    assert reported["hyperparameters"]["name"] == '"a b"'
    assert reported["tags"] == [{"Key": "team", "Value": "vision"}]
    assert reported["drawn"] > 0
    assert reported["model_bytes"] > 0


def test_every_line_of_the_log_is_shown_once(shell: ClientShell):
    code = """
estimator(environment={"PAUSE": "3"}).fit(data, logs="All")
print("{}")
"""
    shown, _ = shell.python(PRELUDE + code)
    lines = [line.split("m")[-1].removesuffix("\x1b[0") for line in shown.splitlines()]
    for number in range(200):
        assert sum(f"line {number};" in line for line in lines) == 1, number
    assert "Training seconds: " in shown


def test_a_script_that_fails_is_raised_with_its_exit_code(shell: ClientShell):
    code = """
try:
    estimator(environment={"FAIL": "1"}).fit(data, logs="None")
except sagemaker.exceptions.UnexpectedStatusException as error:
    print(json.dumps(str(error)))
"""
    _, reported = shell.python(PRELUDE + code)
    assert "AlgorithmError" in reported
    assert "exit code: 3" in reported


def test_the_command_line_lists_waits_stops_and_reads_errors(shell: ClientShell):
    code = """
trainer = estimator(environment={"PAUSE": "600"})
trainer.fit(data, wait=False)
print(json.dumps(trainer.latest_training_job.name))
"""
    _, name = shell.python(PRELUDE + code)
    listed = json.loads(shell.aws("sagemaker", "list-training-jobs", "--max-items", "5").stdout)
    assert [job["TrainingJobName"] for job in listed["TrainingJobSummaries"]] == [name]
    streams = ("logs", "describe-log-streams", "--log-group-name", "/aws/sagemaker/TrainingJobs")
    until(lambda: f"{name}/algo-1-" in shell.aws(*streams).stdout, seconds=120)
    assert shell.aws("sagemaker", "stop-training-job", "--training-job-name", name).returncode == 0
    unknown = shell.aws("sagemaker", "describe-training-job", "--training-job-name", "nobody")
    assert unknown.returncode != 0
    assert "(ValidationException)" in unknown.stderr
    assert "Requested resource not found." in unknown.stderr


def test_the_second_command_line_tails_a_log_and_copies(shell: ClientShell):
    code = """
trainer = estimator(environment={"PAUSE": "8"})
trainer.fit(data, wait=False)
print(json.dumps(trainer.latest_training_job.name))
"""
    aws = second_aws_cli()
    _, name = shell.python(PRELUDE + code)
    group = "/aws/sagemaker/TrainingJobs"
    with shell.running(aws, "logs", "tail", group, "--follow", "--format", "short") as written:
        until(lambda: "loss:" in written.read_text(), seconds=120)
        reported = [line.partition(" ")[2] for line in written.read_text().splitlines()]
    assert [line for line in reported if line.startswith("line ")] == LINES
    tail = ("logs", "tail", group, "--format", "short")
    for options, expected in (
        (("--since", "1h", "--filter-pattern", '"line "'), LINES),
        (("--since", "1h", "--filter-pattern", "line -0"), [x for x in LINES if "0" not in x]),
        (("--since", "1h", "--log-stream-name-prefix", "nobody"), []),
        (("--since", "0s", "--filter-pattern", '"line "'), []),
    ):
        done = shell.run(aws, *tail, *options)
        assert done.returncode == 0, done.stderr
        assert [line.partition(" ")[2] for line in done.stdout.splitlines()] == expected
    copied = shell.run(aws, "s3", "cp", "code/train.py", "s3://trackside/copy.py")
    assert copied.returncode == 0, copied.stderr
    assert "copy.py" in shell.run(aws, "s3", "ls", "s3://trackside/").stdout
    assert name in shell.run(aws, "sagemaker", "list-training-jobs").stdout


def test_two_hosts_share_channels_and_keep_checkpoints(shell: ClientShell):
    (shell.folder / "code" / "hosts.py").write_text(HOSTS)
    (shell.folder / "labels.csv").write_text("1,2")
    code = """
from sagemaker.inputs import TrainingInput
for name in "ab":
    boto3.client("s3").put_object(Bucket=bucket, Key=f"parts/{name}", Body=b"x")
trainer = estimator(
    entry_point="hosts.py", instance_count=2, checkpoint_s3_uri=f"s3://{bucket}/kept",
    output_path=f"s3://{bucket}/out/")
trainer.fit({
    "parts": TrainingInput(f"s3://{bucket}/parts", distribution="ShardedByS3Key"),
    "labels": session.upload_data("labels.csv", key_prefix="labels")}, logs="All")
kept = boto3.client("s3").list_objects_v2(Bucket=bucket, Prefix="kept/")["Contents"]
print(json.dumps({"model": trainer.model_data, "kept": sorted(each["Key"] for each in kept)}))
"""
    shown, reported = shell.python(PRELUDE + code)
    for host, part in (("algo-1", "a"), ("algo-2", "b")):
        assert shown.count(f"{host} has ['{part}'] and ['labels.csv']") == 1
    assert reported["kept"] == ["kept/algo-1", "kept/algo-2"]
    assert "/out/pytorch-training-" in reported["model"]
    assert reported["model"].endswith("/output/model.tar.gz")


def test_a_rule_of_the_user_s_stops_the_training(shell: ClientShell):
    (shell.folder / "code" / "endless.py").write_text(
        NET + LOOP.replace("range(30)", "range(10**9)")
    )
    (shell.folder / "watch.py").write_text(RULE)
    code = """
from sagemaker.debugger import CollectionConfig, DebuggerHookConfig
gradients = CollectionConfig("gradients", {"save_interval": "2"})
trainer = estimator(
    entry_point="endless.py", hyperparameters={},
    debugger_hook_config=DebuggerHookConfig(f"s3://{bucket}/hook", collection_configs=[gradients]),
    rules=[Rule.custom(
        "Watch", "somewhere/rules:latest", "ml.m5.large", 30, source="watch.py",
        rule_to_invoke="Watch", rule_parameters={"most": "10"},
        actions=rule_configs.ActionList(rule_configs.StopTraining()))])
trainer.fit(wait=False)
job = trainer.latest_training_job
waiter = boto3.client("sagemaker").get_waiter("training_job_completed_or_stopped")
waiter.wait(TrainingJobName=job.name, WaiterConfig={"Delay": 1, "MaxAttempts": 300})
print(json.dumps({
    "path": trainer.latest_job_debugger_artifacts_path(),
    "status": job.describe()["TrainingJobStatus"], "rules": job.rule_job_summary()}, default=str))
"""
    _, reported = shell.python(PRELUDE + code)
    assert reported["status"] == "Stopped"
    assert reported["path"].startswith("s3://trackside/hook/pytorch-training-")
    (rule,) = reported["rules"]
    assert rule["RuleEvaluationStatus"] == "IssuesFound"
    assert "Evaluation of the rule Watch at step 1" in rule["StatusDetails"]


def test_a_script_is_its_job_at_the_server_until_the_job_ends(shell: ClientShell):
    (shell.folder / "code" / "caller.py").write_text(CALLER)
    code = """
trainer = estimator(entry_point="caller.py", hyperparameters={})
trainer.fit(logs="None")
reported = json.load(boto3.client("s3").get_object(Bucket=bucket, Key="reported.json")["Body"])
keys = {"aws_access_key_id": reported["id"], "aws_secret_access_key": reported["secret"]}
outlived = boto3.client("s3", **keys)
try:
    outlived.list_buckets()
    reported["after"] = "still good"
except Exception as error:
    reported["after"] = error.response["Error"]["Code"]
print(json.dumps({**reported, "name": trainer.latest_training_job.name}))
"""
    _, reported = shell.python(PRELUDE + code)
    assert reported["arn"].endswith(f"assumed-role/trackside/TSJOB-{reported['name']}")
    assert reported["after"] == "InvalidAccessKeyId"
    kept = dict(contents(Path(shell.environment["TRACKSIDE_HOME"])))
    assert len(kept) > 10
    secret = reported["secret"].encode()
    assert [path.name for path, data in kept.items() if secret in data] == ["reported.json"]


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Of all files; the server goes on, and what it removes meanwhile is gone."""
    for top, _, names in os.walk(folder):
        for path in (Path(top, name) for name in names):
            with suppress(FileNotFoundError):
                if path.is_file():
                    yield path, path.read_bytes()


def test_waiters_and_paginators_of_boto3(shell: ClientShell):
    code = """
client = boto3.client("sagemaker")
names = []
for number in range(3):
    trainer = estimator(environment={"PAUSE": "600" if number == 2 else "0"})
    trainer.fit(data, wait=False, job_name=f"job-{number}")
    names.append(trainer.latest_training_job.name)
stopped = names[-1]
session.stop_training_job(stopped)
waiter = client.get_waiter("training_job_completed_or_stopped")
for name in names:
    waiter.wait(TrainingJobName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 300})
def paged(client, operation, key, size, **given):
    pages = client.get_paginator(operation).paginate(PaginationConfig={"PageSize": size}, **given)
    return [each for page in pages for each in page[key]]
listed = paged(client, "list_training_jobs", "TrainingJobSummaries", 1, NameContains="job-")
found = paged(client, "search", "Results", 2, Resource="TrainingJob")
logs = boto3.client("logs")
group = {"logGroupName": "/aws/sagemaker/TrainingJobs"}
streams = paged(logs, "describe_log_streams", "logStreams", 2, **group)
lines = paged(logs, "filter_log_events", "events", 50, logStreamNamePrefix="job-0/", **group)
print(json.dumps({
    "listed": [[each["TrainingJobName"], each["TrainingJobStatus"]] for each in listed],
    "found": len(found), "streams": len(streams),
    "lines": [each["message"] for each in lines if each["message"].startswith("line ")]}))
"""
    _, reported = shell.python(PRELUDE + code)
    assert reported["listed"] == [
        ["job-2", "Stopped"],
        ["job-1", "Completed"],
        ["job-0", "Completed"],
    ]
    assert reported["found"] == 3
    assert reported["streams"] in (2, 3)  # the last may have been stopped before it had written
    assert reported["lines"] == LINES
