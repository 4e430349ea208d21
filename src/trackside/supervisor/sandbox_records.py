"""The records init leaves in the sandbox's folder; `process_sandbox.py` reads them.

Runs inside the sandbox's init, so JSON is written by hand: json itself takes ten milliseconds.
"""

import os
import time

from trackside import process_table
from trackside.process_table import started


def record_start(folder: str, mark: str, pid: int, kind: str, refusals: str) -> None:
    """Who init and its command are, and in which isolation; init calls this."""
    me = os.getpid()
    refusals = refusals.replace("\\", "/").replace('"', "'")
    replace(
        f"{folder}/process.json",
        f'{{"mark": "{mark}", "boot_id": "{process_table.boot_id()}",'
        f' "init": {{"pid": {me}, "started": {started(me) or 0}}},'
        f' "command": {{"pid": {pid}, "started": {started(pid) or 0}}},'
        f' "isolation": "{kind}", "refusals": "{refusals}", "started_at": {time.time():.3f}}}\n',
    )


def record_end(folder: str, code: int, oom: bool, began_at: float, seconds: float) -> None:
    """How the command ended, for good. Returns when it is on disk, however long that takes."""
    text = (
        f'{{"code": {code}, "out_of_memory": {"true" if oom else "false"},'
        f' "started_at": {began_at:.3f}, "ended_at": {time.time():.3f},'
        f' "seconds": {seconds:.3f}}}\n'
    )
    while True:
        try:
            return replace(f"{folder}/exit.json", text, durable=True)
        except FileNotFoundError:
            return  # the job's folder was removed; nobody will ask
        except OSError:
            time.sleep(1)  # a full disk: what the command did must not be lost for that


def replace(path: str, text: str, *, durable: bool = False) -> None:
    """What `durable.py` does, without its imports; lasting beyond a power cut only if asked."""
    new = f"{path}.{os.getpid()}-{time.monotonic_ns()}.part"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(descriptor, text.encode(errors="surrogateescape"))
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(new, path)
    if durable:
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
