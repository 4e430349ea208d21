"""Who may change whose jobs and logs: every operation by every kind of key, at a real server."""

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.conftest import Server, running
from tests.api.test_sagemaker_update import rule
from tests.api.training import ended, refused, request
from tests.job_processes import end_processes_of, until_they_have_left
from tests.jobs.conftest import ENVIRON, STAND_IN, is_training, make_spec
from tests.wait import until
from trackside import profiles
from trackside.api.job_credentials import JobCredentials
from trackside.api.keys import AccessKeys, Rights
from trackside.api.services import Services
from trackside.jobs.jobs import Jobs
from trackside.jobs.sqlite_index import MIGRATIONS
from trackside.records.layout import JobKeys
from trackside.remote.api_client import ApiClient
from trackside.settings import Settings

DENIED = "AccessDeniedException"
ROLE = "arn:aws:iam::000000000000:role/team"
WHOLE = {"InstanceType": "ml.m5.24xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}

Key = dict[str, str]
"""As arguments of a client."""


@dataclass
class Team:
    service: Server
    jobs: Jobs
    _clients: dict[tuple[str, str], Any] = field(default_factory=dict)
    """To make one takes longer than to ask."""

    def key(self, label: str, rights: Rights = Rights.SUBMIT) -> Key:
        key, secret = self.service.keys.create(label, rights)
        return {"aws_access_key_id": key.id, "aws_secret_access_key": secret}

    def rotated(self, key: Key) -> Key:
        new, secret = self.service.keys.rotate(key["aws_access_key_id"], overlap_seconds=600)
        return {"aws_access_key_id": new.id, "aws_secret_access_key": secret}

    def session(self, key: Key) -> Key:
        sts = self.service.client("sts", **key)
        made = sts.assume_role(RoleArn=ROLE, RoleSessionName="me")["Credentials"]
        return {
            "aws_access_key_id": made["AccessKeyId"],
            "aws_secret_access_key": made["SecretAccessKey"],
            "aws_session_token": made["SessionToken"],
        }

    def job_key(self, job: str) -> Key:
        """Of a job that runs."""
        until(lambda: is_training(self.jobs, job))
        credentials = JobCredentials(self.service.keys, self.jobs.settings.layout)
        secret = credentials.secret_of(f"TSJOB-{job}")
        assert secret is not None
        return {"aws_access_key_id": f"TSJOB-{job}", "aws_secret_access_key": secret}

    def client(self, key: Key, service: str = "sagemaker") -> Any:
        name = (key["aws_secret_access_key"], service)
        if name not in self._clients:
            self._clients[name] = self.service.client(service, **key)
        return self._clients[name]

    def create(self, key: Key, name: str, **changed: Any) -> None:
        watched = {"DebugRuleConfigurations": [rule("w", "VanishingGradient")]}
        made = request(name, hyper={"hold": "1"}, **{**watched, **changed})
        self.client(key).create_training_job(**made)


@pytest.fixture
def team(service: Server, jobs: Jobs) -> Team:
    return Team(service, jobs)


@pytest.fixture
def keys(team: Team) -> dict[str, Key]:
    """All kinds; what is created from now on waits, and takes no process."""
    alice, bob = team.key("alice"), team.key("bob")
    for key, name in ((alice, "of-alice"), (bob, "of-bob")):
        team.create(key, name)
    found = {
        "owner": alice,
        "owner, rotated": team.rotated(alice),
        "owner, another key": team.key("alice"),
        "session of owner": team.session(alice),
        "admin": team.key("ops", Rights.ADMIN),
        "other": bob,
        "session of other": team.session(bob),
        "read": team.key("alice", Rights.READ),
        "another job of owner": team.job_key("of-alice"),
        "job of other": team.job_key("of-bob"),
        "session of another job of owner": team.session(team.job_key("of-alice")),
    }
    team.create(found["admin"], "first-in-line", ResourceConfig=WHOLE)
    return found


OWNERS = {"owner", "owner, rotated", "owner, another key", "session of owner"}


def arn(job: str) -> str:
    return f"arn:aws:sagemaker:eu-central-1:000000000000:training-job/{job}"


def stop(team: Team, key: Key, job: str) -> None:
    team.client(key).stop_training_job(TrainingJobName=job)


def update(team: Team, key: Key, job: str) -> None:
    changed = {"KeepAlivePeriodInSeconds": 60}
    team.client(key).update_training_job(TrainingJobName=job, ResourceConfig=changed)


def add_tags(team: Team, key: Key, job: str) -> None:
    tags = [{"Key": "trackside:priority", "Value": "1000"}]
    team.client(key).add_tags(ResourceArn=arn(job), Tags=tags)


def delete_tags(team: Team, key: Key, job: str) -> None:
    team.client(key).delete_tags(ResourceArn=arn(job), TagKeys=["of"])


def delete(team: Team, key: Key, job: str) -> None:
    team.client(key).delete_training_job(TrainingJobName=job)


def stop_rule(team: Team, key: Key, job: str) -> None:
    described = team.client(key).describe_training_job(TrainingJobName=job)
    [rule] = described["DebugRuleEvaluationStatuses"]
    name = rule["RuleEvaluationJobArn"].rpartition("/")[2]
    team.client(key).stop_processing_job(ProcessingJobName=name)


def put_metrics(team: Team, key: Key, job: str) -> None:
    folder = team.jobs.settings.layout.job(job).host("algo-1", 1).reported_metrics
    folder.mkdir(parents=True, exist_ok=True)  # as if its script ran
    datum = {"MetricName": "loss", "Value": 1.0}
    datum["Dimensions"] = [{"Name": "TrainingJobName", "Value": job}]
    team.client(key, "cloudwatch").put_metric_data(Namespace="Mine", MetricData=[datum])


OPERATIONS: list[Callable[[Team, Key, str], None]] = [
    stop,
    update,
    add_tags,
    delete_tags,
    delete,
    stop_rule,
    put_metrics,
]


def denied(team: Team, operation: Callable[..., None], key: Key, job: str) -> str:
    """The message of the refusal; empty when there was none."""
    try:
        operation(team, key, job)
    except ClientError as error:
        if error.response["Error"]["Code"] != DENIED:
            raise
        return str(error.response["Error"]["Message"])
    return ""


def descriptions(team: Team, job: str) -> Any:
    """All that an operation could change."""
    record = team.jobs.record(job)
    notes = [note for note in record.history.notes if note["what"] != "submitted"]
    put = team.jobs.settings.layout.job(job).host("algo-1", 1).reported_metrics
    return record.history.state, notes, record.stopped_rules, sorted(put.glob("*"))


def target(team: Team, key: Key, name: str, operation: Callable[..., None]) -> str:
    team.create(key, name, Tags=[{"Key": "of", "Value": name}])
    if operation is delete:
        team.client(key).stop_training_job(TrainingJobName=name)
    return name


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_a_job_is_changed_by_its_owner_and_by_admins(team: Team, keys, operation):
    outcome = {}
    for number, (kind, key) in enumerate(keys.items()):
        job = target(team, keys["owner"], f"job-{number}", operation)
        before = descriptions(team, job)
        outcome[kind] = denied(team, operation, key, job)
        if outcome[kind]:
            assert descriptions(team, job) == before, kind
    assert {kind for kind, words in outcome.items() if not words} == {*OWNERS, "admin"}
    assert "belongs to 'alice'; a key of that name can, or one that may admin" in outcome["other"]
    assert outcome["other"].startswith("User: arn:aws:sts::000000000000:assumed-role/trackside/TS")
    assert "may read; this needs a key that may submit" in outcome["read"]
    assert "The key of a job changes that job" in outcome["another job of owner"]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_a_job_that_no_key_submitted_is_changed_only_by_admins(team: Team, keys, operation):
    """From before owners were recorded, or of a user of the machine, or of a key with a name like
    one of these."""
    others = {kind: key for kind, key in keys.items() if kind != "admin"}
    for number, owner in enumerate(["", "local:root", "job of-alice"]):
        name = f"job-{number}"
        made = make_spec(
            name,
            Tags=[{"Key": "of", "Value": "x"}],
            DebugRuleConfigurations=[rule("w", "VanishingGradient")],
        )
        team.jobs.enqueue(made, key="", who="", owner=owner)
        team.jobs.refresh(name)
        if operation is delete:
            team.jobs.stop(name)
        before = descriptions(team, name)
        words = {kind: denied(team, operation, key, name) for kind, key in others.items()}
        assert all(words.values()), [kind for kind, reported in words.items() if not reported]
        assert descriptions(team, name) == before
        assert ("has no owner" if not owner else repr(owner)) in words["other"]
        assert denied(team, operation, keys["admin"], name) == ""


def test_a_key_of_an_older_version_that_is_called_like_a_user_owns_nothing(team: Team, keys):
    """Names were not checked then."""
    for name, owner in (("a", ""), ("b", "local:root")):
        team.jobs.enqueue(make_spec(name), key="", who="", owner=owner)
        team.jobs.refresh(name)
    path = team.jobs.settings.layout.server.root / "keys.json"
    records = json.loads(path.read_text())
    bob = next(record for record in records if record["label"] == "bob")
    for job, label in (("a", ""), ("b", "local:root")):
        bob["label"] = label
        path.write_text(json.dumps(records))
        assert denied(team, stop, keys["other"], job)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_a_job_changes_itself_and_those_it_submitted(team: Team, keys, operation):
    """What it submits belongs to the owner of the job, who may change it, too."""
    own = keys["another job of owner"]
    child = target(team, own, "child", operation)
    assert team.jobs.submitter(child).owner == "alice"
    assert denied(team, operation, keys["other"], child)
    assert denied(team, operation, keys["job of other"], child)
    assert denied(team, operation, own, child) == ""
    other = target(team, own, "other-child", operation)
    assert denied(team, operation, keys["owner"], other) == ""
    if operation is not delete:  # it runs
        team.client(own).add_tags(ResourceArn=arn("of-alice"), Tags=[{"Key": "of", "Value": "x"}])
        assert denied(team, operation, own, "of-alice") == ""


def test_the_children_of_a_job_are_not_those_of_its_namesake(team: Team, keys):
    """Another's job of the same name has a key of the same id."""
    team.create(keys["another job of owner"], "child")
    (team.jobs.settings.layout.job("of-alice").root / "release").touch()
    client = team.client(keys["admin"])
    ended(client, "of-alice")
    until_they_have_left(team.jobs.settings.layout.job("of-alice").root)
    client.delete_training_job(TrainingJobName="of-alice")
    client.stop_training_job(TrainingJobName="first-in-line")
    team.create(keys["other"], "of-alice")
    assert denied(team, stop, team.job_key("of-alice"), "child")


def test_a_missing_job_is_not_found_for_every_caller(team: Team, keys):
    for kind, key in keys.items():
        if kind != "read":
            client = team.client(key)
            for call in (client.stop_training_job, client.delete_training_job):
                expected = ("ValidationException", "Requested resource not found.")
                assert refused(call, TrainingJobName="nobody") == expected


def test_every_key_can_read_owners_and_aws_responses_stay_unchanged(team: Team, keys):
    team.create(keys["owner"], "job-1")
    for key in keys.values():
        client = team.client(key)
        described = client.describe_training_job(TrainingJobName="job-1")
        listed = client.list_training_jobs()["TrainingJobSummaries"]
        assert "alice" not in json.dumps([described, *listed], default=str).replace("of-alice", "")
    own = params(team, keys["read"], "DescribeTrainingJob", TrainingJobName="job-1")
    assert own["Trackside"]["owner"] == "alice"
    page = params(team, keys["other"], "ListTrainingJobs")
    assert page["Trackside"]["owner"] == "bob"
    owners = {
        row["TrainingJobName"]: row["Trackside"]["owner"] for row in page["TrainingJobSummaries"]
    }
    expected = {"job-1": "alice", "of-alice": "alice", "of-bob": "bob", "first-in-line": "ops"}
    assert owners == expected
    mine = params(team, keys["other"], "ListTrainingJobs", TracksideOwner="alice")
    names = [row["TrainingJobName"] for row in mine["TrainingJobSummaries"]]
    assert names == ["job-1", "of-alice"]
    found = params(team, keys["read"], "Search", Resource="TrainingJob")["Results"]
    reported = {each["TrainingJob"]["TrainingJobName"]: each["TrainingJob"] for each in found}
    assert {name: job["Trackside"]["owner"] for name, job in reported.items()} == expected
    for_job = params(team, keys["another job of owner"], "ListTrainingJobs")
    assert for_job["Trackside"]["owner"] == "alice"


def test_secrets_in_a_request_are_shown_to_its_owner_and_to_admins(team: Team, keys):
    """By every operation that returns them; a job's key sees those of its own jobs."""
    given = {"DB_PASSWORD": "hunter-2-x", "EPOCHS": "3", "MIRROR": "https://me:hunter-2-x@host/"}
    for name, maker in (("job-1", "owner"), ("child", "another job of owner")):
        wanted = request(name, hyper={"hold": "1", "hub_token": '"hunter-2-x"'}, Environment=given)
        team.client(keys[maker]).create_training_job(**wanted)
    reported = {kind: secrets_shown(team, key, "job-1") for kind, key in keys.items()}
    everything = {"DescribeTrainingJob", "Search"}
    seeing = {*OWNERS, "read", "admin"}
    assert reported == {kind: everything if kind in seeing else set() for kind in keys}
    children = {kind for kind, key in keys.items() if secrets_shown(team, key, "child")}
    assert children == {*seeing, "another job of owner", "session of another job of owner"}
    shown = team.client(keys["other"]).describe_training_job(TrainingJobName="job-1")
    hidden = {"DB_PASSWORD": "***", "EPOCHS": "3", "MIRROR": "https://***@host/"}
    assert shown["Environment"] == hidden
    assert shown["HyperParameters"]["hub_token"] == '"***"'  # SDKs read it as JSON


def secrets_shown(team: Team, key: Key, job: str) -> set[str]:
    """Which operations return the secret; nor is a job found by it where none does."""
    client = team.client(key)
    described = client.describe_training_job(TrainingJobName=job)
    own = None  # our own client has no sessions
    if "aws_session_token" not in key:
        own = params(team, key, "DescribeTrainingJob", TrainingJobName=job)
    by_name = {"Name": "TrainingJobName", "Operator": "Equals", "Value": job}
    by_secret = {"Name": "Environment.DB_PASSWORD", "Operator": "Contains", "Value": "hunter"}
    reported = {
        "DescribeTrainingJob": [described, own],
        "Search": client.search(Resource="TrainingJob", SearchExpression={"Filters": [by_name]})[
            "Results"
        ],
    }
    showing = {name for name, each in reported.items() if "hunter" in json.dumps(each, default=str)}
    filters = {"Filters": [by_name, by_secret]}
    found = client.search(Resource="TrainingJob", SearchExpression=filters)["Results"]
    assert bool(found) == ("Search" in showing)
    return showing


def params(team: Team, key: Key, operation: str, **given: Any) -> Any:
    """As our own client requests it."""
    server = profiles.Server(
        team.service.url, profiles.Key(key["aws_access_key_id"], key["aws_secret_access_key"])
    )
    return ApiClient(server).call(f"SageMaker.{operation}", {**given, "Trackside": True})


@pytest.fixture
def two_servers(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Team, Team]]:
    """With keys and folders of their own; they share a database and their buckets."""
    monkeypatch.setenv("TRACKSIDE_S3", "embedded")
    (tmp_path / "buckets").mkdir()
    teams = []
    with ExitStack() as open_servers:
        for name in ("one", "two"):
            home = tmp_path / name
            home.mkdir()
            (home / "buckets").symlink_to(tmp_path / "buckets")
            variables = {"TRACKSIDE_HOME": str(home), "TRACKSIDE_DATABASE": database}
            jobs = Jobs(Settings.load(variables), ENVIRON, supervisor_command=STAND_IN)
            keys = AccessKeys(jobs.settings.layout.server.root)
            services = Services(jobs.settings, keys, {}, jobs=jobs)
            open_servers.enter_context(services)
            teams.append(Team(open_servers.enter_context(running(services.app, keys)), jobs))
        yield teams[0], teams[1]
    end_processes_of(tmp_path)


