"""Messages to people, against a real mail server and a real web server."""

import json
import stat

import pytest

from tests.rules.action.receivers import Hooks, Mailbox
from tests.rules.conftest import MakeJob
from trackside.records.finding import Finding
from trackside.records.journal import UNDELIVERED
from trackside.records.status import Secondary
from trackside.rules.action import retries
from trackside.rules.action.notifications import Notices
from trackside.rules.findings_file import FindingsFile
from trackside.rules.watched_job import WatchedJob

FINDING = Finding(
    rule="VanishingGradient",
    configuration="Watch",
    message="The gradient's mean is 1e-9, below 1e-7.",
    advice="Use residual connections.",
    step=120,
    tensor="gradient/layer1.weight",
)
REASON = (
    "AlgorithmError: ExecuteUserScriptError:\nExitCode 1\n"
    'ErrorMessage "ValueError: <no data> (train.py, line 3)"\nCommand "x"'
)
Box = tuple[Mailbox, dict[str, str]]


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "PAUSES_SECONDS", (0.01, 0.01))


def reported(job: WatchedJob, *findings: Finding) -> None:
    """What was found and, when the job has ended, its end."""
    notices = Notices(job)
    notices.found(findings)
    notices.await_end(bool, unless=lambda: True)
    if job.history.state.is_final:
        notices.ended()
    notices.close()


def fail(job: WatchedJob) -> None:
    job.journal.move(Secondary.FAILED, reason=REASON)
    job.refresh()


def undelivered(job: WatchedJob) -> list[dict[str, str]]:
    return [note for note in job.journal.read().notes if note["what"] == UNDELIVERED]


def test_a_mail_states_what_was_found_where_and_how_to_check(make_job: MakeJob, mailbox: Box):
    box, settings = mailbox
    job = make_job(settings=settings, Trackside={"Notify": ["mail:me@example.com"]})
    reported(job, FINDING)
    [envelope] = box.messages
    assert envelope.rcpt_tos == ["me@example.com"]
    text = envelope.content.decode().replace("=\r\n", "")
    subject = "[trackside] job-1: VanishingGradient found something at step 120 in"
    assert subject in " ".join(text.split())
    assert "at step 120 in gradient/layer1.weight: The gradient" in text
    assert "Try: Use residual connections." in text
    assert "trackside show job-1" in text


def test_the_end_states_why_in_one_sentence_and_what_was_found(make_job: MakeJob, hooks: Hooks):
    targets = [f"slack:{hooks.url}", f"webhook:{hooks.url}?x"]
    job = make_job(Trackside={"Notify": targets})
    FindingsFile(job.folder.rules.findings).add([FINDING])
    fail(job)
    reported(job)
    slack, webhook = sorted((json.loads(body) for _, body in hooks.calls), key=len)
    assert sorted(slack) == ["delivery", "text"]
    first, *rest = slack["text"].splitlines()
    said = "job-1 failed with 1 finding: ValueError: &lt;no data&gt; (train.py, line 3)"
    assert first == said
    assert "- VanishingGradient at step 120 in gradient/layer1.weight: The gradient's" in rest[2]
    assert "  trackside report job-1" in rest
    assert (webhook["event"], webhook["status"], webhook["job"]) == ("end", "Failed", "job-1")
    assert webhook["reason"] == "ValueError: <no data> (train.py, line 3)"
    assert webhook["findings"][0]["step"] == 120
    assert webhook["text"].startswith("job-1 failed with 1 finding: ValueError: <no data>")
    assert "X-Trackside-Signature" not in hooks.calls[0][0]


def test_each_kind_of_finding_and_the_end_are_reported_once_whichever_process_dies(
    make_job: MakeJob, hooks: Hooks
):
    job = make_job(Trackside={"Notify": [f"slack:{hooks.url}"]})
    other = Finding(rule="Overfit", configuration="Watch", message="It overfits.", step=200)
    reported(job, FINDING, FINDING, other)
    reported(job, FINDING, other)
    assert len(hooks.calls) == 2
    fail(job)
    reported(job)
    reported(job)
    assert len(hooks.calls) == 3
    log = job.folder.rules.notices
    assert stat.S_IMODE(log.stat().st_mode) & 0o077 == 0
    assert hooks.url not in log.read_text()
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))  # as if it had died before it knew
    reported(job)
    assert len(hooks.calls) == 4
    first, second = (json.loads(body)["delivery"] for _, body in hooks.calls[2:])
    assert first == second  # so that a receiver can tell


def test_a_receiver_that_is_away_is_retried_and_then_noted(make_job: MakeJob, hooks: Hooks):
    hooks.answers = [503, 200, 500, 500, 500]
    job = make_job(Trackside={"Notify": [f"webhook:{hooks.url}?secret"]})
    reported(job, FINDING)
    assert len(hooks.calls) == 2
    assert undelivered(job) == []
    fail(job)
    reported(job)
    [note] = undelivered(job)
    assert note["target"] == f"webhook:{hooks.url.removesuffix('hook')}***"
    assert note["about"] == "end of the job"
    assert "given up after 3 tries" in note["reason"]
    assert "secret" not in json.dumps(note)
    assert job.journal.read().state.secondary is Secondary.FAILED


def test_mail_without_a_mail_server_is_noted_with_the_way_out(make_job: MakeJob):
    job = make_job(Trackside={"Notify": ["mail:me@example.com"]})
    reported(job, FINDING)
    [note] = undelivered(job)
    assert "TRACKSIDE_SMTP_HOST" in note["reason"]


def test_a_job_of_a_server_calls_no_one_on_its_machine_unless_allowed(
    make_job: MakeJob, hooks: Hooks
):
    targets = {"Notify": [f"webhook:{hooks.url}"]}
    refused = make_job("job-1", key="TSKEY", Trackside=targets)
    reported(refused, FINDING)
    assert hooks.calls == []
    [note] = undelivered(refused)
    assert "the server's own machine" in note["reason"]
    assert "/hook" not in note["reason"]
    allowed = {"TRACKSIDE_ALLOW_CALLBACKS": "127.0.0.1", "TRACKSIDE_WEBHOOK_SECRET": "hush"}
    reported(make_job("job-2", key="TSKEY", settings=allowed, Trackside=targets), FINDING)
    [(headers, _)] = hooks.calls
    assert "X-Trackside-Signature" not in headers  # the operator's secret is for his own address
