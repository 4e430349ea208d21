"""smdebug's logging variables, in processes of their own: logging is a process's."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import trackside
from trackside import smdebug_alias

SCRIPT = """
import logging
import smdebug
from trackside.capture.trial import create_trial
log = logging.getLogger("trackside.capture.somewhere")
for _ in range(5):
    log.warning("again and %s", "again")
log.debug("a detail")
log.info("a fact")
log.error("a problem")
"""


def run(script: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join([str(Path(trackside.__file__).parents[1]), str(smdebug_alias.FOLDER)])
    clean = {key: value for key, value in os.environ.items() if not key.startswith("SMDEBUG_")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=clean | {"PYTHONPATH": path} | variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done


def messages(text: str) -> list[str]:
    return [line.partition("] ")[2] for line in text.splitlines()]


def test_without_a_variable_logging_is_the_script_s_own():
    done = run(SCRIPT)

    assert done.stdout == ""
    assert done.stderr.splitlines() == ["again and again"] * 5 + ["a problem"]


def test_one_variable_sends_messages_to_stdout_with_location_at_most_three_times():
    done = run(SCRIPT, SMDEBUG_LOG_CONTEXT="rank 3, 100%")

    assert messages(done.stdout) == ["again and again"] * 3 + ["a fact", "a problem"]
    head = r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} rank 3, 100% WARNING <string>:\d+\] again"
    assert re.match(head, done.stdout)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("DEBUG", ["a detail", "a fact", "a problem"]),
        ("error", ["a problem"]),
        ("off", []),
    ],
)
def test_the_level_filters_messages(level: str, expected: list[str]):
    done = run(SCRIPT, SMDEBUG_LOG_LEVEL=level)

    assert [text for text in messages(done.stdout) if text != "again and again"] == expected


def test_a_level_that_is_none_is_named_and_taken_for_info():
    done = run(SCRIPT, SMDEBUG_LOG_LEVEL="loud")

    assert "SMDEBUG_LOG_LEVEL='loud' is taken for 'info'. Known: debug, info," in done.stdout
    assert "a fact" in done.stdout
    assert "a detail" not in done.stdout


def test_warnings_go_to_stderr_on_request_and_everything_to_a_file(tmp_path):
    file = tmp_path / "capture.log"
    done = run(SCRIPT, SMDEBUG_LOG_ALL_TO_STDOUT="FALSE", SMDEBUG_LOG_PATH=str(file))

    assert messages(done.stdout) == ["a fact"]
    assert messages(done.stderr) == ["again and again"] * 3 + ["a problem"]
    assert messages(file.read_text()) == ["again and again"] * 3 + ["a fact", "a problem"]


def test_a_log_file_that_cannot_be_made_ends_nothing(tmp_path):
    done = run(SCRIPT, SMDEBUG_LOG_PATH=str(tmp_path / "none" / "capture.log"))

    assert "SMDEBUG_LOG_PATH=" in done.stderr
    assert "a problem" in done.stdout


def test_a_hook_follows_the_variables_without_smdebug_s_name(tmp_path):
    script = (
        "from torch import nn\n"
        "from trackside.capture import Hook\n"
        f"Hook({str(tmp_path / 't')!r}).register_module(nn.Linear(2, 2))\n"
        f"Hook({str(tmp_path / 'u')!r})\n"
    )
    done = run(script, SMDEBUG_LOG_LEVEL="info")

    assert messages(done.stdout) == ["Watching Linear, which has 2 parameters."]