def test_another_server_of_the_team_knows_whose_a_job_is(two_servers: tuple[Team, Team]):
    """Also when a user has put another journal into storage."""
    here, there = two_servers
    here.create(here.key("alice"), "job-1")
    until(lambda: is_training(here.jobs, "job-1"))
    forged = '{"kind":"status","secondary":"Starting","seq":1,"time":1}\n'
    forged += '{"kind":"note","what":"submitted","owner":"bob","key":"x","seq":2,"time":1}\n'
    where = JobKeys.of(here.jobs.record("job-1").spec).journal.removeprefix("s3://")
    stored = here.jobs.settings.home / "buckets" / where
    stored.parent.mkdir(parents=True, exist_ok=True)
    stored.write_text(forged)
    for operation in (stop, add_tags, delete):
        reported = denied(there, operation, there.key("bob"), "job-1")
        assert "belongs to 'alice'" in reported
    stored.unlink()
    stop(there, there.key("alice"), "job-1")  # the same owner, though with a key of another server
    assert ended(here.client(here.key("alice")), "job-1")["TrainingJobStatus"] == "Stopped"


def test_a_change_to_anothers_unreachable_job_is_refused_without_its_location(
    two_servers: tuple[Team, Team],
):
    here, there = two_servers
    here.create(here.key("alice"), "job-1")
    (there.jobs.settings.home / "buckets").unlink()
    assert denied(there, delete, there.key("bob"), "job-1")
    client = there.client(there.key("alice"))
    code, text = refused(client.delete_training_job, TrainingJobName="job-1")
    assert (code, "job-1" in text) == ("ValidationException", True)


