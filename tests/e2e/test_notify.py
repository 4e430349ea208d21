"""`--notify` of whole jobs: on this machine, and through a server."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.rules.action.receivers import Hooks, Mailbox, mail_server, web_server
from tests.server_process import TRACKSIDE, ServerProcess
from tests.wait import until
from trackside.api.keys import AccessKeys, Rights
from trackside.records.layout import Home

Run = Callable[..., subprocess.CompletedProcess[str]]
SICK = """
import torch, torch.nn as nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(30):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(torch.randn(16, 4)), torch.ones(16, 1))
    (loss * 0.0).backward()
    optimizer.step()
"""


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    with web_server() as server:
        yield server


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A command in a folder of its own, with a home of its own."""

    def command(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        ours = {key: text for key, text in os.environ.items() if not key.startswith("TRACKSIDE")}
        path = os.pathsep.join(path for path in sys.path if path)
        home = {"TRACKSIDE_HOME": str(tmp_path / "home"), "PYTHONPATH": path}
        return subprocess.run(
            [*TRACKSIDE, *words],
            env={**ours, **home, **variables},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return command


def bodies(hooks: Hooks) -> list[dict[str, str]]:
    return [json.loads(body) for _, body in hooks.calls]


def test_the_end_of_a_job_without_rules_is_reported(run: Run, hooks: Hooks, tmp_path: Path):
    (tmp_path / "train.py").write_text("raise ValueError('no data')\n")
    box = Mailbox()
    with mail_server(box) as settings:
        done = run(
            *("run", "train.py", "--name", "job-1", "--wait"),
            *("--notify", f"mail:me@example.com,webhook:{hooks.url}"),
            **settings,
            TRACKSIDE_SMTP_SECURITY="none",
        )
        assert done.returncode == 1, done.stderr
        until(lambda: box.messages and hooks.calls)
        until((tmp_path / "home/jobs/job-1/rules/notified").exists)
    [reported] = bodies(hooks)
    assert (reported["event"], reported["status"]) == ("end", "Failed")
    assert reported["reason"].startswith("ValueError: no data")
    [envelope] = box.messages
    assert b"Subject: [trackside] job-1 failed" in envelope.content
    assert "Not notified" not in run("show", "job-1").stdout
    shown = run("show", "job-1", "--json").stdout
    assert f"webhook:{hooks.url.removesuffix('hook')}***" in shown
    assert hooks.url not in shown


def test_findings_are_reported_as_they_come_and_a_failed_message_fails_no_job(
    run: Run, hooks: Hooks, tmp_path: Path
):
    (tmp_path / "train.py").write_text(SICK)
    done = run(
        *("run", "train.py", "--name", "job-1", "--wait", "--rule", "VanishingGradient"),
        *("--notify", f"slack:{hooks.url}", "--notify", "mail:me@example.com"),
    )
    assert done.returncode == 0, done.stderr
    until((tmp_path / "home/jobs/job-1/rules/notified").exists)
    first, last = (reported["text"] for reported in bodies(hooks))
    assert first.startswith("job-1: VanishingGradient found something at step ")
    assert last.startswith("job-1 completed with ")
    assert "trackside findings job-1" in first
    shown = " ".join(run("show", "job-1").stdout.split())
    assert "Not notified: mail:me@example.com of the end of the job: No mail was sent" in shown


def test_a_server_calls_for_a_submitter_only_who_is_outside_or_allowed(
    run: Run, hooks: Hooks, tmp_path: Path
):
    (tmp_path / "train.py").write_text("print(1)\n")
    words = ("run", "train.py", "--name", "job-1", "--wait", "--notify", f"webhook:{hooks.url}")

    def submitted(server: ServerProcess) -> subprocess.CompletedProcess[str]:
        keys = AccessKeys(Home(server.home).server.root)
        key, secret = keys.create("alice", Rights.SUBMIT)
        return run(
            *words,
            TRACKSIDE_URL=server.url,
            TRACKSIDE_ACCESS_KEY_ID=key.id,
            TRACKSIDE_SECRET_ACCESS_KEY=secret,
        )

    with ServerProcess(tmp_path / "strict") as strict:
        refused = submitted(strict)
    assert refused.returncode == 2
    assert "TRACKSIDE_ALLOW_CALLBACKS" in refused.stderr
    assert "is older than this client" not in refused.stderr
    allowed = {"TRACKSIDE_ALLOW_CALLBACKS": "127.0.0.1", "TRACKSIDE_WEBHOOK_SECRET": "hush"}
    with ServerProcess(tmp_path / "open", **allowed) as server:
        done = submitted(server)
        assert done.returncode == 0, done.stderr
        until((tmp_path / "open/jobs/job-1/rules/notified").exists)
    [(headers, body)] = hooks.calls
    assert json.loads(body)["status"] == "Completed"
    assert "X-Trackside-Signature" not in headers
    [stored] = (tmp_path / "open/buckets").rglob("job.json")
    assert hooks.url not in stored.read_text()
