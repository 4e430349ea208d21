"""A run across the cells of IPython, whose errors do not end the process."""

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.aws_clients import program
from tests.inside.conftest import Scripts
from trackside.records.status import Status

pytestmark = pytest.mark.timeout(300)


def run_cells(scripts: Scripts, cells: Sequence[str]) -> str:
    """The real IPython, typed into; at the end of its input it leaves."""
    options = ["--simple-prompt", "--no-banner", "--TerminalInteractiveShell.confirm_exit=False"]
    path = os.pathsep.join(each for each in sys.path if each)
    done = subprocess.run(
        [program("ipython"), *options],
        input="".join(f"{cell}\n" for cell in cells),
        env={**os.environ, "PYTHONPATH": path},
        cwd=scripts.folder,
        capture_output=True,
        text=True,
        timeout=200,
    )
    return done.stdout + done.stderr


INIT = "import time, trackside; run = trackside.init(name='a')"


def test_an_error_after_which_it_goes_on_was_not_the_end(scripts: Scripts):
    reported = run_cells(scripts, [INIT, "1 / 0", "trackside.log({'x': 1})"])
    assert "a Completed after" in reported
    assert scripts.ended("a").history.state.status is Status.COMPLETED


def test_an_error_that_nothing_follows_was_the_end(scripts: Scripts):
    reported = run_cells(scripts, [INIT, "trackside.log({'x': 1})", "1 / 0"])
    assert "a Failed after" in reported
    record = scripts.ended("a")
    assert "ZeroDivisionError: division by zero" in (record.history.failure_reason or "")


def test_a_cell_that_is_stopped_ends_the_run_and_not_the_notebook(scripts: Scripts):
    reported = run_cells(
        scripts,
        [
            INIT,
            "job = trackside.attach('a')",
            "job.stop(); time.sleep(100)",
            "print('the notebook', 'goes on')",
        ],
    )
    assert "a Stopped after" in reported
    assert "the notebook goes on" in reported
    assert scripts.ended("a").history.state.status is Status.STOPPED
