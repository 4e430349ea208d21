"""Actions against what they act on: journals, a mail server, a web server, a shell."""

import hashlib
import hmac
import json
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import AuthResult

from tests.rules.action.receivers import Hooks, Mailbox, mail_server
from tests.rules.conftest import MakeJob
from trackside.coordination.coordination import FLIGHT_RECORDER
from trackside.coordination.folder import FolderCoordination
from trackside.records.finding import Finding
from trackside.records.journal import Journal
from trackside.records.spec import RuleConfiguration
from trackside.records.status import Secondary, Status
from trackside.rules.action import deliveries, retries
from trackside.rules.action.action_errors import Refused
from trackside.rules.action.action_taker import ActionTaker
from trackside.rules.action.actions import Notify
from trackside.rules.action.callback_addresses import Callbacks
from trackside.rules.watched_job import WatchedJob

FINDING = Finding(
    rule="ExplodingTensor",
    configuration="Exploding",
    message="loss is nan.",
    advice="Lower the learning rate.",
    step=7,
    tensor="loss",
    value=float("nan"),
)


def fire(job: WatchedJob, *actions: dict[str, Any], times: int = 1) -> list[dict[str, Any]]:
    """Let a rule with these actions fire; what is on record when all is done."""
    for _ in range(times):
        taker = ActionTaker(job)
        taker.arm(FINDING.key, armed(*actions))
        taker.take(FINDING)
        taker.close()
    return lines(job)


def armed(*actions: dict[str, Any]) -> RuleConfiguration:
    return RuleConfiguration(name="Exploding", parameters={"action_json": json.dumps(actions)})


def lines(job: WatchedJob) -> list[dict[str, Any]]:
    return [json.loads(line) for line in job.folder.rules.actions.read_bytes().splitlines()]


def outcome(job: WatchedJob, *actions: dict[str, Any], times: int = 1) -> tuple[str, str]:
    intended, settled = fire(job, *actions, times=times)
    assert intended["state"] == "intended"
    assert intended["finding"]["step"] == 7
    return settled["state"], settled["details"]


# Jobs


def test_it_waits_until_what_is_to_be_done_has_been_done(make_job: MakeJob):
    job = make_job()
    taker = ActionTaker(job)
    assert not taker.is_waiting
    taker.arm(FINDING.key, armed({"name": "stoptraining"}))
    assert taker.is_waiting
    taker.take(FINDING)
    assert not taker.is_waiting
    taker.close()


@pytest.mark.parametrize("prefix", [None, "job-", "JOB-1"])
def test_a_job_stops_itself_by_any_prefix_that_fits(make_job: MakeJob, prefix: str | None):
    job = make_job()
    reported = outcome(job, {"name": "stoptraining", "training_job_prefix": prefix})
    assert reported == ("done", "job-1 is Stopping")
    history = job.journal.read()
    assert history.state.status is Status.STOPPING
    assert history.message == "Rule 'Exploding' asked for it. loss is nan."
    assert history.stopping_rule == "Exploding"


def test_another_job_is_stopped_when_it_is_the_only_one_in_progress(make_job: MakeJob):
    job, other, ended = make_job(), make_job("night-1"), make_job("night-2")
    ended.journal.move(Secondary.FAILED)
    stop = {"name": "stoptraining", "training_job_prefix": "night"}
    assert outcome(job, stop) == ("done", "night-1 is Stopping")
    assert other.journal.read().state.status is Status.STOPPING
    assert job.journal.read().state.status is Status.IN_PROGRESS


def test_of_two_jobs_that_could_be_meant_neither_is_stopped(make_job: MakeJob):
    job, others = make_job(), [make_job("night-1"), make_job("night-2")]
    state, details = outcome(job, {"name": "stoptraining", "training_job_prefix": "night"})
    assert state == "failed"
    assert "2 do: night-1, night-2" in details
    assert {each.journal.read().state.status for each in others} == {Status.IN_PROGRESS}


def test_a_job_of_another_owner_is_never_stopped(make_job: MakeJob):
    job, other = make_job(owner="alice"), make_job("night-1", owner="bob")
    stop = {"name": "stoptraining", "training_job_prefix": "night"}
    state, details = outcome(job, stop)
    assert (state, other.journal.read().state.status) == ("failed", Status.IN_PROGRESS)
    assert "exactly one of the same owner" in details
    mine = make_job("night-2", owner="alice")
    again = make_job("job-2", owner="alice")
    assert outcome(again, stop) == ("done", "night-2 is Stopping")
    assert mine.journal.read().state.status is Status.STOPPING


