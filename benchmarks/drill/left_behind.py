"""The processes that work in a folder of the drill's: found by what they carry, ended by pid and
start time, so that no other process of the machine is ever signalled."""

import os
import time
from pathlib import Path

from trackside.records.layout import JobFolder, sandbox_nonce
from trackside.records.placed import Placed
from trackside.system import process_table, processes
from trackside.system.processes import Identity

_PATIENCE_SECONDS = 20.0


def processes_of(folder: Path) -> list[Identity]:
    """Those whose command line or environment names the folder, and all in sandboxes of its jobs.

    The asking process and its ancestors are left out.
    """
    named = os.fsencode(folder)
    spared = _ancestors()
    boot = process_table.boot_id()
    found = {}
    for pid in process_table.pids():
        since = process_table.started(pid)
        if since is None or pid in spared:
            continue
        texts = (process_table.read(f"/proc/{pid}/{name}") for name in ("cmdline", "environ"))
        if any(_names(text, named) for text in texts):
            found[pid] = Identity(pid, since, boot)
    for nonce in _nonces(folder):
        found.update({each.pid: each for each in processes.carriers(nonce)})
    return [identity for pid, identity in found.items() if pid not in spared]


def end_processes_of(folder: Path) -> list[str]:
    """SIGKILL, until there are none, for one may just be starting another. What could not be ended,
    as "pid command"."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (left := processes_of(folder)) and time.monotonic() < deadline:
        for identity in left:
            processes.send_signal(identity, 9)
        time.sleep(0.02)
    return [described(identity.pid) for identity in left]


def described(pid: int) -> str:
    command = process_table.read(f"/proc/{pid}/cmdline").replace(b"\0", b" ")
    return f"{pid} {command.decode(errors='replace').strip()[:200]}"


def _names(text: bytes, folder: bytes) -> bool:
    """The folder itself or something in it, and not another whose name begins alike."""
    start = text.find(folder)
    while start >= 0:
        following = text[start + len(folder) : start + len(folder) + 1]
        if following in (b"", b"\0", b"/", b":", b"'", b'"'):
            return True
        start = text.find(folder, start + 1)
    return False


def _ancestors() -> set[int]:
    table = process_table.parents()
    found, pid = {os.getpid()}, os.getpid()
    while pid in table and table[pid][0] > 0:
        pid = table[pid][0]
        found.add(pid)
    return found


def _nonces(folder: Path) -> list[str]:
    """Of every sandbox that a job below the folder has had."""
    found = []
    for path in folder.glob("**/jobs/*/hosts/*/*"):
        job = JobFolder(path.parents[2])
        placed = Placed.read(job)
        host = placed.hosts.get(path.parent.name) if placed is not None else None
        if host is not None and path.name.isdigit():
            found.append(sandbox_nonce(host.nonce, int(path.name)))
    return found
