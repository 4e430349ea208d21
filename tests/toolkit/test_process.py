"""Streams and signals, with real processes."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.toolkit.conftest import TRAIN, Host, needs, needs_root
from tests.wait import until

SAVES_ON_SIGTERM = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(os.environ["SM_MODEL_DIR"])
def save(number, frame):
    with open(folder / "signals", "a") as file:
        print(number, file=file)
    time.sleep(0.5)
    (folder / "saved").write_text(str(number))
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
signal.signal(signal.SIGINT, save)
(folder / "ready").touch()
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_reaches_the_script_which_ends_in_peace(host: Host, number: signal.Signals):
    host.script(SAVES_ON_SIGTERM)
    process = host.start(stderr=subprocess.DEVNULL)
    until((host.base / "model" / "ready").exists)
    process.send_signal(number)
    assert process.wait() == 0
    assert (host.base / "model" / "saved").read_text() == str(int(number))
    assert (host.output / "success").exists()


def test_a_script_below_a_shell_is_waited_for_when_the_shell_dies_first(host: Host):
    host.script(SAVES_ON_SIGTERM)
    host.script(f"{TRAIN[0]} train.py\nexit $?\n", "train.sh")
    process = host.start(stderr=subprocess.DEVNULL, SAGEMAKER_PROGRAM="train.sh")
    until((host.base / "model" / "ready").exists)
    process.terminate()
    process.wait()
    assert (host.base / "model" / "saved").exists()
    assert (host.base / "model" / "signals").read_text() == "15\n", "told once, then left in peace"


def test_a_script_without_a_handler_is_reported_with_its_signal(host: Host):
    host.script(
        "import os, time\nopen(os.environ['SM_MODEL_DIR'] + '/ready', 'w')\ntime.sleep(600)\n"
    )
    process = host.start(stderr=subprocess.DEVNULL)
    until((host.base / "model" / "ready").exists)
    process.terminate()
    assert process.wait() == 1
    assert host.failure.startswith("ExecuteUserScriptError:\nExitCode -15\n")


def test_processes_left_behind_are_ended_after_the_script(host: Host):
    host.script("sleep 300 &\necho $! > $SM_MODEL_DIR/pid\n", "train.sh")
    finished = host.train(SAGEMAKER_PROGRAM="train.sh")
    assert finished.code == 0
    left = int((host.base / "model" / "pid").read_text())
    until(lambda: not is_running(left))
    assert "left processes running" in finished.log


def test_a_stop_during_an_installation_ends_the_job_before_the_script(host: Host):
    host.script("raise SystemExit('must not run')")
    (host.code / "setup.py").write_text(
        "import pathlib, time\n"
        f"pathlib.Path({str(host.base / 'installing')!r}).touch()\n"
        "time.sleep(600)\n"
    )
    process = host.start(
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        PIP_NO_BUILD_ISOLATION="0",
        TRACKSIDE_OVERLAYS=str(host.base / "overlays"),
    )
    until((host.base / "installing").exists)
    process.terminate()
    assert process.wait() == 1
    assert "Stopped by SIGTERM before the script was started" in host.failure


def test_as_process_1_it_collects_orphans_and_passes_signals_on(host: Host):
    needs("unshare", "unshare")
    needs_root()
    host.script(
        "import os, subprocess, sys\n"
        # Its child ends, the grandchild outlives it and becomes an orphan of process 1.
        "subprocess.run(['sh', '-c', 'setsid sh -c \"exit 0\" & setsid sleep 0.2 & exit 0'])\n"
        + SAVES_ON_SIGTERM.replace("time.sleep(600)", "")
        + "\nwhile {int(p) for p in os.listdir('/proc') if p.isdigit()} != {1, os.getpid()}:\n"
        "    time.sleep(0.01)\n"
        "(folder / 'alone').touch()\n"
        "time.sleep(600)\n"
    )
    unshare = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *TRAIN)
    process = host.start(unshare, stderr=subprocess.DEVNULL)
    until((host.base / "model" / "alone").exists)
    subprocess.run(["pkill", "-TERM", "-P", str(process.pid)], check=True)
    assert process.wait() == 0
    assert (host.base / "model" / "saved").exists()


EVERY_BYTE = bytes(range(256)) * 512 + b"no newline at the end"


def test_both_streams_pass_byte_for_byte_through_pipes(host: Host):
    host.script(
        "import os, sys\n"
        "data = bytes(range(256)) * 512 + b'no newline at the end'\n"
        "sys.stdout.buffer.write(data); sys.stderr.buffer.write(data)\n"
    )
    finished = host.train()
    assert finished.stdout == EVERY_BYTE
    assert EVERY_BYTE in finished.stderr


def test_both_streams_share_one_log_file_in_order(host: Host, tmp_path: Path):
    host.script(
        "import sys\n"
        "for number in range(200):\n"
        "    print('out', number); print('err', number, file=sys.stderr)\n"
        "raise ValueError('at the end')\n"
    )
    log = tmp_path / "log"
    log.write_text("earlier job: Traceback (most recent call last):\nKeyError: 'not mine'\n")
    with log.open("ab") as file:
        assert host.start(stdout=file, stderr=file).wait() == 1
    lines = [line for line in log.read_text().splitlines() if line.startswith(("out ", "err "))]
    assert lines == [f"{name} {number}" for number in range(200) for name in ("out", "err")]
    assert "ValueError: at the end" in host.failure
    assert "not mine" not in host.failure


def test_standard_error_is_passed_on_at_once(host: Host):
    host.script(
        "import os, sys, time\n"
        "sys.stderr.write('half a line'); sys.stderr.flush()\n"
        "while not os.path.exists(os.environ['SM_MODEL_DIR'] + '/seen'): time.sleep(0.01)\n"
    )
    process = host.start(stderr=subprocess.PIPE)
    assert process.stderr is not None
    read = b""
    while b"half a line" not in read:
        read += os.read(process.stderr.fileno(), 4096)
    (host.base / "model" / "seen").touch()
    assert process.wait() == 0
    process.stderr.close()


def test_a_log_reader_that_went_away_does_not_stop_the_script(host: Host):
    host.script(
        "import os, sys\n"
        "for number in range(5000): sys.stderr.write('x' * 100 + '\\n')\n"
        "open(os.environ['SM_MODEL_DIR'] + '/done', 'w')\n"
    )
    process = host.start(stderr=subprocess.PIPE)
    assert process.stderr is not None
    process.stderr.close()
    assert process.wait() == 0
    assert (host.base / "model" / "done").exists()


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
