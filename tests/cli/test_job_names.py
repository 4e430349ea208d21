"""Names of jobs as they are typed: near misses, completion by the shell, and names set free."""

import json
from pathlib import Path

from tests.cli.conftest import Command
from tests.jobs.conftest import make_spec, run_to_end
from trackside.jobs.jobs import Jobs
from trackside.texts.shown_names import wire_name


def finished(jobs: Jobs, *names: str) -> None:
    for name in names:
        jobs.submit(make_spec(name))
        run_to_end(jobs, name)


def completed(command: Command, *words: str) -> list[str]:
    """What bash is told when TAB is pressed after these words."""
    reported = command(
        _TRACKSIDE_COMPLETE="bash_complete",
        COMP_WORDS=" ".join(["trackside", *words]),
        COMP_CWORD=str(len(words)),
    ).stdout
    return [line.removeprefix("plain,") for line in reported.splitlines()]


def test_a_near_miss_is_answered_with_the_names_that_were_meant(command: Command, jobs: Jobs):
    finished(jobs, "digits-1", "other")
    done = command("show", "digit-1")
    assert done.returncode == 2
    assert done.stderr.endswith("\nDid you mean 'digits-1'?\n")


def test_the_beginning_of_one_name_is_enough(command: Command, jobs: Jobs):
    finished(jobs, "digits-2026-11-15-22-50-46-123", "other")
    done = command("show", "digits")
    assert done.stdout.startswith("digits-2026-11-15-22-50-46-123  Completed\n")
    assert command("logs", "ot").stdout == "line 0\nline 1\nline 2\n"


def test_the_beginning_of_several_names_is_refused_with_these(command: Command, jobs: Jobs):
    finished(jobs, "digits-1", "digits-2", "digit")
    done = command("delete", "digits")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "Error: 2 job names start with 'digits'. Give more of the name:",
        "  digits-2",
        "  digits-1",
    ]
    assert command("stop", "digit").stdout == "digit is Completed\n"  # a whole name comes first


def test_last_is_the_newest_job_of_whoever_asks(command: Command, jobs: Jobs):
    assert "There is no last job" in command("show", "last").stderr
    finished(jobs, "first", "second")
    jobs.enqueue(make_spec("third"), key="TSA", who="alice")
    assert command("stop", "last").stdout == "second is Completed\n"
    assert command("compare", "first", "last").stdout.split()[:2] == ["first", "second"]


def test_a_job_that_is_called_last_is_that_one(command: Command, jobs: Jobs):
    finished(jobs, "last", "second")
    assert command("stop", "last").stdout == "last is Completed\n"


def test_names_may_have_dots_and_underscores(command: Command, jobs: Jobs):
    finished(jobs, wire_name("my_run.v2"), "my-run-v2")
    assert command("show", "my_run.v2").stdout.startswith("my_run.v2  Completed\n")
    assert command("show", "my_").stdout.startswith("my_run.v2  Completed\n")
    assert command("show", "my-run-v2").stdout.startswith("my-run-v2  Completed\n")
    described = json.loads(command("show", "my_run.v2", "--json").stdout)
    assert described["TrainingJobName"] == "my-run-v2--x5"
    assert completed(command, "logs", "my_") == ["my_run.v2"]
    assert command("delete", "my_run.v2").stdout.startswith("my_run.v2 is forgotten")
    assert "No job is called 'my_run.v2'" in command("show", "my_run.v2").stderr


def test_a_folder_of_this_name_is_a_location_where_one_may_be_given(
    command: Command, jobs: Jobs, tmp_path: Path
):
    (tmp_path / "runs").mkdir()
    assert "'./runs' has saved no tensors yet" in command("tensors", "runs").stderr
    assert "No job is called 'runs'" in command("show", "runs").stderr


def test_a_name_like_no_other_is_not_guessed_at(command: Command, jobs: Jobs):
    finished(jobs, "digits-1")
    assert "Did you mean" not in command("show", "resnet").stderr


def test_the_shell_completes_names_of_jobs(command: Command, jobs: Jobs):
    finished(jobs, "digits-1", "digits-2", "other")
    assert completed(command, "logs", "dig") == ["digits-2", "digits-1"]
    assert completed(command, "compare", "other", "digits-1") == ["digits-1"]


def test_completion_is_silent_where_jobs_cannot_be_listed(command: Command):
    done = command(
        _TRACKSIDE_COMPLETE="bash_complete",
        COMP_WORDS="trackside logs ",
        COMP_CWORD="2",
        TRACKSIDE_HOME="/dev/null/home",
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_a_deleted_job_is_forgotten_and_its_model_is_not(command: Command, jobs: Jobs):
    finished(jobs, "digits-1", "digits-2")
    made = jobs.settings.layout.buckets / "out/runs/digits-1/output"
    made.mkdir(parents=True, exist_ok=True)
    (made / "model.tar.gz").write_bytes(b"a model")
    done = command("delete", "digits-1", "digits-2")
    reported = done.stdout.splitlines()
    assert [line for line in reported if not line.startswith(" ")] == [
        "digits-1 is forgotten",
        "digits-2 is forgotten",
    ]
    assert json.loads(command("jobs", "--json").stdout) == []
    assert (made / "model.tar.gz").read_bytes() == b"a model"


def test_a_job_that_runs_is_not_deleted(command: Command, jobs: Jobs):
    jobs.submit(make_spec("busy", hyper={"hold": "1"}))
    done = command("delete", "busy")
    assert done.returncode == 2
    assert "stop it first" in done.stderr
