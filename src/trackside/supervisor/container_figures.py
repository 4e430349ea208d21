"""Readings of a container's own counters: its control group's and its network's, not the machine's.

Control groups of version 1, version 2 or both. A container without a limit may use all of the
machine: then the machine's cores and memory are its own.
"""

import math
import time
from collections.abc import Iterator

from trackside.supervisor.machine_reading import TICKS_PER_SECOND, Core, MachineReader
from trackside.system import control_group, process_table

_NANOSECONDS = 1_000_000_000
_MICROSECONDS = 1_000_000


class ContainerReader(MachineReader):
    """`root_pid` is the container's first process. Counters stay as they were when it has ended."""

    def __init__(self, root_pid: int) -> None:
        super().__init__(root_pid)
        self._group = control_group.groups_of(root_pid)
        self._quota = self._find_quota()
        self._usage_of = f"/proc/{root_pid}/net/dev"
        self._last: dict[str, bytes] = {}

    def _read(self, controller: str, name: str) -> bytes:
        folder = self._group.get(controller)
        return self._keep(f"{folder}/{name}") if folder else b""

    def _keep(self, path: str) -> bytes:
        """The file; the last content once it is gone."""
        found = process_table.read(path) or self._last.get(path, b"")
        self._last[path] = found
        return found

    def _find_quota(self) -> float:
        """How many cores it may use; infinite without a limit."""
        limit, _, period = process_table.read(f"{self._group.get('cpu')}/cpu.max").partition(b" ")
        if not limit:
            folder = self._group.get("cpu")
            limit = process_table.read(f"{folder}/cpu.cfs_quota_us").strip()
            period = process_table.read(f"{folder}/cpu.cfs_period_us")
        is_limited = limit.isdigit() and int(limit) > 0 and period.strip().isdigit()
        return int(limit) / int(period) if is_limited else math.inf

    def _cores(self) -> Iterator[Core]:
        """One for each that it may use. Where only the sum is known, or the container moves between
        cores because of its limit, each has an equal part."""
        machine = list(super()._cores())
        now = time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS_PER_SECOND
        each = self._read("cpuacct", "cpuacct.usage_percpu").split()
        waiting = [core.waiting for core in machine]
        if len(each) >= len(machine) and self._quota >= len(machine):
            for nanoseconds, waited in zip(each, waiting, strict=False):
                yield Core(int(nanoseconds) * TICKS_PER_SECOND // _NANOSECONDS, waited, int(now))
            return
        allowed = min(self._quota, float(len(machine)))
        num_cores = math.ceil(allowed)
        busy = self._busy_seconds(each) * TICKS_PER_SECOND / num_cores
        for waited in waiting[:num_cores]:
            yield Core(int(busy), waited, int(now * allowed / num_cores))

    def _busy_seconds(self, each: list[bytes]) -> float:
        if each:
            return sum(map(int, each)) / _NANOSECONDS
        counters = _pairs(self._read("cpu", "cpu.stat") or self._read("", "cpu.stat"))
        return counters.get(b"usage_usec", 0) / _MICROSECONDS

    def _memory(self) -> tuple[int, int, int]:
        whole, available, _ = super()._memory()
        counters = _pairs(self._read("memory", "memory.stat"))
        used = self._read("memory", "memory.current")
        is_unified = bool(used)
        used = used or self._read("memory", "memory.usage_in_bytes")
        if not used:
            return whole, available, 0
        limit = self._read("memory", "memory.max" if is_unified else "memory.limit_in_bytes")
        total = min(whole, int(limit)) if limit.strip().isdigit() else whole
        # As for a machine, what the kernel can drop at once is not used.
        cached = counters.get(b"inactive_file" if is_unified else b"total_inactive_file", 0)
        swap = self._read("memory", "memory.swap.current").strip()
        swapped = int(swap) if swap.isdigit() else counters.get(b"total_swap", 0)
        return total, max(0, total - max(0, int(used) - cached)), swapped

    def _disk(self) -> tuple[int, int]:
        unified = self._read("io", "io.stat")
        if unified or "io" in self._group:
            fields = [field.partition(b"=") for field in unified.split()]
            totals = {b"rbytes": 0, b"wbytes": 0}
            for name, _, value in fields:
                if name in totals:
                    totals[name] += int(value)
            return totals[b"rbytes"], totals[b"wbytes"]
        lines = self._read("blkio", "blkio.throttle.io_service_bytes").splitlines()
        words = [line.split() for line in lines]
        counted = {kind: sum(int(each[2]) for each in words if each[1:2] == [kind]) for kind in _IO}
        return counted[b"Read"], counted[b"Write"]

    def _network(self) -> tuple[int, int]:
        received = sent = 0
        for line in self._keep(self._usage_of).splitlines()[2:]:
            name, _, counters = line.partition(b":")
            if name.strip() != b"lo":
                fields = counters.split()
                received += int(fields[0])
                sent += int(fields[8])
        return received, sent


_IO = (b"Read", b"Write")


def _pairs(text: bytes) -> dict[bytes, int]:
    """Lines of a name and a number."""
    return {words[0]: int(words[1]) for line in text.splitlines() if len(words := line.split()) > 1}
