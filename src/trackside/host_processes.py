"""Which processes of one host of a job are alive, by what they wrote about themselves.

Only for processes of this machine: their records hold pids.
"""

from trackside import durable, processes
from trackside.layout import HostFolder
from trackside.processes import Identity


def supervisor_lives(folder: HostFolder) -> bool | None:
    """None when no supervisor has written who it is yet."""
    record = durable.read_json(folder.supervisor)
    return None if record is None else processes.is_alive(Identity.from_record(record))


def script_lives(folder: HostFolder) -> bool:
    """Whether the sandbox's init runs: it outlives the script, and starts a supervisor again."""
    record = durable.read_json(folder.sandbox / "process.json")
    if record is None:
        return False
    identity = Identity.from_record({**record["init"], "boot_id": record["boot_id"]})
    return processes.is_alive(identity)
