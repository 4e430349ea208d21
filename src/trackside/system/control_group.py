"""A control group for one custom rule or one script: the kernel counts and limits what all its
processes use together.

Created inside the caller's group, so that it stays within its limits; or next to it, where systemd
has delegated the group above (`Delegate=`). Version 2, or the cpu, memory and pids hierarchies of
version 1.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from trackside.system import job_keepers, process_table
from trackside.system.linux_calls import write

_PROC = "/proc/self"
_SECONDS = 5.0
_PAUSE_SECONDS = 0.01
_SIGKILL = 9
_DELEGATED = ("user.delegate", "trusted.delegate")
_PERIOD = 100_000
"""The CPU quota's period in microseconds."""
_TRIAL_BYTES = 64 << 20


class _Hierarchy(NamedTuple):
    controllers: frozenset[str]
    is_unified: bool
    point: str
    """Where it is mounted."""
    own: str
    """This process's own group in it, as a path."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """Folders of one group: a single one, or one per controller; none if none can be created."""

    memory: str | None = None
    pids: str | None = None
    cpu: str | None = None

    @property
    def folders(self) -> list[str]:
        return list(dict.fromkeys(filter(None, (self.memory, self.pids, self.cpu))))

    def join(self) -> None:
        """Add this process, and those it will start."""
        for folder in self.folders:
            write(f"{folder}/cgroup.procs", "0")

    @property
    def num_killed(self) -> int:
        """Processes killed because the memory limit was reached."""
        files = ("memory.events", "memory.oom_control")
        return sum(_counter(f"{self.memory}/{name}", b"oom_kill") for name in files)

    @property
    def num_refused(self) -> int:
        """Processes and threads refused because there were too many."""
        return _counter(f"{self.pids}/pids.events", b"max")

    def remove(self, *, spares_jobs: bool = False) -> None:
        """Including all its processes. `spares_jobs`: processes of jobs that were submitted from
        inside the group move to our own group."""
        for folder in self.folders:
            _empty(folder, spares_jobs=spares_jobs)


def make(
    name: str,
    memory_bytes: int | None = None,
    num_processes: int | None = None,
    num_cores: int | None = None,
    *,
    proc: str = _PROC,
) -> ControlGroup:
    """As far as the system allows; an existing group of this name is emptied first.

    `proc` is where this process's group and the mounts are read.
    """
    requested = {"memory": memory_bytes, "pids": num_processes, "cpu": num_cores}
    limits = {what: limit for what, limit in requested.items() if limit is not None}
    found: dict[str, str] = {}
    for hierarchy in _hierarchies(proc):
        wanted = [each for each in limits if each in hierarchy.controllers - found.keys()]
        for parent in _parents(hierarchy) if wanted else ():
            with suppress(OSError):
                folder = _made(parent, name, wanted, is_unified=hierarchy.is_unified)
                for each in wanted:
                    _set(f"{folder}/{each}", limits[each], is_unified=hierarchy.is_unified)
                found |= dict.fromkeys(wanted, folder)
                break
    return ControlGroup(found.get("memory"), found.get("pids"), found.get("cpu"))


def can_join(group: ControlGroup) -> bool:
    """Whether a child of this process may join it: determined by trying."""
    for folder in group.folders:
        command = ["/bin/sh", "-c", 'echo 0 > "$0"', f"{folder}/cgroup.procs"]
        if subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode != 0:
            return False
    return True


def enforced() -> ControlGroup:
    """Which of cores and memory the kernel can limit here: tried with a temporary group."""
    name = f"trackside-trial-{os.getpid()}"
    group = make(name, memory_bytes=_TRIAL_BYTES, num_cores=1)
    try:
        return group if can_join(group) else ControlGroup()
    finally:
        group.remove()


def clear(name: str) -> None:
    """Remove a leftover group, and kill its processes."""
    for hierarchy in _hierarchies(_PROC):
        for parent in _parents(hierarchy):
            _empty(f"{parent}/{name}")


def leave(prefix: str) -> None:
    """If this process was started from inside a job's group, whose name begins with `prefix`: join
    the groups of that job's init, which is in no such group. Where that is not allowed it stays.
    """
    if not _is_within(process_table.read("/proc/self/cgroup"), prefix):
        return
    parents = process_table.parents()
    pid = os.getpid()
    while _is_within(process_table.read(f"/proc/{pid}/cgroup"), prefix):
        pid = parents.get(pid, (0, 0))[0]
    if not job_keepers.keeps_job(pid):
        return
    around = _hierarchies(_PROC, process=f"/proc/{pid}")
    for ours, theirs in zip(_hierarchies(_PROC), around, strict=True):
        if _is_within(ours.own.encode(), prefix):
            with suppress(OSError):
                write(f"{theirs.own}/cgroup.procs", "0")


def groups_of(pid: int) -> dict[str, str]:
    """The folders of a process's groups, by controller; `""` is that of version 2, if there is one.
    Empty when the process is gone."""
    if not process_table.read(f"/proc/{pid}/cgroup"):
        return {}
    found: dict[str, str] = {}
    for hierarchy in _hierarchies(_PROC, process=f"/proc/{pid}"):
        found |= dict.fromkeys(hierarchy.controllers, hierarchy.own)
        if hierarchy.is_unified:
            found[""] = hierarchy.own
    return found


def _hierarchies(proc: str, process: str = "") -> Iterator[_Hierarchy]:
    """As `proc` has them mounted, with the groups of `process`, which is the same by default."""
    own = {}
    for line in process_table.read(f"{process or proc}/cgroup").decode().splitlines():
        _, names, path = line.split(":", 2)
        own[names] = path
    for line in process_table.read(f"{proc}/mountinfo").decode(errors="replace").splitlines():
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        kind, _, options = right.split()[:3]
        if kind == "cgroup2":
            inside = _inside(own.get(""), root, point)
            given = process_table.read(f"{inside}/cgroup.controllers").decode().split()
            yield _Hierarchy(frozenset(given), True, point, inside)
        elif kind == "cgroup":
            for names, path in own.items():
                if names and set(names.split(",")) <= set(options.split(",")):
                    controllers = frozenset(names.split(","))
                    yield _Hierarchy(controllers, False, point, _inside(path, root, point))


def _inside(path: str | None, root: str, point: str) -> str:
    """A container may see its own group as the root."""
    below = os.path.relpath(path or "/", root)
    return point if below == "." or below.startswith("..") else f"{point}/{below}"


def _parents(hierarchy: _Hierarchy) -> Iterator[str]:
    yield hierarchy.own
    folder = hierarchy.own
    while hierarchy.is_unified and folder != hierarchy.point:
        folder = os.path.dirname(folder)
        if any(_attribute(folder, name) == b"1" for name in _DELEGATED):
            yield folder
            return


def _attribute(path: str, name: str) -> bytes:
    try:
        return os.getxattr(path, name)
    except OSError:
        return b""


def _made(parent: str, name: str, controllers: list[str], *, is_unified: bool) -> str:
    """`OSError` unless all of these controllers are available."""
    if is_unified:
        given = process_table.read(f"{parent}/cgroup.subtree_control").decode().split()
        for each in controllers:
            if each not in given:  # refused where the group has processes of its own
                write(f"{parent}/cgroup.subtree_control", f"+{each}")
    folder = f"{parent}/{name}"
    _empty(folder)
    os.mkdir(folder)
    return folder


def _set(start: str, limit: int, *, is_unified: bool) -> None:
    """`start` is the folder and the controller: the prefix of all its files."""
    extras: dict[str, str] = {}
    if start.endswith("/pids"):
        write(f"{start}.max", str(limit))
    elif start.endswith("/cpu"):
        quota = limit * _PERIOD
        if is_unified:
            write(f"{start}.max", f"{quota} {_PERIOD}")
        else:
            write(f"{start}.cfs_period_us", str(_PERIOD))
            write(f"{start}.cfs_quota_us", str(quota))
    elif is_unified:
        write(f"{start}.max", str(limit))
        extras = {"swap.max": "0", "oom.group": "1"}
    else:
        write(f"{start}.limit_in_bytes", str(limit))
        extras = {"memsw.limit_in_bytes": str(limit), "swappiness": "0"}
    for name, value in extras.items():
        with suppress(OSError):  # a kernel that does not account for swap
            write(f"{start}.{name}", value)


def _counter(path: str, name: bytes) -> int:
    lines = (line.split() for line in process_table.read(path).splitlines())
    return next((int(line[1]) for line in lines if line[:1] == [name]), 0)


def _is_within(groups: bytes, prefix: str) -> bool:
    return f"/{prefix}".encode() in groups


def _empty(folder: str, *, spares_jobs: bool = False) -> None:
    """Kill all its processes and remove it."""
    deadline = time.monotonic() + _SECONDS
    while os.path.isdir(folder) and time.monotonic() < deadline:
        members = _members(folder)
        spared = job_keepers.keepers_among({*members}) if spares_jobs and members else set()
        for pid in members:
            if pid in spared:
                _take_in(pid, folder)
                continue
            since = process_table.started(pid)
            # The pid may be reused by now; one that is still listed is not.
            if since is not None and pid in _members(folder):
                process_table.signal_exactly(pid, since, _SIGKILL)
        with suppress(OSError):
            os.rmdir(folder)
            return
        time.sleep(_PAUSE_SECONDS)


def _take_in(pid: int, folder: str) -> None:
    """Move a process from a group to our own group of the same hierarchy."""
    for hierarchy in _hierarchies(_PROC):
        if folder.startswith(f"{hierarchy.point}/"):
            with suppress(OSError):  # it has ended
                write(f"{hierarchy.own}/cgroup.procs", str(pid))


def _members(folder: str) -> list[int]:
    return [int(pid) for pid in process_table.read(f"{folder}/cgroup.procs").split()]
