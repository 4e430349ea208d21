"""What people change from the page, and who may."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.jobs.conftest import make_spec
from tests.page.conftest import Browser, Team
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.page.problems import BadRequest
from trackside.page.run_again import request_again
from trackside.records.rights import Rights


@pytest.fixture
def submitted(team: Team, jobs: Jobs) -> Callable[..., str]:
    """Submits a job to the server, for the owner of a label."""

    def submit(name: str, owner: str, **hyper: str) -> str:
        key, _ = team.keys.create(owner, Rights.SUBMIT)
        jobs.enqueue(make_spec(name, hyper=hyper), key=key.id, who=owner)
        return name

    return submit


def status(jobs: Jobs, name: str) -> str:
    return str(jobs.record(name).history.state.status)


def is_over(jobs: Jobs, name: str) -> bool:
    return jobs.record(name).history.state.is_final


def test_a_job_is_stopped_from_the_page(browser: Browser, jobs: Jobs):
    jobs.submit(make_spec("held", hyper={"hold": "1"}))
    reply = browser.post("/ui/api/jobs/stop", {"jobs": ["held", "nobody"]}).json
    assert reply["done"] == ["held"]
    assert [each["job"] for each in reply["failed"]] == ["nobody"]
    assert "'nobody'" in reply["failed"][0]["message"]
    until(lambda: status(jobs, "held") == "Stopped")


def test_tags_and_notes_are_changed(browser: Browser, jobs: Jobs):
    jobs.submit(make_spec("one"))
    body = {"jobs": ["one"], "put": {"a": "1", "b": "<script>"}, "remove": []}
    assert browser.post("/ui/api/jobs/tag", body).json["done"] == ["one"]
    assert jobs.tags("one") == {"a": "1", "b": "<script>"}
    body = {"jobs": ["one"], "put": {}, "remove": ["a"]}
    assert browser.post("/ui/api/jobs/tag", body).json["done"] == ["one"]
    assert jobs.tags("one") == {"b": "<script>"}
    noted = browser.post("/ui/api/jobs/one/note", {"text": "the good one"})
    assert noted.json == {"note": "the good one"}


def test_finished_jobs_are_deleted_and_running_ones_are_not(browser: Browser, jobs: Jobs):
    jobs.submit(make_spec("done"))
    jobs.submit(make_spec("held", hyper={"hold": "1"}))
    until(lambda: is_over(jobs, "done"))
    reply = browser.post("/ui/api/jobs/delete", {"jobs": ["done", "held"], "data": True}).json
    assert reply["done"] == ["done"]
    assert "stop it first" in reply["failed"][0]["message"]
    assert not jobs.exists("done")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("jobs/stop", {}),
        ("jobs/stop", {"jobs": []}),
        ("jobs/stop", {"jobs": "a"}),
        ("jobs/stop", {"jobs": [1]}),
        ("jobs/stop", {"jobs": ["x"] * 3000}),
        ("jobs/tag", {"jobs": ["a"], "put": {"a": 1}}),
        ("jobs/delete", {"jobs": ["a"], "data": "yes"}),
        ("jobs/one/note", {"text": 5}),
        ("jobs/one/note", {"text": "half of a character: \ud83d"}),
        ("jobs/tag", {"jobs": ["one"], "put": {"a": "\ud83d"}}),
        ("jobs/one/again", {"hyperparameters": {"a": 1}}),
        ("jobs/one/again", {"hyperparameters": {}, "name": "../x"}),
    ],
)
def test_wrong_bodies_are_refused(browser: Browser, path: str, body: Any):
    reply = browser.post(f"/ui/api/{path}", body)
    assert (reply.status, reply.code) == (400, "bad_request")


def test_a_read_key_changes_nothing(team: Team, submitted: Callable[..., str]):
    submitted("held", "ann", hold="1")
    reader = team.logged_in("eve", Rights.READ)
    assert reader.get("/ui/api/jobs/held").json["row"]["may_change"] is False
    for path in ("jobs/stop", "jobs/tag", "jobs/delete", "jobs/held/note", "jobs/held/again"):
        reply = reader.post(f"/ui/api/{path}", {"jobs": ["held"]})
        assert (reply.status, reply.code) == (403, "not_allowed"), path


def test_a_submit_key_changes_its_own_jobs_and_admin_all(
    team: Team, jobs: Jobs, submitted: Callable[..., str]
):
    submitted("anns", "ann", hold="1")
    submitted("bobs", "bob", hold="1")
    ann = team.logged_in("ann", Rights.SUBMIT)
    reply = ann.post("/ui/api/jobs/stop", {"jobs": ["anns", "bobs"]}).json
    assert reply["done"] == ["anns"]
    assert "belongs to 'bob'" in reply["failed"][0]["message"]
    assert ann.post("/ui/api/jobs/bobs/note", {"text": "x"}).code == "not_allowed"
    admin = team.logged_in("root", Rights.ADMIN)
    assert admin.post("/ui/api/jobs/stop", {"jobs": ["bobs"]}).json["done"] == ["bobs"]
    until(lambda: is_over(jobs, "anns") and is_over(jobs, "bobs"))


def test_a_job_is_run_again_with_changes(browser: Browser, jobs: Jobs):
    jobs.submit(make_spec("one", hyper={"lr": "0.1", "optimizer": '"adam"', "seed": "1"}))
    changes = {"lr": "0.2", "optimizer": "sgd", "seed": None, "new": "x"}
    body = {"hyperparameters": changes, "name": "my_run.2"}
    name = browser.post("/ui/api/jobs/one/again", body).json["name"]
    spec = jobs.record(name).spec
    own = {key: each for key, each in spec.hyperparameters.items() if "sagemaker" not in key}
    assert own == {"lr": "0.2", "optimizer": '"sgd"', "new": "x"}
    assert browser.post("/ui/api/jobs/one/again", body).code == "job_exists"
    unnamed = browser.post("/ui/api/jobs/one/again", {"hyperparameters": {}}).json["name"]
    assert unnamed.startswith("one-20")
    until(lambda: is_over(jobs, name) and is_over(jobs, unnamed))


def test_at_a_server_the_new_job_belongs_to_who_asks(
    team: Team, jobs: Jobs, submitted: Callable[..., str]
):
    submitted("anns", "ann", lr="0.1")
    bob = team.logged_in("bob", Rights.SUBMIT)
    body = {"hyperparameters": {"lr": "0.3"}, "name": "bobs"}
    assert bob.post("/ui/api/jobs/anns/again", body).json == {"name": "bobs"}
    assert jobs.submitter("bobs").owner == "bob"
    until(lambda: is_over(jobs, "bobs"))


def test_secrets_of_others_are_not_passed_on(team: Team, jobs: Jobs, submitted: Callable[..., str]):
    submitted("anns", "ann", api_key="hush-4711")
    body = {"hyperparameters": {}, "name": "bobs"}
    bob = team.logged_in("bob", Rights.SUBMIT)
    assert bob.post("/ui/api/jobs/anns/again", body).code == "not_allowed"
    for path in ("", "/setup"):
        assert b"hush-4711" not in bob.get(f"/ui/api/jobs/anns{path}").body
    ann = team.logged_in("ann", Rights.SUBMIT)
    assert ann.post("/ui/api/jobs/anns/again", body).json == {"name": "bobs"}


def test_what_belonged_to_one_job_is_left_out_of_the_next():
    checkpoints = {"S3Uri": "s3://b/runs/one/checkpoints", "LocalPath": "/opt/ml/checkpoints"}
    launch = {"Command": ["trackside", "run"], "Folder": "examples"}
    own = {"Launch": launch, "Notify": ["webhook:https://***"]}
    spec = make_spec("one", CheckpointConfig=checkpoints, Trackside=own)
    request = request_again(spec, "two", {})
    assert request["CheckpointConfig"]["S3Uri"] == "s3://b/runs/two/checkpoints"
    assert request["Trackside"]["Launch"] == {"Command": [], "Folder": "examples"}
    assert "Notify" not in request["Trackside"]
    shared = make_spec("one", CheckpointConfig={"S3Uri": "s3://b/shared"})
    assert request_again(shared, "two", {})["CheckpointConfig"]["S3Uri"] == "s3://b/shared"
    with pytest.raises(BadRequest, match="HF_TOKEN"):
        request_again(make_spec("one", Environment={"HF_TOKEN": "***"}), "two", {})
    with pytest.raises(BadRequest, match="sagemaker_program"):
        request_again(spec, "two", {"sagemaker_program": "other.py"})
