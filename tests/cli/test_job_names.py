"""Names of jobs as they are typed: near misses, completion by the shell, and names set free."""

import json

from tests.cli.conftest import Command
from tests.jobs.conftest import make_spec, run_to_end
from trackside.jobs.jobs import Jobs


def finished(jobs: Jobs, *names: str) -> None:
    for name in names:
        jobs.submit(make_spec(name))
        run_to_end(jobs, name)


def completed(command: Command, *words: str) -> list[str]:
    """What bash is told when TAB is pressed after these words."""
    told = command(
        _TRACKSIDE_COMPLETE="bash_complete",
        COMP_WORDS=" ".join(["trackside", *words]),
        COMP_CWORD=str(len(words)),
    ).stdout
    return [line.removeprefix("plain,") for line in told.splitlines()]


def test_a_near_miss_is_answered_with_the_names_that_were_meant(command: Command, jobs: Jobs):
    finished(jobs, "digits-1", "other")
    done = command("show", "digit-1")
    assert done.returncode == 2
    assert done.stderr.endswith("\nDid you mean 'digits-1'?\n")


def test_the_beginning_of_a_name_is_enough_to_be_told_the_rest(command: Command, jobs: Jobs):
    finished(jobs, "digits-2026-11-15-22-50-46-123")
    assert "Did you mean 'digits-2026-11-15-22-50-46-123'?" in command("logs", "digits").stderr


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
    told = done.stdout.splitlines()
    assert [line for line in told if not line.startswith(" ")] == [
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
