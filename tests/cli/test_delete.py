"""`trackside delete`: it asks a person, serves a script, and says what stays where."""

from collections.abc import Callable, Iterator

import pytest

from tests.cli.conftest import TRACKSIDE, Command
from tests.cli.test_wait_for_job import Terminal
from tests.jobs.conftest import make_spec, run_to_end
from tests.wait import until
from trackside.jobs.jobs import Jobs

MODEL = "out/runs/digits/output/model.tar.gz"


@pytest.fixture
def at_terminal() -> Iterator[Callable[..., Terminal]]:
    opened = []

    def run(*arguments: str) -> Terminal:
        opened.append(Terminal(*TRACKSIDE, *arguments))
        return opened[-1]

    yield run
    for terminal in opened:
        terminal.close()


@pytest.fixture
def digits(jobs: Jobs) -> str:
    jobs.submit(make_spec("digits", TensorBoardOutputConfig={"S3OutputPath": "s3://curves"}))
    run_to_end(jobs, "digits")
    return "digits"


def is_known(command: Command, job: str) -> bool:
    return command("show", job).returncode == 0


def test_a_script_is_not_asked_and_told_what_stays(command: Command, jobs: Jobs, digits: str):
    curves = jobs.settings.layout.buckets / "curves/digits/tensorboard-output/events.out.tfevents.1"
    curves.parent.mkdir(parents=True)
    curves.write_bytes(bytes(2000))
    done = command("delete", digits)
    assert done.returncode == 0
    assert done.stdout.splitlines()[:3] == [
        "digits is forgotten",
        "  kept output, 7 B, s3://out/runs/digits/output",
        "  kept curves, 2.0 kB, s3://curves/digits/tensorboard-output",
    ]
    assert "needs another TensorBoard location" in done.stdout
    assert (jobs.settings.layout.buckets / MODEL).exists()


def test_a_person_is_asked_and_may_say_no(
    at_terminal: Callable[..., Terminal], command: Command, jobs: Jobs, digits: str
):
    terminal = at_terminal("delete", digits, "--data")
    until(lambda: terminal.shows("Forget digits, and remove 7 B for good? [y/N]"))
    assert "s3://out/runs/digits/output" in terminal.shown
    terminal.types("n\n")
    assert terminal.end() == 0
    assert "Nothing was deleted." in terminal.shown
    assert is_known(command, digits)
    assert (jobs.settings.layout.buckets / MODEL).exists()


def test_a_person_who_agrees_gets_the_space_back(
    at_terminal: Callable[..., Terminal], command: Command, jobs: Jobs, digits: str
):
    terminal = at_terminal("delete", digits, "--data")
    until(lambda: terminal.shows("[y/N]"))
    terminal.types("y\n")
    assert terminal.end() == 0
    assert not is_known(command, digits)
    assert not (jobs.settings.layout.buckets / "out/runs/digits").exists()


def test_data_is_not_removed_where_nobody_can_be_asked(command: Command, jobs: Jobs, digits: str):
    refused = command("delete", digits, "--data")
    assert refused.returncode == 2
    assert "Add --yes" in refused.stderr
    assert is_known(command, digits)
    done = command("delete", digits, "--data", "--yes")
    removed = "digits is forgotten, and 7 B that it had stored are removed\n"
    assert (done.returncode, done.stdout) == (0, removed)
    assert not (jobs.settings.layout.buckets / "out/runs/digits").exists()


def test_shared_checkpoints_are_reported_with_the_way_out(command: Command, jobs: Jobs):
    jobs.submit(make_spec("digits", CheckpointConfig={"S3Uri": "s3://ckpt/d"}))
    run_to_end(jobs, "digits")
    saved = jobs.settings.layout.buckets / "ckpt/d/1.pt"
    saved.parent.mkdir(parents=True)
    saved.write_bytes(b"12345")
    done = command("delete", "digits", "--data", "--yes")
    assert "kept checkpoints, 5 B, s3://ckpt/d: the location may be shared" in done.stdout
    assert saved.exists()
    assert command("delete", "digits", "--checkpoints").returncode == 2
