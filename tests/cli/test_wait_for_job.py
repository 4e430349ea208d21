"""Waiting for a job, at a terminal and elsewhere."""

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import TRACKSIDE, Command
from tests.job_processes import until_they_have_left
from tests.jobs.conftest import is_training, make_spec
from tests.wait import until
from trackside.cli.bars import bars
from trackside.jobs.jobs import Jobs
from trackside.records import hosts
from trackside.records.hosts import HostRecord, Phase, Progress
from trackside.records.journal import Journal
from trackside.records.status import Secondary, Status
from trackside.settings import Settings, environment

WAIT = (sys.executable, "-m", "tests.cli.wait_program")


class Terminal:
    """A program on a pseudo-terminal of 100 columns."""

    def __init__(self, *command: str) -> None:
        ours, theirs = pty.openpty()
        self._ours = ours
        environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True
        )
        os.close(theirs)
        self.shown = ""

    def shows(self, text: str) -> bool:
        self._read()
        return text in self.shown

    def types(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def end(self) -> int:
        until(self._has_ended)
        self._read()
        return self.process.wait()

    def _has_ended(self) -> bool:
        self._read()  # or it would wait for room on the terminal
        return self.process.poll() is not None

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def _read(self) -> None:
        while select.select([self._ours], [], [], 0)[0]:
            try:
                data = os.read(self._ours, 1 << 16)
            except OSError:  # Linux: the other side is closed
                return
            if not data:
                return
            self.shown += data.decode(errors="replace")


@pytest.fixture
def waiting(jobs: Jobs) -> Iterator[Terminal]:
    jobs.submit(make_spec("job-1", hyper={"hold": "1"}))
    terminal = Terminal(*WAIT, "job-1")
    until(lambda: terminal.shows("line 2"))
    yield terminal
    terminal.close()


def release(jobs: Jobs) -> None:
    (jobs.settings.layout.job("job-1").root / "release").touch()


def test_a_terminal_shows_statuses_and_log_until_the_end(waiting: Terminal, jobs: Jobs):
    release(jobs)
    assert waiting.end() == 0
    shown = ("Starting - ", "Training - ", "Completed - Training job completed")
    places = [waiting.shown.index(text) for text in shown]
    assert places == sorted(places)
    assert places[0] < waiting.shown.index("line 0") < places[-1]


def test_interrupting_the_wait_leaves_the_job_alone(waiting: Terminal, jobs: Jobs):
    waiting.process.send_signal(signal.SIGINT)
    assert waiting.end() == 130
    assert "job-1 goes on." in waiting.shown
    assert "trackside stop job-1" in waiting.shown
    history = Journal(jobs.settings.layout.job("job-1").journal).read()
    assert history.state.status is Status.IN_PROGRESS


def test_a_job_that_fails_makes_the_wait_fail(jobs: Jobs):
    jobs.submit(make_spec("job-1", hyper={"failure": "AlgorithmError: no luck"}))
    done = subprocess.run([*WAIT, "job-1"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "Error: Job 'job-1' failed: AlgorithmError: no luck",
        "  trackside logs job-1",
        "  trackside show job-1",
    ]
    assert "line 2" in done.stdout


@pytest.mark.parametrize(
    ("by", "code", "reason"),
    [
        ({}, 7, "somebody stopped it."),
        ({"rule": "Overfit"}, 5, "the rule 'Overfit' stopped it."),
    ],
)
def test_a_job_that_was_cut_off_has_an_exit_code_of_its_own(jobs: Jobs, by, code: int, reason: str):
    jobs.submit(make_spec("job-1", hyper={"hold": "1"}))
    until(lambda: is_training(jobs, "job-1"))
    journal = Journal(jobs.settings.layout.job("job-1").journal)
    journal.try_move(Secondary.STOPPING, **by)
    done = subprocess.run([*WAIT, "job-1"], capture_output=True, text=True)
    assert done.returncode == code
    assert done.stderr.splitlines() == [
        f"Error: Job 'job-1' is not Completed: {reason} What it had made by then is stored.",
        "  trackside artifacts job-1",
        "  trackside show job-1",
    ]


def test_elsewhere_than_at_a_terminal_there_are_only_plain_lines(jobs: Jobs):
    jobs.submit(make_spec("job-1"))
    done = subprocess.run([*WAIT, "job-1"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout


def test_a_bar_shows_how_far_a_download_is(jobs: Jobs):
    jobs.submit(make_spec("job-1", hyper={"hold": "1"}))
    folder = jobs.settings.layout.job("job-1")
    until(lambda: is_training(jobs, "job-1"))
    progress = Progress(
        what="training", done_files=3, num_files=7, done_bytes=1_200_000, size_bytes=4_000_000
    )
    record = HostRecord(phase=Phase.PREPARING, progress=progress)
    hosts.write(folder.host("algo-1", 1).record, record)
    terminal = Terminal(*WAIT, "job-1")
    try:
        until(lambda: terminal.shows("line 2"))
        Journal(folder.journal).move(Secondary.UPLOADING)
        until(lambda: terminal.shows("algo-1 training"))
        until(lambda: terminal.shows("1.2 MB of 4.0 MB"))
        until(lambda: terminal.shows("3 of 7 files"))
    finally:
        terminal.close()


def test_a_host_that_moves_nothing_has_no_bar():
    assert [*bars({"algo-1": {"progress": {"num_files": 0}}})] == []


def test_interrupting_a_followed_log_is_exit_code_130(jobs: Jobs):
    jobs.submit(make_spec("job-1", hyper={"hold": "1"}))
    terminal = Terminal(*TRACKSIDE, "logs", "-f", "job-1")
    try:
        until(lambda: terminal.shows("line 2"))
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
        assert "Traceback" not in terminal.shown
    finally:
        terminal.close()


def ignoring_interrupts(*command: str) -> "subprocess.Popen[str]":
    """As a shell without job control starts what is in its background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_follower_in_the_background_can_be_interrupted(jobs: Jobs):
    jobs.submit(make_spec("job-1", hyper={"hold": "1"}))
    with ignoring_interrupts(*TRACKSIDE, "logs", "-f", "job-1") as follower:
        lines = iter(follower.stdout or ())
        assert "line 2\n" in lines
        follower.send_signal(signal.SIGINT)
        try:
            assert follower.wait(60) == 130
        finally:
            follower.kill()


def test_a_run_that_waits_in_the_background_can_be_interrupted(workplace: Path):
    (workplace / "train.py").write_text(
        "import pathlib, time\n"
        "print('it runs', flush=True)\n"
        f"while not pathlib.Path({str(workplace / 'go')!r}).exists(): time.sleep(0.05)\n"
    )
    arguments = ("run", "train.py", "--name", "job-1", "--wait")
    with ignoring_interrupts(*TRACKSIDE, *arguments) as waiting:
        assert any("it runs" in line for line in waiting.stdout or ())
        waiting.send_signal(signal.SIGINT)
        try:
            assert waiting.wait(60) == 130
        finally:
            waiting.kill()
            (workplace / "go").touch()
    settings = Settings.load()
    assert Jobs(settings, environment()).wait("job-1").state.status is Status.COMPLETED
    until_they_have_left(settings.home)


def test_tests_in_the_background_hear_interrupts_too():
    code = (
        "import signal, tests.conftest\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    )
    with ignoring_interrupts(sys.executable, "-c", code) as process:
        assert process.wait() == 0


def test_a_reader_that_has_seen_enough_is_no_error(jobs: Jobs):
    jobs.submit(make_spec("job-1", hyper={"lines": "100000"}))
    jobs.wait("job-1")
    pipe = subprocess.Popen(
        [*TRACKSIDE, "logs", "job-1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert pipe.stdout is not None
    assert pipe.stderr is not None
    assert pipe.stdout.readline() == b"line 0\n"
    pipe.stdout.close()
    assert pipe.stderr.read() == b""
    pipe.stderr.close()
    assert pipe.wait(timeout=60) != 0


@pytest.mark.parametrize(
    ("options", "is_whole"), [(("-f",), False), (("-f", "--all"), True), ((), True)]
)
def test_who_follows_a_log_at_a_terminal_is_spared_the_variables(
    command: Command, workplace: Path, options: tuple[str, ...], is_whole: bool
):
    (workplace / "train.py").write_text("print('hello')\n")
    assert command("run", "train.py", "--name", "one", "--wait").returncode == 0
    terminal = Terminal(*TRACKSIDE, "logs", "one", *options)
    try:
        assert terminal.end() == 0
        assert terminal.shows("hello")
        assert terminal.shows("SM_MODEL_DIR") == is_whole
    finally:
        terminal.close()
    assert "SM_MODEL_DIR" in command("logs", "one", *options).stdout, "a pipe gets every line"
