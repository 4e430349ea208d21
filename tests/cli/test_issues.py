"""`trackside issues`, on this machine and at a server."""

import json
import time
from pathlib import Path

from tests.cli.conftest import Command
from tests.jobs.conftest import make_spec, run_to_end
from tests.server_process import ServerProcess
from tests.views.test_issues import LAUNCH, rate_zero
from tests.views.test_issues import run as run_job
from trackside.jobs.jobs import Jobs
from trackside.records.owners import local_owner


def found(command: Command, *arguments: str) -> str:
    done = command("issues", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_issues_are_listed_with_what_changed(command: Command, jobs: Jobs):
    assert found(command).startswith("There are no jobs yet.")
    run_job(jobs, "good", hyper={"lr": "0.1"})
    run_job(jobs, "bad", rate_zero(), hyper={"lr": "0"})
    shown = found(command)
    assert "1 of 2 jobs is sick since today " in shown
    assert "first in bad. Changed: hyperparameter lr 0.1 → 0" in shown
    assert "1 open issue in 1 of 2 jobs." in shown
    listed = json.loads(found(command, "--json"))
    [issue] = listed["issues"]
    assert (issue["cause"], issue["healthy"]) == ("LearningRateZero", "good")


def test_one_issue_is_shown_whole(command: Command, jobs: Jobs):
    run_job(jobs, "good", hyper={"lr": "0.1"})
    run_job(jobs, "bad", rate_zero(tensor="layers.0.up"), hyper={"lr": "0"})
    [issue] = json.loads(found(command, "--json"))["issues"]
    shown = found(command, issue["id"][:8])
    assert "The learning rate is 0 in all 36 updates. It was 0.1 before." in shown
    assert "Print the rate." in shown
    assert "layers.*.up" in shown
    assert "Changed between good, the last healthy job, and bad; the likeliest" in shown
    assert json.loads(found(command, issue["id"], "--json"))["id"] == issue["id"]


def test_states_are_set_and_hide_an_issue(command: Command, jobs: Jobs):
    run_job(jobs, "bad", rate_zero())
    [issue] = json.loads(found(command, "--json"))["issues"]
    id = issue["id"]
    assert f"{id} is fixed (called fixed by {local_owner()} on " in found(command, id, "--fixed")
    assert "1 more fixed or muted: trackside issues --all" in found(command)
    assert "fixed" in found(command, "--all")
    assert "muted until 3 more jobs show it" in found(command, id, "--mute", "3")
    assert f"{id} is open (called open by " in found(command, id, "--open")


def test_wrong_use_is_explained(command: Command, jobs: Jobs):
    for arguments, message in (
        (["--fixed"], "Name the issue by its ID."),
        (["1-0", "--fixed", "--mute", "2"], "Give one of --fixed, --mute and --open."),
        (["1-0", "--mute", "0"], "--mute"),
        (["1-0"], "No issue has the id '1-0'."),
    ):
        done = command("issues", *arguments)
        assert done.returncode == 2 or message.startswith("No issue")
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_hostile_text_reaches_no_terminal(command: Command, jobs: Jobs):
    failure = "AlgorithmError: ValueError: \x1b]0;title\x07 \x1b[31mred, exit code: 1"
    jobs.submit(make_spec("bad", hyper={"failure": failure}, Trackside={"Launch": LAUNCH}))
    run_to_end(jobs, "bad")
    [issue] = json.loads(found(command, "--json"))["issues"]
    for arguments in ([], [issue["id"]]):
        assert "\x1b" not in found(command, *arguments)


def test_a_server_groups_its_jobs_and_keeps_the_states(
    command: Command, tmp_path: Path, workplace: Path
):
    with ServerProcess(tmp_path / "server") as server:
        variables = server.environment()
        name = f"bad-{time.time_ns()}"
        (workplace / "train.py").write_text("raise ValueError('no data')\n")
        command("run", "train.py", "--name", name, "--wait", **variables)

        def at_server(*arguments: str) -> str:
            done = command("issues", *arguments, **variables)
            assert done.returncode == 0, done.stderr
            return done.stdout

        [issue] = json.loads(at_server("--json"))["issues"]
        assert (issue["cause"], issue["line"]) == ("ValueError", "train.py:1")
        assert "1 job fails since today " in at_server()
        assert "called fixed by tests on " in at_server(issue["id"], "--fixed")
        assert json.loads(at_server(issue["id"], "--json"))["state"] == "fixed"
        done = command("issues", "1-0", **variables)
        assert "No issue has the id '1-0'." in done.stderr
    assert found(command).startswith("There are no jobs yet.")
