"""The command line at a server: the same words as on this machine, and how to get there."""

import json
import os
import re
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_wait_for_job import Terminal
from tests.server_process import TRACKSIDE, ServerProcess
from tests.wait import until
from trackside.api.keys import AccessKeys, Rights
from trackside.records.layout import Home
from trackside.settings import Settings

Command = Callable[..., subprocess.CompletedProcess[str]]

WATCHED = """
import os, time
import torch
import torch.nn as nn
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(30):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(torch.randn(16, 4)), torch.ones(16, 1))
    (loss * (0.0 if step >= 15 else 1.0)).backward()
    optimizer.step()
    print(f"loss: {loss.item():.3f}", flush=True)
    time.sleep(0.02)
"""


@pytest.fixture
def command() -> Command:
    def run(*arguments: str, typed: str = "", **options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*TRACKSIDE, *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, **options},
            input=typed,
        )

    return run


def in_common(text: str) -> str:
    """Without what is never the same: times, sizes, and how many files it took."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d+)?", "TIME", text)
    text = re.sub(r"\d+(\.\d+)? [kMG]?B +\d+ +", "N ", text)
    return re.sub(r"\d+ s\b", "N", text)


def test_a_watched_job_looks_the_same_as_on_this_machine(
    command: Command, server: ServerProcess, workplace: Path
):
    """Its statuses, log, findings and rules as they come, and all that is shown of it later."""
    (workplace / "train.py").write_text(WATCHED)
    there = server.environment()
    name = f"watched-{time.time_ns()}"
    asked = ["run", "train.py", "--name", name, "--wait", "--metric", "loss=loss: ([0-9.]+)"]
    asked += ["--rule", "VanishingGradient", "--every", "1"]
    here, away = command(*asked), command(*asked, **there)
    assert (here.returncode, away.returncode) == (0, 0), here.stderr + away.stderr
    assert "VanishingGradient at step 15" in away.stdout
    assert "VanishingGradient: IssuesFound" in away.stdout
    assert _by_kind(away.stdout) == _by_kind(here.stdout)
    for shown in (
        ("findings", name),
        ("tensors", name),
        ("metrics", name),
        ("logs", name, "--tail", "3"),
        ("logs", name, "--grep", r"^loss: \d", "-N"),
        ("rules", "check", name, "--rule", "VanishingGradient"),
        ("artifacts", name),
    ):
        mine, theirs = command(*shown), command(*shown, **there)
        assert in_common(theirs.stdout) == in_common(mine.stdout), shown
        assert theirs.returncode == mine.returncode, theirs.stderr
    report = command("report", name, "-o", "page.html", **there)
    assert report.returncode == 0, report.stderr
    assert "VanishingGradient" in (workplace / "page.html").read_text()
    code = f"""
