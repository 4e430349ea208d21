"""Keeps the supervisor of a host on a machine whose engine does not: `python -m
trackside.placement.keep_host FOLDER`.

It leaves its caller behind, starts what `start.json` in the folder says, again if that is killed,
and writes `exit.json` when it has ended. `--kill FOLDER` ends everything that runs for the host.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from trackside.files import damaged_files, durable
from trackside.records.layout import Home
from trackside.system import process_table, processes
from trackside.system.processes import Identity

START, EXIT, KEEPER, SUPERVISOR, LOG = (
    "start.json",
    "exit.json",
    "keeper.json",
    "supervisor.json",
    "log",
)
"""Files of the folder; `ray_host.py`, which imports nothing of ours, has the same names."""
_TRIES = 20
_KILL_SECONDS = 5.0
_PAUSE_SECONDS = 0.05
_LEAVE = ("-P", "-m", "trackside.supervisor", "--leave")


def main(arguments: list[str]) -> int:
    folder = Path(arguments[-1])
    if arguments[0] == "--kill":
        _kill(folder)
    elif os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            _keep(folder)
        os._exit(0)
    return 0


def _keep(folder: Path) -> None:
    log = os.open(folder / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    with (folder / "keeper.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        durable.write_json(folder / KEEPER, asdict(processes.myself()))
        if not (folder / EXIT).exists():
            _supervise(folder)


def _supervise(folder: Path) -> None:
    command = json.loads((folder / START).read_text())["command"]
    code = -signal.SIGKILL
    for _ in range(_TRIES):
        process = subprocess.Popen([sys.executable, *command], start_new_session=True)
        identity = processes.identify(process.pid)
        if identity is not None:
            durable.write_json(folder / SUPERVISOR, asdict(identity))
        code = process.wait()
        if code >= 0:
            break
    if code == 0:
        subprocess.run([sys.executable, *_LEAVE], check=False)
    durable.write_json(folder / EXIT, {"code": code})


def _kill(folder: Path) -> None:
    """The one that starts others first; then the script, which has marks of its own."""
    for name in (KEEPER, SUPERVISOR):
        with suppress(TypeError, ValueError):
            identity = Identity.from_record(damaged_files.read_object(folder / name) or {})
            processes.send_signal(identity, signal.SIGKILL)
    home = folder / "home"
    for intent in Home(home).jobs.glob("*/hosts/*/*/sandbox/intent.json"):
        mark = (damaged_files.read_object(intent) or {}).get("mark")
        if isinstance(mark, str):
            processes.sweep(mark)
    _sweep_home(home)


def _sweep_home(home: Path) -> None:
    """Also the evaluator, and supervisors that a sandbox has started again."""
    mine = b"\0" + os.fsencode(f"TRACKSIDE_HOME={home}") + b"\0"
    deadline = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < deadline:
        found = [
            identity
            for pid in process_table.pids()
            if pid != os.getpid() and mine in b"\0" + process_table.read(f"/proc/{pid}/environ")
            if (identity := processes.identify(pid)) is not None
        ]
        if not found:
            return
        for identity in found:
            processes.send_signal(identity, signal.SIGKILL)
        time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
