"""One reading of this machine's counters and of one process tree's, from /proc and NVML.

Counters only, as the kernel has them; `machine_figures.py` computes figures from two readings.
"""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import FileIO

from trackside.supervisor.gpus import Gpu, Gpus
from trackside.system import process_table

SECTOR_BYTES = 512
"""The unit of /proc/diskstats, whatever the disk's sector size."""
SCAN_SHARE = 0.001
"""Maximum share of a CPU for searching the whole process table for new processes, …"""
FIRST_SECONDS = 15.0
FIRST_PAUSE_SECONDS = 0.5
"""… except at the beginning, when the script starts its processes: then at each such interval."""
IDLE_FACTOR = 10.0
"""Factor for the pauses while the script's processes use no CPU time."""
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Core:
    """Clock ticks since boot."""

    busy: int
    waiting: int
    """Idle, with a process of this core waiting for a disk."""
    total: int


@dataclass(frozen=True, slots=True)
class Process:
    started: int
    """In clock ticks since boot."""
    ticks: int
    """CPU time, also of its children that have ended and were waited for."""
    memory_bytes: int
    num_threads: int


@dataclass(frozen=True, slots=True)
class Reading:
    clock: float
    """Monotonic seconds."""
    uptime_ticks: float
    cores: tuple[Core, ...]
    memory_bytes: int
    memory_available_bytes: int
    swap_used_bytes: int
    disk_read_bytes: int
    disk_written_bytes: int
    received_bytes: int
    sent_bytes: int
    script: Mapping[int, Process]
    gpus: tuple[Gpu, ...]


class MachineReader:
    """Keeps the files of /proc open. One thread at a time."""

    def __init__(self, root_pid: int) -> None:
        """`root_pid` is the process whose descendants, itself included, are the script's."""
        self._stat = FileIO("/proc/stat")
        self._meminfo = FileIO("/proc/meminfo")
        self._diskstats = FileIO("/proc/diskstats")
        self._net = FileIO("/proc/net/dev")
        self._disks = frozenset(_with_device("/sys/block"))
        self._interfaces = frozenset(_with_device("/sys/class/net"))
        self._tree = _ProcessTree(root_pid)
        self._gpus = Gpus.found()

    def read(self) -> Reading:
        total, available, swap = self._memory()
        disk_read, disk_written = self._disk()
        received, sent = self._network()
        return Reading(
            clock=time.monotonic(),
            uptime_ticks=time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS_PER_SECOND,
            cores=tuple(self._cores()),
            memory_bytes=total,
            memory_available_bytes=available,
            swap_used_bytes=swap,
            disk_read_bytes=disk_read,
            disk_written_bytes=disk_written,
            received_bytes=received,
            sent_bytes=sent,
            script=self._tree.read(),
            gpus=self._gpus.read(),
        )

    def close(self) -> None:
        for file in (self._stat, self._meminfo, self._diskstats, self._net):
            file.close()
        self._gpus.close()

    def _cores(self) -> Iterator[Core]:
        """One per online CPU; the file's first line is their sum."""
        self._stat.seek(0)
        for line in self._stat.readall().partition(b"\nintr")[0].split(b"\n")[1:]:
            # user nice system idle iowait irq softirq steal; guest time is in user already.
            ticks = [int(field) for field in line.split()[1:9]]
            total = sum(ticks)
            yield Core(total - ticks[3] - ticks[4], ticks[4], total)

    def _memory(self) -> tuple[int, int, int]:
        self._meminfo.seek(0)
        lines = (line.split() for line in self._meminfo.readall().splitlines())
        kib = {line[0]: int(line[1]) for line in lines}
        total = kib[b"MemTotal:"]
        swap = kib.get(b"SwapTotal:", 0) - kib.get(b"SwapFree:", 0)
        return total << 10, kib.get(b"MemAvailable:", total) << 10, swap << 10

    def _disk(self) -> tuple[int, int]:
        """Of whole disks: partitions, loops and mapped devices would count a byte again."""
        self._diskstats.seek(0)
        read = written = 0
        for line in self._diskstats.readall().splitlines():
            fields = line.split()
            if fields[2] in self._disks:
                read += int(fields[5])
                written += int(fields[9])
        return read * SECTOR_BYTES, written * SECTOR_BYTES

    def _network(self) -> tuple[int, int]:
        """Of physical interfaces; without any, as in a container, of everything but loopback."""
        self._net.seek(0)
        received = sent = 0
        for line in self._net.readall().splitlines()[2:]:
            name, _, counters = line.partition(b":")
            name = name.strip()
            if name in self._interfaces if self._interfaces else name != b"lo":
                fields = counters.split()
                received += int(fields[0])
                sent += int(fields[8])
        return received, sent


class _ProcessTree:
    """A process and its descendants. The whole table is searched only from time to time."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._pids: list[int] = [root]
        self._began = time.monotonic()
        self._scanned = self._pause = 0.0
        self._newest = b""
        """The newest process of this machine at the last scan."""
        self._ticks = self._ticks_at_scan = -1

    def read(self) -> dict[int, Process]:
        now = time.monotonic()
        if self._is_due(now):
            self._scan(now)
        seen = {pid: process for pid in self._pids if (process := _process(pid)) is not None}
        self._pids = list(seen)
        self._ticks = sum(process.ticks for process in seen.values())
        return seen

    def _is_due(self, now: float) -> bool:
        is_idle = self._ticks == self._ticks_at_scan and now - self._began >= FIRST_SECONDS
        if now < self._scanned + self._pause * (IDLE_FACTOR if is_idle else 1.0):
            return False
        newest = _newest_process()
        return not newest or newest != self._newest

    def _scan(self, now: float) -> None:
        began = time.thread_time()  # CPU time, not wall time: other processes' load must not count
        self._newest = _newest_process()  # first: one that starts meanwhile is found the next time
        # We may be a descendant ourselves: a revived supervisor is a child of the sandbox.
        found = process_table.descendants(self._root, without=os.getpid())
        self._pids = [self._root, *found]
        pause = (time.thread_time() - began) / SCAN_SHARE
        is_first = now - self._began < FIRST_SECONDS
        self._pause = min(pause, FIRST_PAUSE_SECONDS) if is_first else pause
        self._scanned, self._ticks_at_scan = now, self._ticks


def _newest_process() -> bytes:
    """The pid assigned last on this machine; empty if the kernel does not report it."""
    return process_table.read("/proc/loadavg").rpartition(b" ")[2]


def _process(pid: int) -> Process | None:
    # The command's name, in brackets, may itself hold blanks and brackets.
    fields = process_table.read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if not fields:
        return None
    ticks = sum(int(field) for field in fields[11:15])
    return Process(int(fields[19]), ticks, int(fields[21]) * PAGE_BYTES, int(fields[17]))


def _with_device(folder: str) -> Iterator[bytes]:
    """Entries of hardware, or of virtual hardware."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if os.path.exists(f"{folder}/{name}/device"):
            yield name.encode()
