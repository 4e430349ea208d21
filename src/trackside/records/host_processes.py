"""Which processes of a job's hosts are alive, according to their own records.

Only for processes of this machine: the records have pids.
"""

from trackside.files import damaged_files
from trackside.quick_dataclass import dataclass
from trackside.records.attached_process import read_caller
from trackside.records.layout import HostFolder, JobFolder
from trackside.system import process_table, processes
from trackside.system.processes import Identity


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class _Sandbox:
    """What a sandbox's init writes about itself."""

    init: _Process
    boot_id: str


def supervisor_lives(folder: HostFolder) -> bool | None:
    """None when no supervisor has written its record yet."""
    identity = damaged_files.read(Identity, folder.supervisor)
    return None if identity is None else processes.is_alive(identity)


def supervised_hosts(folder: JobFolder) -> set[str]:
    """The hosts of a job that have a living supervisor, of whichever attempt: one continues from
    an attempt into the next."""
    records = map(HostFolder, folder.hosts.glob("*/*"))
    return {record.root.parent.name for record in records if supervisor_lives(record)}


def is_supervised(folder: JobFolder) -> bool:
    """Whether any host of the job has a living supervisor."""
    return bool(supervised_hosts(folder))


def wake_supervisors(folder: JobFolder) -> None:
    """Have them, and the evaluator of the job's rules, read the journal now; one that cannot be
    reached reads it a little later."""
    for record in (*folder.supervisors(), folder.rules.evaluator):
        if (identity := damaged_files.read(Identity, record)) is not None:
            processes.send_signal(identity, process_table.WAKE_SIGNAL)


def script_lives(folder: HostFolder) -> bool:
    """Whether the sandbox's init runs: it outlives the script, and restarts a supervisor. For a
    script that we did not start, whether its process runs."""
    if (caller := read_caller(folder)) is not None:
        return processes.is_alive(caller.process)
    found = damaged_files.read(_Sandbox, folder.sandbox / "process.json")
    if found is None:
        return False
    return processes.is_alive(Identity(found.init.pid, found.init.started, found.boot_id))
