"""Why a script failed, where neither it nor the toolkit could say so."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.supervisor import running
from trackside.records.hosts import HostRecord
from trackside.supervisor.failure_reasons import log_tail, reason
from trackside.supervisor.outcome import REASON_LENGTH, algorithm_error, failure_reason
from trackside.supervisor.sandbox import Exited

TOOLKIT = (
    "2026-11-16 09:25:35,758 trackside-toolkit INFO     Invoking user script\n"
    "  SM_HOSTS=[]\n  SM_USER_ARGS=[]\n  python -- train.py\n"
)
SCRIPT: dict[str, Any] = {"AlgorithmSpecification": {"TrainingImage": "pytorch"}}
REPORT = 'ExecuteUserScriptError:\nExitCode 1\nErrorMessage "RuntimeError: no"\nCommand "python"'


def reported(home: Path, state: Exited, *, log: str = "", failure: str = "", **request: Any) -> str:
    context = running.context(home, **request)
    folder = context.folder.host("algo-1", 1)
    (folder.ml / "output").mkdir(parents=True, exist_ok=True)
    folder.log.write_text(log)
    if failure:
        (folder.ml / "output" / "failure").write_text(failure)
    return reason(context, folder, state, state.code)


def test_a_toolkit_that_was_killed_is_reported_with_the_script_s_last_lines(tmp_path: Path):
    log = f"{TOOLKIT}epoch 1\nepoch 2\n"
    assert reported(tmp_path, Exited(-9, seconds=61.0), log=log, **SCRIPT) == (
        "The toolkit, which runs the script, was killed by SIGKILL after 1 min 1 s. The kernel "
        "recorded no out-of-memory kill. Last line: epoch 2\nepoch 1"
    )


def test_a_toolkit_killed_before_the_script_wrote_anything(tmp_path: Path):
    text = reported(tmp_path, Exited(-9, out_of_memory=True), log=TOOLKIT, **SCRIPT)
    assert text.startswith(
        "Out of memory: the toolkit, which runs the script, was killed by the kernel (SIGKILL) "
        "without an error message"
    )


def test_a_script_whose_reason_could_not_be_written_is_explained_from_its_log(tmp_path: Path):
    folder = running.context(tmp_path, **SCRIPT).folder.host("algo-1", 1)
    folder.exit_record.write_text(json.dumps({"exit_code": 1, "signal": None}))
    log = (
        f"{TOOLKIT}Traceback (most recent call last):\n"
        '  File "/opt/ml/code/train.py", line 3, in main\n    fit()\nValueError: no\n'
    )
    text = reported(tmp_path, Exited(1), log=log, **SCRIPT)
    assert text.startswith("ValueError: no, at train.py:3 in main: fit()\n")


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        ("", "The command ended after 0.2 s without an error message"),
        ("sh: 1: foo: not found\n", "The command ended after 0.2 s. Last line: sh: 1: foo: not fo"),
    ],
)
def test_a_command_of_the_job_s_own_is_explained_from_its_log(
    tmp_path: Path, log: str, sentence: str
):
    assert reported(tmp_path, Exited(127, seconds=0.2), log=log).startswith(sentence)


def test_what_the_script_wrote_as_its_reason_is_kept(tmp_path: Path):
    assert reported(tmp_path, Exited(7), failure="no data for 2026") == "no data for 2026"


def test_the_kernel_s_kill_of_a_worker_is_reported_within_the_contract_s_form(tmp_path: Path):
    text = reported(tmp_path, Exited(1, out_of_memory=True), failure=REPORT)
    assert text == REPORT.replace(
        "RuntimeError", "OutOfMemory: the kernel killed a process of the script. RuntimeError"
    )
    assert reported(tmp_path, Exited(1, out_of_memory=True), failure=text) == text


def test_secrets_in_the_log_are_masked(tmp_path: Path):
    text = reported(
        tmp_path,
        Exited(1),
        log="cannot use sk-123456789 at https://me:pw@host/x with hunter2-hunter2\n",
        HyperParameters={"api_key": '"sk-123456789"'},
        Environment={"DB_PASSWORD": "hunter2-hunter2"},
    )
    assert text.endswith("Last line: cannot use *** at https://***@host/x with ***")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_reported_with_what_is_free(tmp_path: Path):
    home = tmp_path / "home"
    home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", home], check=True)
    try:
        text = reported(home, Exited(1), log=f"{TOOLKIT}epoch 1\n", **SCRIPT)
    finally:
        subprocess.run(["umount", "-l", home], check=True)
    first, second = text.splitlines()
    assert first.startswith(f"No space left on device. The disk of {str(home)!r} is full, ")
    assert first.endswith("or set TRACKSIDE_HOME to a folder on a larger disk")
    assert second.endswith("Last line: epoch 1")


def test_the_tail_of_a_log_is_bounded_and_may_be_missing(tmp_path: Path):
    folder = running.context(tmp_path).folder.host("algo-1", 1)
    assert log_tail(folder) == []
    folder.log.write_text("x" * 100_000 + "\nlast\n")
    assert log_tail(folder)[-1] == "last"
    assert len("".join(log_tail(folder))) < 40_000


@pytest.mark.parametrize("num_hosts", [1, 2])
def test_a_reason_of_any_length_is_cut_once_and_at_a_word(tmp_path: Path, num_hosts: int):
    text = reported(tmp_path, Exited(3), failure="a reason of many words, " * 100)
    record = HostRecord(failure=algorithm_error(text, 3))
    shown = failure_reason("algo-1", record, num_hosts)
    assert len(shown) <= REASON_LENGTH
    before, mark, after = shown.partition("…")
    assert (mark, after) == ("…", ", exit code: 3")
    assert before.split()[-1] in {"a", "reason", "of", "many", "words,"}