from trackside import attach, create_trial
trial = create_trial(attach({name!r}).debugger_artifacts_path)
print(len(trial.steps()), len(trial.tensor_names()))
"""
    python = [TRACKSIDE[0], "-c", code]
    read = subprocess.run(python, env=os.environ | there, capture_output=True, text=True)
    assert read.stdout.split()[0] == "30", read.stderr


def _by_kind(shown: str) -> list[list[str]]:
    """Findings come between the lines of the log wherever they are found: each kind by itself."""
    log = [line for line in shown.splitlines() if line.startswith(("loss:", "  SM_HPS"))]
    statuses = re.findall(r"^\d{4}\S+ \S+ (\w+ - .*)$", shown, re.M)
    statuses = statuses[
        statuses.index("Downloading - Downloading input data") :
    ]  # once it is begun
    rules = re.findall(r"^(?:Finding: \S+ at step \d+|\S+: (?:No)?IssuesFound$)", shown, re.M)
    # Those of one step come in one piece or in several, by when they were looked for.
    return [log, statuses, list(dict.fromkeys(rules))]


def test_jobs_of_a_server_are_found_by_what_they_were_given_and_made(
    command: Command, server: ServerProcess, workplace: Path
):
    (workplace / "train.py").write_text("import sys\nprint('loss:', sys.argv[-1])\n")
    there, began = server.environment(), f"found_{time.time_ns()}"
    for number, lr in ((1, "0.1"), (2, "0.01")):
        asked = ["run", "train.py", "--wait", "--name", f"{began}.{number}", "--tag", "team=vision"]
        done = command(*asked, "-p", f"lr={lr}", "--metric", "loss=loss: ([0-9.]+)", **there)
        assert done.returncode == 0, done.stderr
    listed = ["jobs", "--name", began, "--tag", "team=vision", "--since", "1h"]
    rows = command(*listed, "--where", "lr>0.001", "--sort", "loss", **there).stdout.splitlines()
    assert [row.split()[0] for row in rows[1:]] == [f"{began}.2", f"{began}.1"]
    query = f"{began} tag:vision lr>0.001 metric.loss<9 is:finished"
    searched = command("jobs", query, "--sort", "loss", **there).stdout.splitlines()
    assert [row.split()[0] for row in searched[1:]] == [f"{began}.2", f"{began}.1"]
    (_, row) = command(*listed, "-p", "lr=0.1", **there).stdout.splitlines()
    assert row.split()[0] == f"{began}.1"
    assert command("stop", "last", **there).stdout == f"{began}.2 is Completed\n"
    shown = command("show", f"{began}.1", **there).stdout
    assert "tags             team  vision\n" in shown
    several = command("show", began, **there)
    assert (several.returncode, "2 job names start with" in several.stderr) == (2, True)


def test_owners_are_shown_and_another_s_job_is_not_stopped(
    command: Command, server: ServerProcess, workplace: Path
):
    (workplace / "train.py").write_text("import time; time.sleep(600)")
    there = server.environment()
    name = f"owned-{time.time_ns()}"
    run = command("run", "train.py", "--name", name, "--grace", "0", **there)
    assert run.returncode == 0, run.stderr
    listed = command("jobs", "--mine", "--name", name, **there).stdout.splitlines()
    assert listed[0].split()[:3] == ["NAME", "STATUS", "OWNER"]
    assert [line.split()[::2][:2] for line in listed[1:]] == [[name, "tests"]]
    key, secret = AccessKeys(Home(server.home).server.root).create("ben", Rights.SUBMIT)
    other = {"TRACKSIDE_ACCESS_KEY_ID": key.id, "TRACKSIDE_SECRET_ACCESS_KEY": secret}
    assert command("jobs", "--mine", **{**there, **other}).stdout == "There is no job of 'ben'.\n"
    refused = command("stop", name, **{**there, **other})
    assert refused.returncode == 3
    assert f"The job {name!r} belongs to 'tests'; a key of that name can" in refused.stderr
    assert "owner            tests\n" in command("show", name, **{**there, **other}).stdout
    assert command("stop", name, "--wait", **there).returncode == 0


def test_what_is_brought_is_shown_at_a_terminal(
    server: ServerProcess, workplace: Path, monkeypatch: pytest.MonkeyPatch
):
    server.use(monkeypatch)
    (workplace / "train.py").write_text("")
    (workplace / "data").mkdir()
    for number in range(40):
        (workplace / "data" / f"{number}.bin").write_bytes(bytes(100_000))
    name = f"brought-{time.time_ns()}"
    asked = ("run", "train.py", "--name", name, "--channel", "photos=./data")
    terminal = Terminal(*TRACKSIDE, *asked)
    try:
        assert terminal.end() == 0, terminal.shown
        assert "bringing photos" in terminal.shown
        assert "of 4.0 MB" in terminal.shown
        assert "of 40 files" in terminal.shown
        assert f"Started {name}" in terminal.shown
    finally:
        terminal.close()


def test_show_and_jobs_tell_the_server_s(command: Command, server: ServerProcess, workplace: Path):
    (workplace / "train.py").write_text("print('hi')")
    there = server.environment()
    name = f"shown-{time.time_ns()}"
    assert command("run", "train.py", "--name", name, "--wait", **there).returncode == 0
    assert "s3://trackside" in command("jobs", "--name", name, **there).stdout
    shown = command("show", name, **there).stdout
    assert "Completed" in shown
    assert "algo-1  ended  0" in shown
    copied = command("artifacts", name, "--download", "results", **there)
    assert copied.stdout == "results/model.tar.gz\n"
    assert (workplace / "results" / "model.tar.gz").stat().st_size > 0
    assert command("show", name).returncode == 2  # this machine knows nothing of it


@pytest.mark.parametrize("asked", [("reindex",), ("upload", "some-job")])
def test_what_needs_the_job_s_folder_says_where_it_is(
    command: Command, server: ServerProcess, asked: tuple[str, ...]
):
    done = command(*asked, **server.environment())
    assert done.returncode == 2
    assert server.url in done.stderr
    assert "TRACKSIDE_URL=embedded" in done.stderr


def test_the_queue_of_a_server_is_shown_to_every_key_without_the_keys_of_others(
    command: Command, server: ServerProcess, tmp_path: Path
):
    keys = AccessKeys(Home(server.home).server.root)
    alice, alices = keys.create("alice", Rights.SUBMIT, limit_cores=1)
    reader, readers = keys.create("reader", Rights.READ)
    script = tmp_path / "hold.py"
    script.write_text("import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.1)\n")
    as_alice = {
        "TRACKSIDE_URL": server.url,
        "TRACKSIDE_ACCESS_KEY_ID": alice.id,
        "TRACKSIDE_SECRET_ACCESS_KEY": alices,
    }
    as_reader = {
        **as_alice,
        "TRACKSIDE_ACCESS_KEY_ID": reader.id,
        "TRACKSIDE_SECRET_ACCESS_KEY": readers,
    }
    first, second = f"queued-1-{time.time_ns()}", f"queued-2-{time.time_ns()}"
    for name in (first, second):
        done = command("run", "hold.py", "--name", name, **as_alice)
        assert done.returncode == 0, done.stderr
    try:
        reported = {}

        def is_running() -> bool:
            done = command("queue", "--json", **as_reader)
            assert done.returncode == 0, done.stderr
            reported.update(json.loads(done.stdout))
            return [entry["name"] for entry in reported["running"]] == [first]

        until(is_running)
        [waiter] = reported["waiting"]
        assert (waiter["name"], waiter["owner"]) == (second, "alice")
        limit = "Waiting for a job of 'alice' to end: owner's limit of 1 core reached"
        assert waiter["why"] == limit
        assert waiter["needs"]["cores"] == 1
        assert reported["is_served"] is True
        assert alice.id not in json.dumps(reported)
        shown = command("queue", **as_reader).stdout
        assert second in shown
        assert "alice" in shown
        assert "No server runs here" not in shown
        of_one = " ".join(command("show", second, **as_reader).stdout.split())
        assert f"{limit} (number 1 of 1 in the queue)." in of_one
    finally:
        for name in (second, first):
            command("stop", name, **as_alice)
        until(lambda: not json.loads(command("queue", "--json", **as_reader).stdout)["running"])


def test_who_logs_in_needs_no_variable_until_logging_out(command: Command, server: ServerProcess):
    typed = f"{server.key.id}\n{server.secret}\n"
    done = command("login", server.url, typed=typed)
    assert done.returncode == 0, done.stderr
    assert server.secret not in done.stdout
    path = Settings.load().layout.profiles
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert server.url in command("reindex").stderr
    assert command("jobs").returncode == 0
    assert command("jobs", TRACKSIDE_URL="embedded").stdout.startswith("No jobs.")
    assert command("logout").stdout == f"{server.url} is forgotten.\n"
    assert command("reindex").returncode == 0
    assert command("logout").stdout == "There is no profile 'default'.\n"


def test_a_key_that_does_not_work_is_not_kept(command: Command, server: ServerProcess):
    done = command("login", server.url, typed="TSNOBODY\nx\n")
    assert done.returncode == 3
    assert "'TSNOBODY': it is not known there" in done.stderr
    assert not Settings.load().layout.profiles.exists()


def test_without_anybody_to_type_a_key_the_way_out_is_reported(
    command: Command, server: ServerProcess
):
    done = command("login", server.url)
    assert done.returncode == 3
    assert f"no access key for the server at {server.url}" in done.stderr
    assert "TRACKSIDE_ACCESS_KEY_ID" in done.stderr


def test_nobody_is_asked_for_the_key_to_a_server_that_is_away(command: Command):
    done = command("login", "http://127.0.0.1:9", typed="TSNOBODY\nx\n")
    assert done.returncode == 3
    assert "cannot be reached" in done.stderr
    assert "Access key" not in done.stdout + done.stderr


def test_several_servers_have_a_profile_each(command: Command, server: ServerProcess):
    keys = {name: value for name, value in server.environment().items() if name != "TRACKSIDE_URL"}
    done = command("--profile", "ci", "login", server.url, **keys)
    assert done.returncode == 0, done.stderr
    assert "trackside --profile ci logout" in done.stdout
    assert command("reindex").returncode == 0  # the default is still this machine
    assert server.url in command("--profile", "ci", "reindex").stderr
    assert server.url in command("reindex", TRACKSIDE_PROFILE="ci").stderr
    unknown = command("--profile", "cj", "jobs")
    assert unknown.returncode == 2
    assert "Known: ci." in unknown.stderr
    assert command("--profile", "ci", "logout").returncode == 0


def test_the_server_s_own_machine_needs_no_key(command: Command, server: ServerProcess):
    home = {"TRACKSIDE_HOME": str(server.home), "TRACKSIDE_URL": server.url}
    assert command("jobs", **home).returncode == 0
    path = Settings.load({"TRACKSIDE_HOME": str(server.home)}).layout.server.own_key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_server_is_exit_code_three(command: Command):
    keys = {"TRACKSIDE_ACCESS_KEY_ID": "TSKEY", "TRACKSIDE_SECRET_ACCESS_KEY": "x"}
    done = command("jobs", TRACKSIDE_URL="http://127.0.0.1:9", **keys)
    assert done.returncode == 3
    assert "Error: The server at http://127.0.0.1:9 cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_does_not_ask_itself(command: Command, server: ServerProcess, workplace: Path):
    """Started in a shell of a client, or with a profile in its home, its jobs use its buckets."""
    (workplace / "train.py").write_text("print('hi')")
    home = workplace / "other server's home"
    with ServerProcess(home) as other:
        environment = other.environment()
        assert command("login", other.url, TRACKSIDE_HOME=str(home)).returncode == 0
        other.kill()
        other.start()
        done = command("run", "train.py", "--name", "own", "--wait", **environment)
        assert done.returncode == 0, done.stderr
    assert (home / "buckets" / "trackside" / "own" / "output" / "model.tar.gz").is_file()


def test_who_may_submit_runs_the_first_job_of_a_new_server(command: Command, workplace: Path):
    (workplace / "train.py").write_text("print('hello from there')")
    with ServerProcess(workplace / "new home") as new:
        key, secret = AccessKeys(Home(new.home).server.root).create("ci", Rights.SUBMIT)
        done = command(
            "run",
            "train.py",
            "--wait",
            TRACKSIDE_URL=new.url,
            TRACKSIDE_ACCESS_KEY_ID=key.id,
            TRACKSIDE_SECRET_ACCESS_KEY=secret,
        )
    assert done.returncode == 0, done.stderr
    assert "hello from there" in done.stdout
