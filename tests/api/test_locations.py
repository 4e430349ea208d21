"""What a job that comes over the wire may name of the server's machine."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Server, running
from tests.api.test_sagemaker_update import rule
from tests.api.training import refused, request
from tests.job_processes import end_processes_of
from tests.jobs.conftest import ENVIRON, STAND_IN, is_training
from tests.wait import until
from trackside.api.job_credentials import JobCredentials
from trackside.api.keys import AccessKeys, Rights
from trackside.api.locations import Locations
from trackside.api.services import Services
from trackside.errors import InvalidSetting
from trackside.jobs.jobs import Jobs
from trackside.settings import Settings


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "mnt" / "shared"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "a.csv").write_text("1,2")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("hush")
    (folder / "way-out").symlink_to(tmp_path / "secret")
    (folder / "inner").symlink_to(folder / "data")
    return folder


@pytest.fixture
def service(tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """One whose operator shares a folder."""
    monkeypatch.setenv("TRACKSIDE_S3", "embedded")
    variables = {
        "TRACKSIDE_HOME": str(tmp_path / "home"),
        "TRACKSIDE_SHARED_FOLDERS": f"{tmp_path}/not mounted yet:{shared}",
        "TRACKSIDE_WEBHOOK_URL": "http://127.0.0.1:9/of-the-operator",
    }
    environ = {**ENVIRON, "TRACKSIDE_S3": "embedded"}
    jobs = Jobs(Settings.load(variables), environ, supervisor_command=STAND_IN)
    keys = AccessKeys(jobs.settings.layout.server.root)
    services = Services(jobs.settings, keys, {}, jobs=jobs)
    with services, running(services.app, keys) as server:
        yield server
    end_processes_of(tmp_path)


def client_of(service: Server, rights: Rights) -> Any:
    key, secret = service.keys.create("ci", rights)
    return service.client("sagemaker", aws_access_key_id=key.id, aws_secret_access_key=secret)


@pytest.fixture
def client(service: Server) -> Any:
    return client_of(service, Rights.SUBMIT)


def channel(uri: str, kind: str = "S3Prefix") -> list[dict[str, Any]]:
    source = {"S3DataSource": {"S3DataType": kind, "S3Uri": uri}}
    return [{"ChannelName": "training", "DataSource": source}]


def watched(**parameters: str) -> dict[str, Any]:
    configured = rule("w", "VanishingGradient")
    configured["RuleParameters"] |= parameters
    return configured


def code_at(uri: str) -> dict[str, Any]:
    program = {"sagemaker_program": '"train.py"', "sagemaker_submit_directory": json.dumps(uri)}
    return {"HyperParameters": program}


MEMBERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "hyperParameters.sagemaker_submit_directory": code_at,
    "outputDataConfig.s3OutputPath": lambda uri: {"OutputDataConfig": {"S3OutputPath": uri}},
    "inputDataConfig.1.member.dataSource.s3DataSource.s3Uri": lambda uri: {
        "InputDataConfig": channel(uri)
    },
    "checkpointConfig.s3Uri": lambda uri: {"CheckpointConfig": {"S3Uri": uri}},
    "tensorBoardOutputConfig.s3OutputPath": lambda uri: {
        "TensorBoardOutputConfig": {"S3OutputPath": uri}
    },
    "debugHookConfig.s3OutputPath": lambda uri: {"DebugHookConfig": {"S3OutputPath": uri}},
    "profilerConfig.s3OutputPath": lambda uri: {"ProfilerConfig": {"S3OutputPath": uri}},
    "debugRuleConfigurations.1.member.s3OutputPath": lambda uri: {
        "DebugRuleConfigurations": [{**watched(), "S3OutputPath": uri}]
    },
    "debugRuleConfigurations.1.member.ruleParameters.source_s3_uri": lambda uri: {
        "DebugRuleConfigurations": [watched(source_s3_uri=uri)]
    },
    "profilerRuleConfigurations.1.member.ruleParameters.other_trial_0": lambda uri: {
        "ProfilerRuleConfigurations": [watched(other_trial_0=uri)]
    },
    "debugRuleConfigurations.1.member.ruleParameters.Other_Trials": lambda uri: {
        "DebugRuleConfigurations": [
            watched(rule_to_invoke="SimilarAcrossRuns", Other_Trials=f"s3://a-b/c,{uri}")
        ]
    },
}


@pytest.mark.parametrize("member", MEMBERS)
def test_no_member_names_a_folder_of_the_server(client, tmp_path: Path, member: str):
    for uri in (f"{tmp_path}/secret/key", f"file://{tmp_path}/secret/key"):
        code, text = refused(client.create_training_job, **request(**MEMBERS[member](uri)))
        assert code == "ValidationException"
        assert text.startswith(f"1 validation error detected: Value '{uri}' at '{member}' failed")
        assert "below one of TRACKSIDE_SHARED_FOLDERS, unless the key may admin" in text
    assert client.list_training_jobs()["TrainingJobSummaries"] == []


@pytest.mark.parametrize(
    "uri",
    [
        "{shared}/../../secret",
        "{shared}/way-out",
        "{shared}/way-out/key",
        "file://{shared}/way-out/../secret/key",
        "file://{shared}/%2e%2e/%2e%2e/secret",
        "file://localhost{shared}/way-out",
        "{shared}-not",
        "//{shared}/../../secret",
        "file:{shared}/data",
        "data/a.csv",
        "~/data",
        "../mnt/shared/data",
        "http://169.254.169.254/latest/meta-data",
        "https://localhost/x",
        "ftp://host/x",
        "S3:/bucket/x",
    ],
)
def test_no_path_escapes_a_shared_folder(client, shared: Path, uri: str):
    given = request(**code_at(uri.format(shared=shared)))
    code, text = refused(client.create_training_job, **given)
    assert (code, "at 'hyperParameters.sagemaker_submit_directory'" in text) == (
        "ValidationException",
        True,
    )


@pytest.mark.parametrize("form", ["{}/data", "file://{}/data", "{}/data/../data", "{}/inner", "{}"])
def test_what_is_in_a_shared_folder_is_read_and_written(client, shared: Path, form: str):
    uri = form.format(shared)
    made = request(
        InputDataConfig=channel(uri),
        OutputDataConfig={"S3OutputPath": f"{shared}/out"},
        CheckpointConfig={"S3Uri": f"file://{shared}/checkpoints"},
    )
    client.create_training_job(**made)
    assert client.describe_training_job(TrainingJobName="job-1")["OutputDataConfig"][
        "S3OutputPath"
    ].endswith("/mnt/shared/out")


def test_an_admin_may_name_any_absolute_folder(service: Server, tmp_path: Path):
    client = client_of(service, Rights.ADMIN)
    client.create_training_job(**request(InputDataConfig=channel(f"{tmp_path}/secret")))
    for uri in ("secret", "~/x", "http://169.254.169.254/x"):
        wrong = request("job-2", OutputDataConfig={"S3OutputPath": uri})
        assert refused(client.create_training_job, **wrong)[0] == "ValidationException"


def test_the_key_of_a_job_names_no_more_than_a_submit_key(service: Server, client, tmp_path: Path):
    client.create_training_job(**request(hyper={"hold": "1"}))
    settings = Settings.load({"TRACKSIDE_HOME": str(tmp_path / "home")})
    jobs = Jobs(settings, ENVIRON)
    until(lambda: is_training(jobs, "job-1"))
    secret = JobCredentials(service.keys, settings.layout).secret_of("TSJOB-job-1")
    own = service.client("sagemaker", aws_access_key_id="TSJOB-job-1", aws_secret_access_key=secret)
    wrong = request("job-2", InputDataConfig=channel(f"{tmp_path}/secret"))
    assert refused(own.create_training_job, **wrong)[0] == "ValidationException"


@pytest.mark.parametrize("kind", ["ManifestFile", "AugmentedManifestFile"])
def test_a_manifest_in_a_shared_folder_could_name_anything(client, shared: Path, kind: str):
    wrong = channel(f"{shared}/data/a.csv", kind)
    wrong[0]["DataSource"]["S3DataSource"]["AttributeNames"] = ["source-ref"]
    code, text = refused(client.create_training_job, **request(InputDataConfig=wrong))
    assert code == "ValidationException"
    assert "must be in an object store: this is a manifest" in text


def test_an_update_names_no_folder_of_the_server_either(client, shared: Path, tmp_path: Path):
    client.create_training_job(**request(hyper={"hold": "1"}))
    for changed, member in (
        ({"ProfilerConfig": {"S3OutputPath": f"{tmp_path}/secret"}}, "profilerConfig.s3OutputPath"),
        (
            {"ProfilerRuleConfigurations": [watched(source_s3_uri=f"{tmp_path}/secret/key")]},
            "profilerRuleConfigurations.1.member.ruleParameters.source_s3_uri",
        ),
    ):
        given = {"TrainingJobName": "job-1", **changed}
        code, text = refused(client.update_training_job, **given)
        assert (code, f"at '{member}'" in text) == ("ValidationException", True)
    into = {"S3OutputPath": f"{shared}/profile"}
    client.update_training_job(TrainingJobName="job-1", ProfilerConfig=into)


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://localhost:8080/x",
        "http://LOCALHOST./x",
        "http://db.localhost/x",
        "https://127.0.0.1/x",
        "http://127.1/x",
        "http://2130706433/x",
        "http://0x7f000001/x",
        "http://0/x",
        "http://[::1]:1/x",
        "http://[::ffff:127.0.0.1]/x",
        "http://[fe80::1]/x",
        "http://[fd00:ec2::254]/x",
        "http://user:word@127.0.0.1/x",
        "http://10.0.0.7/x",
    ],
)
def test_no_action_posts_to_what_only_the_server_reaches(client, url: str):
    action = json.dumps([{"name": "page", "url": url}])
    given = request(DebugRuleConfigurations=[watched(action_json=action)])
    code, text = refused(client.create_training_job, **given)
    assert code == "ValidationException"
    assert "ruleParameters.action_json" in text
    assert "leads to the server's own machine or network" in text


@pytest.mark.parametrize(
    "action",
    [
        {"name": "page", "url": "https://hooks.example/x"},
        {"name": "sms", "endpoint": "+4915112345678"},
    ],
    ids=str,
)
def test_other_actions_are_as_ever(client, action: dict[str, str]):
    rules = [watched(action_json=json.dumps([action]))]
    client.create_training_job(**request(DebugRuleConfigurations=rules))


@pytest.mark.parametrize(
    ("folders", "words"),
    [
        ("data", "is not an absolute path"),
        ("/mnt/data:../x", "is not an absolute path"),
        ("/", "neither holds it nor is in it"),
        ("{home}", "neither holds it nor is in it"),
        ("{home}/..", "neither holds it nor is in it"),
        ("{home}/buckets", "neither holds it nor is in it"),
        ("{home}/link", "neither holds it nor is in it"),
    ],
)
def test_folders_that_must_not_be_shared_are_refused(tmp_path: Path, folders: str, words: str):
    home = tmp_path / "home"
    home.mkdir()
    (home / "link").symlink_to("/")
    given = {"TRACKSIDE_SHARED_FOLDERS": folders.format(home=home), "TRACKSIDE_HOME": str(home)}
    with pytest.raises(InvalidSetting, match=words):
        Locations.of(Settings.load(given))


def test_without_shared_folders_there_are_none(tmp_path: Path):
    assert Locations.of(Settings.load({"TRACKSIDE_HOME": str(tmp_path)})).shared == ()