def test_jobs_of_an_older_version_are_changed_only_by_admins(jobs: Jobs):
    """Their folders and their index, as that version left them."""
    home = jobs.settings.layout
    for name, note in OLD_JOBS.items():
        jobs.submit(make_spec(name))
        jobs.wait(name)
        until_they_have_left(home.job(name).root)
        lines = home.job(name).journal.read_text().splitlines(keepends=True)
        lines[1] = note
        home.job(name).journal.write_text("".join(lines))
    home.index.unlink(missing_ok=True)
    with sqlite3.connect(home.index) as old:
        old.executescript("".join(MIGRATIONS[:3]) + "PRAGMA user_version = 3;")
        row = "('{}', 's3://out/runs', 'Completed', 'Completed', 1, 2, 1, 2, 1, '', NULL, NULL)"
        old.execute(f"INSERT INTO jobs VALUES {', '.join(map(row.format, OLD_JOBS))}")
    old.close()
    keys = AccessKeys(home.server.root)
    services = Services(jobs.settings, keys, {}, jobs=jobs)
    with services, running(services.app, keys) as server:
        team = Team(server, jobs)
        alice = team.key("alice")

        def owners() -> dict[str, str | None]:
            rows = params(team, alice, "ListTrainingJobs")["TrainingJobSummaries"]
            return {row["TrainingJobName"]: row["Trackside"]["owner"] for row in rows}

        until(lambda: owners() == {"run": None, "server": "alice", "child": "job server"})
        assert "has no owner" in denied(team, delete, alice, "run")
        assert "'job server', which is no key's name" in denied(team, delete, alice, "child")
        assert denied(team, delete, team.key("bob"), "server")
        assert denied(team, delete, alice, "server") == ""
        for name in ("run", "child"):
            assert denied(team, delete, team.key("ops", Rights.ADMIN), name) == ""
        assert owners() == {}