def test_the_flight_recorder_is_asked_for_on_every_host(make_job: MakeJob):
    hook = {"S3OutputPath": "s3://bucket/debug", "HookParameters": {"ring": "20"}}
    two = {"InstanceType": "local", "InstanceCount": 2}
    job = make_job(DebugHookConfig=hook, ResourceConfig=two)
    assert outcome(job, {"name": "save_flight_recorder"})[0] == "done"
    for host in job.spec.hosts:
        coordination = FolderCoordination(job.folder, job.spec.hosts, host, 1)
        [request] = coordination.requests()
        assert (request.what, request.host) == (FLIGHT_RECORDER, host)


def test_a_hook_without_a_ring_has_nothing_to_write_out(make_job: MakeJob):
    state, details = outcome(make_job(), {"name": "save_flight_recorder"})
    assert state == "failed"
    assert "Set `ring`" in details


# Once


def test_an_action_is_taken_once_however_often_the_rule_fires(make_job: MakeJob, tmp_path: Path):
    command = f"echo $TRACKSIDE_STEP >> '{tmp_path}/fired'"
    fire(make_job(), {"name": "command", "command": command}, times=3)
    assert (tmp_path / "fired").read_text() == "7\n"


def test_what_an_evaluator_died_over_is_done_by_the_next(make_job: MakeJob):
    job = make_job()
    fire(job, {"name": "stoptraining"})
    actions, journal = job.folder.rules.actions, job.folder.journal
    actions.write_bytes(actions.read_bytes().splitlines(keepends=True)[0])
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]))
    assert Journal(journal).read().state.status is Status.IN_PROGRESS
    ActionTaker(job).arm(FINDING.key, armed({"name": "stoptraining"}))
    assert [line["state"] for line in lines(job)] == ["intended", "done"]
    assert Journal(journal).read().state.status is Status.STOPPING


def test_a_command_is_not_run_twice_when_no_one_knows_whether_it_ran(
    make_job: MakeJob, tmp_path: Path
):
    job = make_job()
    run = {"name": "command", "command": f"echo x >> '{tmp_path}/ran'"}
    fire(job, run)
    actions = job.folder.rules.actions
    actions.write_bytes(actions.read_bytes().splitlines(keepends=True)[0])
    assert [line["state"] for line in fire(job, run)] == ["intended", "failed"]
    assert (tmp_path / "ran").read_text() == "x\n"


# Commands


def test_a_command_knows_what_was_found(make_job: MakeJob):
    reported = (
        "$TRACKSIDE_JOB $TRACKSIDE_RULE $TRACKSIDE_TENSOR $TRACKSIDE_VALUE $TRACKSIDE_MESSAGE"
    )
    state, details = outcome(make_job(), {"name": "command", "command": f"echo {reported}"})
    assert (state, details) == ("done", "exit code 0: job-1 Exploding loss nan loss is nan.")


def test_a_command_may_read_the_finding_from_its_standard_input(make_job: MakeJob):
    _, details = outcome(make_job(), {"name": "command", "command": "cat"})
    assert Finding.from_line(details.removeprefix("exit code 0: ").encode()).tensor == "loss"


def test_a_command_may_call_trackside_itself(make_job: MakeJob):
    import sys

    load = f"{sys.executable} -c 'from trackside.settings import Settings; Settings.load()'"
    assert outcome(make_job(), {"name": "command", "command": load})[0] == "done"


