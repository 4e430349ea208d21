"""The records that init writes to the sandbox's folder; `process_sandbox.py` reads them.

Runs inside the sandbox's init, so JSON is written by hand: importing json takes ten milliseconds.
"""

import os
import time

from trackside.system import process_table
from trackside.system.process_table import started

_FORMAT = 1
"""Of the records, as in `files/json_record.py`."""
_RESERVED = "exit.json.reserved"
_END_BYTES = 512
_SUPERVISOR_BYTES = 64


def record_start(folder: str, mark: str, pid: int, kind: str, refusals: str) -> None:
    """The identities of init and its command, and the isolation; called by init."""
    me = os.getpid()
    refusals = refusals.replace("\\", "/").replace('"', "'")
    replace(
        f"{folder}/process.json",
        f'{{"format": {_FORMAT}, "mark": "{mark}", "boot_id": "{process_table.boot_id()}",'
        f' "init": {{"pid": {me}, "started": {started(me) or 0}}},'
        f' "command": {{"pid": {pid}, "started": {started(pid) or 0}}},'
        f' "isolation": "{kind}", "refusals": "{refusals}", "started_at": {time.time():.3f}}}\n',
    )


def reserve_end(folder: str) -> None:
    """Allocate the space that `record_end` will need: the disk may be full by then."""
    descriptor = os.open(f"{folder}/{_RESERVED}", os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        _write_all(descriptor, bytes(_END_BYTES))
    finally:
        os.close(descriptor)


def record_end(folder: str, code: int, oom: bool, began_at: float, seconds: float) -> None:
    """Record durably how the command ended. Returns when it is on disk, however long that takes."""
    text = (
        f'{{"format": {_FORMAT}, "code": {code}, "out_of_memory": {"true" if oom else "false"},'
        f' "started_at": {began_at:.3f}, "ended_at": {time.time():.3f},'
        f' "seconds": {seconds:.3f}}}\n'
    )
    while True:
        try:
            return _move_reserved(folder, text.encode())
        except FileNotFoundError:
            return  # the job's folder was removed; nothing will read it
        except OSError:
            time.sleep(1)  # the disk refuses writes: the command's result must not be lost


def write_supervisor(folder: str, pid: int, since: int) -> None:
    """The sandbox's supervisor from now on; `watchdog.py` reads it. Needs space only once."""
    path = f"{folder}/supervisor"
    text = f"{pid} {since}".ljust(_SUPERVISOR_BYTES)
    try:
        descriptor = os.open(path, os.O_WRONLY)
    except FileNotFoundError:
        return replace(path, text)
    try:
        os.pwrite(descriptor, text.encode(), 0)  # far smaller than a block: readers see old or new
    finally:
        os.close(descriptor)


def replace(path: str, text: str) -> None:
    """Like `files/durable.py`, without its imports, and without surviving a power cut."""
    new = f"{path}.{os.getpid()}-{time.monotonic_ns()}.part"
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            _write_all(descriptor, text.encode(errors="surrogateescape"))
        finally:
            os.close(descriptor)
        os.rename(new, path)
    except OSError:
        _remove(new)
        raise


def _move_reserved(folder: str, data: bytes) -> None:
    """Write into the reserved space, then rename it."""
    reserved = f"{folder}/{_RESERVED}"
    descriptor = os.open(reserved, os.O_WRONLY)
    try:
        os.pwrite(descriptor, data, 0)
        os.ftruncate(descriptor, len(data))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(reserved, f"{folder}/exit.json")
    parent = os.open(folder, os.O_RDONLY)
    os.fsync(parent)
    os.close(parent)


def _write_all(descriptor: int, data: bytes) -> None:
    """A disk that becomes full takes a part first, and refuses the rest."""
    while data:
        data = data[os.write(descriptor, data) :]


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