_OLD_NOTE = '{{"kind":"note","what":"submitted","key":"{}","who":"{}","seq":2,"time":1}}\n'
OLD_JOBS = {
    "run": "",
    "server": _OLD_NOTE.format("TSOLD", "alice"),
    "child": _OLD_NOTE.format("TSJOB-server", "job server"),
}
"""Of `trackside run`, of a key at a server, and of a job there: the note at the start of each."""


def make_group(team: Team, key: Key, job: str) -> None:
    team.client(key, "logs").create_log_group(logGroupName=job)
    team.client(key, "logs").create_log_stream(logGroupName=job, logStreamName="main")


def put_events(team: Team, key: Key, group: str) -> None:
    event = {"timestamp": int(time.time() * 1000), "message": "x"}
    given = {"logGroupName": group, "logStreamName": "main", "logEvents": [event]}
    team.client(key, "logs").put_log_events(**given)


def delete_stream(team: Team, key: Key, group: str) -> None:
    team.client(key, "logs").delete_log_stream(logGroupName=group, logStreamName="main")


def delete_group(team: Team, key: Key, group: str) -> None:
    team.client(key, "logs").delete_log_group(logGroupName=group)


@pytest.mark.parametrize("operation", [put_events, delete_stream, delete_group])
def test_logs_of_programs_are_their_owner_s(team: Team, keys, operation):
    """A job writes for its owner, and deletes none of the owner's logs."""
    allowed = set()
    for number, (kind, key) in enumerate(keys.items()):
        make_group(team, keys["owner"], f"group-{number}")
        if not denied(team, operation, key, f"group-{number}"):
            allowed.add(kind)
    of_jobs = {"another job of owner", "session of another job of owner"}
    assert allowed == {*OWNERS, "admin", *(of_jobs if operation is put_events else ())}


def test_a_group_with_a_stream_of_another_owner_is_deleted_by_admins(team: Team, keys):
    make_group(team, keys["owner"], "my/app")
    other = {"logGroupName": "my/app", "logStreamName": "of bob"}
    team.client(keys["other"], "logs").create_log_stream(**other)
    assert "belongs to 'bob'" in denied(team, delete_group, keys["owner"], "my/app")
    team.client(keys["other"], "logs").delete_log_stream(**other)
    assert denied(team, delete_group, keys["owner"], "my/app") == ""


def test_a_stream_without_owner_takes_events_and_is_deleted_by_admins(team: Team, keys):
    make_group(team, keys["owner"], "my/app")
    folder = team.jobs.settings.layout.server.logs
    (stream,) = folder.glob("*/*.jsonl")
    (group,) = folder.glob("*/group.json")
    stream.write_text('[1, "main"]\n')
    group.write_text('{"name": "my/app", "created_ms": 1}\n')
    for kind in ("owner", "other"):
        assert denied(team, put_events, keys[kind], "my/app") == ""
        assert "has no owner" in denied(team, delete_stream, keys[kind], "my/app")
        assert denied(team, delete_group, keys[kind], "my/app")
    assert denied(team, delete_group, keys["admin"], "my/app") == ""