def test_a_command_that_does_not_end_is_ended(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr("trackside.rules.action.deliveries.COMMAND_SECONDS", 0.5)
    hang = f"echo $$ > '{tmp_path}/pid'; sleep 600 & wait"
    state, details = outcome(make_job(), {"name": "command", "command": hang})
    assert (state, details) == ("failed", "ended after 0.5 s, which is all the time it has")


def test_a_command_that_goes_wrong_is_on_record(make_job: MakeJob):
    state, details = outcome(make_job(), {"name": "command", "command": "echo oh no; exit 3"})
    assert (state, details) == ("failed", "exit code 3: oh no")


def test_a_job_of_a_server_runs_no_command_there(make_job: MakeJob, tmp_path: Path):
    run = {"name": "command", "command": f"touch '{tmp_path}/ran'"}
    state, details = outcome(make_job(key="TSKEY"), run)
    assert state == "failed"
    assert "runs no command" in details
    assert not (tmp_path / "ran").exists()


# Mail


def accept(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
    right = (data.login, data.password) == (b"me", b"secret")
    return AuthResult(success=right, handled=False)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    path = tmp_path / "localhost.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
        + ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        + ["-keyout", path, "-out", tmp_path / "cert.pem"],
        check=True,
        capture_output=True,
    )
    path.write_bytes(path.read_bytes() + (tmp_path / "cert.pem").read_bytes())
    return path


MAIL = {"name": "email", "endpoint": "me@example.com"}


def test_mail_states_what_was_found(make_job: MakeJob, mailbox):
    box, settings = mailbox
    assert outcome(make_job(settings=settings), MAIL)[0] == "done"
    [envelope] = box.messages
    assert envelope.rcpt_tos == ["me@example.com"]
    text = envelope.content.decode()
    assert "Subject: job-1: Exploding fired" in text
    assert "SMDebugRule:ExplodingTensor fired. loss is nan." in text
    for line in ("Step: 7", "Tensor: loss", "Value: nan", "Lower the learning rate."):
        assert line in text


def test_mail_is_tried_again_when_the_server_asks_for_it(
    make_job: MakeJob, mailbox, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(retries, "PAUSES_SECONDS", (0.01, 0.01, 0.01))
    box, settings = mailbox
    box.refusals = 2
    assert outcome(make_job(settings=settings), MAIL)[0] == "done"
    assert len(box.messages) == 1


def test_mail_goes_by_starttls_and_login(
    make_job: MakeJob, certificate: Path, monkeypatch: pytest.MonkeyPatch
):
    box = Mailbox()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    login = {"TRACKSIDE_SMTP_USER": "me", "TRACKSIDE_SMTP_PASSWORD": "secret"}
    with mail_server(
        box, tls_context=context, require_starttls=True, auth_required=True, authenticator=accept
    ) as settings:
        assert outcome(make_job(settings={**settings, **login}), MAIL)[0] == "done"
        guess = {**settings, **login, "TRACKSIDE_SMTP_PASSWORD": "guess"}
        wrong = make_job("job-2", settings=guess)
        state, details = outcome(wrong, MAIL)
    assert len(box.messages) == 1
    assert state == "failed"
    assert "535" in details
    assert "guess" not in wrong.folder.rules.actions.read_text()


def test_mail_without_a_server_states_which_setting_is_missing(make_job: MakeJob):
    state, details = outcome(make_job(), MAIL)
    assert state == "failed"
    assert "TRACKSIDE_SMTP_HOST" in details


# Webhook


SMS = {"name": "sms", "endpoint": "+4915112345678"}


def test_a_text_message_goes_to_the_webhook_signed(make_job: MakeJob, hooks: Hooks):
    settings = {"TRACKSIDE_WEBHOOK_URL": hooks.url, "TRACKSIDE_WEBHOOK_SECRET": "hush"}
    began = time.time()
    assert outcome(make_job(settings=settings), SMS) == ("done", "answered 200")
    [(headers, body)] = hooks.calls
    reported = json.loads(body)
    assert reported["action"] == SMS
    assert reported["job"] == "job-1"
    assert (reported["finding"]["tensor"], reported["finding"]["value"]) == ("loss", "nan")
    moment = headers["X-Trackside-Timestamp"]
    assert began - 1 <= int(moment) <= time.time()
    signed = hmac.new(b"hush", moment.encode() + b"." + body, hashlib.sha256).hexdigest()
    assert headers["X-Trackside-Signature"] == f"sha256={signed}"


def test_a_webhook_s_own_address_comes_first(make_job: MakeJob, hooks: Hooks):
    job = make_job(settings={"TRACKSIDE_WEBHOOK_URL": "http://127.0.0.1:1/nobody"})
    assert outcome(job, {"name": "webhook", "url": hooks.url}) == ("done", "answered 200")
    assert len(hooks.calls) == 1


def is_signed(headers: dict[str, str], body: bytes, secret: bytes) -> bool:
    moment = headers["X-Trackside-Timestamp"]
    signed = hmac.new(secret, moment.encode() + b"." + body, hashlib.sha256).hexdigest()
    return headers.get("X-Trackside-Signature") == f"sha256={signed}"


def test_the_operator_s_secret_signs_no_request_to_a_user_s_address(
    make_job: MakeJob, hooks: Hooks
):
    job = make_job(settings={"TRACKSIDE_WEBHOOK_SECRET": "hush"})
    assert outcome(job, {"name": "webhook", "url": hooks.url})[0] == "done"
    [(headers, _)] = hooks.calls
    assert "X-Trackside-Signature" not in headers


def test_an_address_of_one_s_own_has_a_secret_of_one_s_own(make_job: MakeJob, hooks: Hooks):
    settings = {"TRACKSIDE_WEBHOOK_SECRET": "hush"}
    job = make_job(settings=settings, Environment={"HOOK_SECRET": "mine"})
    hook = {"name": "webhook", "url": hooks.url, "secret_variable": "HOOK_SECRET"}
    assert outcome(job, hook)[0] == "done"
    [(headers, body)] = hooks.calls
    assert is_signed(headers, body, b"mine")
    assert "HOOK_SECRET" not in body.decode()
    assert "mine" not in job.folder.rules.actions.read_text()


def test_a_secret_that_the_job_does_not_have_is_reported(make_job: MakeJob, hooks: Hooks):
    hook = {"name": "webhook", "url": hooks.url, "secret_variable": "HOOK_SECRET"}
    state, details = outcome(make_job(), hook)
    assert (state, hooks.calls) == ("failed", [])
    assert "'HOOK_SECRET' is not a variable of the job's Environment" in details


def test_the_operator_s_own_address_is_signed_for_jobs_of_a_server_too(
    make_job: MakeJob, hooks: Hooks
):
    settings = {"TRACKSIDE_WEBHOOK_URL": hooks.url, "TRACKSIDE_WEBHOOK_SECRET": "hush"}
    assert outcome(make_job(settings=settings, key="TSKEY"), SMS) == ("done", "answered 200")
    [(headers, body)] = hooks.calls
    assert is_signed(headers, body, b"hush")


def test_a_job_of_a_server_calls_no_one_on_the_server_s_machine(make_job: MakeJob, hooks: Hooks):
    state, details = outcome(make_job(key="TSKEY"), {"name": "webhook", "url": hooks.url})
    assert (state, hooks.calls) == ("failed", [])
    assert "the server's own machine" in details
    assert "TRACKSIDE_ALLOW_CALLBACKS" in details


def test_unless_the_operator_allows_it(make_job: MakeJob, hooks: Hooks):
    job = make_job(key="TSKEY", settings={"TRACKSIDE_ALLOW_CALLBACKS": "127.0.0.0/8"})
    assert outcome(job, {"name": "webhook", "url": hooks.url}) == ("done", "answered 200")


def test_a_name_is_checked_again_when_it_has_become_an_address(hooks: Hooks):
    url = hooks.url.replace("127.0.0.1", "localhost")
    action, call = Notify("webhook", {}, url), deliveries.Call(url, callbacks=Callbacks())
    with pytest.raises(Refused, match="'localhost' is "):
        deliveries.post(call, action, "job-1", FINDING, "delivery")
    assert hooks.calls == []
    allowed = deliveries.Call(url, callbacks=Callbacks.allowed_by("localhost"))
    assert deliveries.post(allowed, action, "job-1", FINDING, "delivery") == "answered 200"


def test_behind_a_proxy_too(hooks: Hooks, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("http_proxy", hooks.url)
    action = Notify("webhook", {}, "http://localhost:1/")
    with pytest.raises(Refused, match="'localhost' is "):
        deliveries.post(
            deliveries.Call(action.url, callbacks=Callbacks()), action, "job", FINDING, "delivery"
        )
    elsewhere = deliveries.Call("http://hooks.invalid/", callbacks=Callbacks())
    assert deliveries.post(elsewhere, action, "job", FINDING, "delivery") == "answered 200"
    assert len(hooks.calls) == 1  # only the proxy knows where that is


def test_a_webhook_that_fails_is_called_again_as_the_same_delivery(
    make_job: MakeJob, hooks: Hooks, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(retries, "PAUSES_SECONDS", (0.01, 0.01, 0.01))
    hooks.answers = [503, 429]
    job = make_job(settings={"TRACKSIDE_WEBHOOK_URL": hooks.url})
    assert outcome(job, SMS) == ("done", "answered 200")
    assert len(hooks.calls) == 3
    assert len({headers["X-Trackside-Delivery"] for headers, _ in hooks.calls}) == 1
    assert "X-Trackside-Signature" not in hooks.calls[0][0]


@pytest.mark.parametrize("answer", [403, 302])
def test_a_webhook_that_refuses_is_left_alone(make_job: MakeJob, hooks: Hooks, answer: int):
    hooks.answers = [answer]
    job = make_job(settings={"TRACKSIDE_WEBHOOK_URL": hooks.url})
    state, details = outcome(job, SMS)
    assert state == "failed"
    assert f"answered {answer}" in details
    assert len(hooks.calls) == 1


def test_a_webhook_that_never_answers_is_given_up_and_holds_up_no_one(
    make_job: MakeJob, hooks: Hooks, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(retries, "PAUSES_SECONDS", (0.01, 0.01))
    hooks.answers = [500] * 10
    job = make_job(settings={"TRACKSIDE_WEBHOOK_URL": hooks.url})
    taker = ActionTaker(job)
    taker.arm(FINDING.key, armed(SMS, {"name": "stoptraining"}))
    taker.take(FINDING)
    # On the spot, whatever the webhook does.
    assert job.journal.read().state.status is Status.STOPPING
    taker.close()
    assert {line["action"]: line["state"] for line in lines(job)} == {
        "stoptraining": "done",
        "sms +4915112345678": "failed",
    }
    assert len(hooks.calls) == 3
