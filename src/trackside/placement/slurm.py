"""Groups of supervisors as Slurm's jobs: one allocation, and in it a step for each host."""

import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Thread
from typing import ClassVar

from trackside.placement.machine_sizes import MachineSize, asked_of_each, never_fits
from trackside.placement.placement import (
    EndCause,
    Ended,
    Exited,
    Gone,
    Group,
    Handle,
    Lost,
    Pending,
    Placement,
    PlacementAway,
    Poll,
    Running,
    Unknown,
)
from trackside.placement.slurm_commands import (
    SlurmAway,
    SlurmCommands,
    SlurmError,
    SlurmJob,
)
from trackside.placement.slurm_options import (
    PROLOG,
    sbatch_options,
    step_options,
    wrong_options,
)
from trackside.placement.slurm_script import NO_PYTHON, batch_script, passed_on
from trackside.quick_dataclass import dataclass
from trackside.settings import environment

_PENDING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"}
_RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"}
_LOST = {
    "NODE_FAIL": "Slurm lost a node of it (NODE_FAIL)",
    "BOOT_FAIL": "a node of it did not boot (BOOT_FAIL)",
    "PREEMPTED": "Slurm gave its nodes to another job (PREEMPTED)",
    "REVOKED": "another cluster runs it (REVOKED)",
}
_TAKEN = ("PREEMPTED", "REVOKED")
_ENDED = {
    "CANCELLED": (EndCause.CANCELLED, "it was cancelled in Slurm (CANCELLED)"),
    "TIMEOUT": (EndCause.TIME_LIMIT, "Slurm's time limit was reached (TIMEOUT)"),
    "DEADLINE": (EndCause.TIME_LIMIT, "Slurm's deadline was reached (DEADLINE)"),
    "OUT_OF_MEMORY": (EndCause.OUT_OF_MEMORY, "Slurm's memory limit was reached (OUT_OF_MEMORY)"),
}
_NO_MEMORY = 1
"""What nodes have, in MB, where the configuration does not say it: any --mem is refused there."""
_NODE = "%P|%c|%m|%G"
_GPUS = re.compile(r"gpu:(?:[^,:()]+:)?(\d+)")
_PARTITION = "%P|%a|%l|%F|%c|%m|%G"
_KILL_SECONDS = 2.0
_PAUSE_SECONDS = 0.1
_OVER = ("Invalid job id", "already completing or completed")
"""What `scancel` says of a job that has ended."""


class SlurmPlacement(Placement):
    name: ClassVar[str] = "slurm"
    shares_files: ClassVar[bool] = False
    schedules: ClassVar[bool] = True
    takes_address: ClassVar[bool] = True

    def __init__(self, where: str = "") -> None:
        super().__init__(where)
        self._slurm = SlurmCommands(where)

    @classmethod
    def is_here(cls) -> bool:
        return shutil.which("sbatch") is not None

    @classmethod
    def wrong_options(cls, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        return wrong_options(options)

    def expect(self) -> None:
        Thread(target=self._look_at_nodes, daemon=True).start()

    def start(self, group: Group) -> Handle:
        try:
            said = self._submit(group, self._size(group))
        except SlurmAway as error:
            raise PlacementAway(str(error)) from error
        self._slurm.forget()
        number, _, _ = said.strip().partition(";")
        if not number.isdigit():
            raise ValueError(f"sbatch printed {said.strip()!r} and no job's number")
        return {"job": number, "hosts": [host.name for host in group.hosts]}

    def poll(self, handle: Handle) -> dict[str, Poll]:
        hosts = _hosts(handle)
        if not hosts:
            return {}
        try:
            job = self._slurm.jobs().get(str(handle["job"]))
        except (SlurmAway, SlurmError) as error:
            return dict.fromkeys(hosts, Unknown(str(error)))
        return {host: _state(job, host) for host in hosts}

    def addresses(self, handle: Handle) -> dict[str, str]:
        hosts = _hosts(handle)
        try:
            job = self._slurm.jobs().get(str(handle.get("job")))
            if job is None or not job.nodes:
                return {}
            nodes = self._slurm.run("scontrol", "show", "hostnames", job.nodes).split()
            found = [self._address(node) for node in nodes]
        except (SlurmAway, SlurmError):
            return {}
        return dict(zip(hosts, found, strict=False))

    def interface(self, handle: Handle) -> str:
        return ""

    def offers(self) -> list[str]:
        try:
            lines = self._slurm.run("sinfo", "-h", "-o", _PARTITION).splitlines()
        except SlurmAway as error:
            raise PlacementAway(str(error)) from error
        return [*map(_partition, lines)]

    def stop(self, handle: Handle, *, host: str | None = None, force: bool = False) -> None:
        if not (hosts := _hosts(handle)):
            return
        number = str(handle["job"])
        self._signal(number, hosts if host is None else [host], "KILL" if force else "TERM")
        if host is None and force:
            self._wait_for_steps(number, hosts)
            self._cancel(number)
        self._slurm.forget()

    def _submit(self, group: Group, each: MachineSize) -> str:
        prolog = group.options.get(PROLOG, "")
        script = batch_script(group, self._pythons(), step_options(each), prolog)
        words = ["sbatch", "--parsable", *sbatch_options(group, each)]
        return self._slurm.run(*words, given=script, environment=passed_on(environment()))

    def _size(self, group: Group) -> MachineSize:
        """What each host gets. `ValueError` for what no node can ever give; among several
        partitions, Slurm chooses itself."""
        asked = asked_of_each(group.hosts)
        lines = self._slurm.nodes(_NODE)
        named = group.options.get("partition", "")
        nodes = [node for node in map(_node, lines) if node is not None and node.is_in(named)]
        if not nodes:
            return asked
        where = f"the partition {nodes[0].partition.rstrip('*')!r}"
        sizes = [node.size for node in nodes]
        if problem := never_fits(asked, len(group.hosts), sizes, where):
            raise ValueError(problem)
        is_counted = any(size.memory_gb for size in sizes)
        return asked if is_counted else replace(asked, memory_gb=0.0)

    def _look_at_nodes(self) -> None:
        with suppress(SlurmAway, SlurmError):  # `start` says so
            self._slurm.nodes(_NODE)

    def _signal(self, number: str, hosts: Sequence[str], signal: str) -> None:
        """To steps: a job as a whole that is to be killed gets SIGTERM first, whatever is asked."""
        steps = self._steps(number)
        if found := [steps[host] for host in hosts if host in steps]:
            self._cancel(f"--signal={signal}", *found)

    def _wait_for_steps(self, number: str, hosts: Sequence[str]) -> None:
        """Not for long: on a node that is away, none of them ends."""
        deadline = time.monotonic() + _KILL_SECONDS
        while not self._steps(number).keys().isdisjoint(hosts) and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)

    def _steps(self, number: str) -> dict[str, str]:
        try:
            return self._slurm.steps(number)
        except SlurmError:  # it is over
            return {}
        except SlurmAway as error:
            raise PlacementAway(str(error)) from error

    def _cancel(self, *words: str) -> None:
        try:
            self._slurm.run("scancel", *words)
        except SlurmAway as error:
            raise PlacementAway(str(error)) from error
        except SlurmError as error:
            if not any(part in str(error) for part in _OVER):
                raise PlacementAway(f"scancel: {error}") from error

    def _pythons(self) -> list[str]:
        """Those that may have Trackside on a node, the likeliest first."""
        own = [sys.executable] if not self.where else []
        return [*own, "python3", "python"]

    def _address(self, node: str) -> str:
        line = self._slurm.run("scontrol", "show", "node", "--oneliner", node)
        words = dict(word.partition("=")[::2] for word in line.split())
        return words.get("NodeAddr", node)


def _partition(line: str) -> str:
    name, state, limit, nodes, cores, memory, gres = [*line.split("|"), *7 * [""]][:7]
    _, idle, _, total = [*nodes.split("/"), *4 * ["?"]][:4]
    gigabytes = int(memory.rstrip("+")) // 1024 if memory.rstrip("+").isdigit() else "?"
    each = f"{cores} cores, {gigabytes} GB" + (f", {gres}" if gres not in ("", "(null)") else "")
    is_down = "" if state == "up" else f", {state}"
    return f"partition {name}: {idle} of {total} nodes free, each {each}; time {limit}{is_down}"


@dataclass(frozen=True, slots=True)
class _Node:
    """As it is configured, whether it is up or not."""

    partition: str
    """The default one has a star behind it."""
    size: MachineSize

    def is_in(self, partition: str) -> bool:
        return self.partition.rstrip("*") == partition if partition else "*" in self.partition


def _node(line: str) -> _Node | None:
    """None where Slurm does not say it in numbers: then Slurm decides."""
    name, cores, memory, gres = [*line.split("|"), *4 * [""]][:4]
    if not (cores.isdigit() and memory.isdigit()):
        return None
    gpus = sum(int(count) for count in _GPUS.findall(gres))
    megabytes = int(memory) if int(memory) > _NO_MEMORY else 0
    return _Node(name, MachineSize(gpus, int(cores), megabytes / 1024))


def _hosts(handle: Handle) -> list[str]:
    hosts = handle.get("hosts")
    return [*map(str, hosts)] if isinstance(hosts, list) and "job" in handle else []


def _state(job: SlurmJob | None, host: str) -> Poll:
    if job is None:  # a controller forgets only jobs that have ended
        return Exited(None, "Slurm does not know it any more", Gone.ENGINE)
    if job.state in _PENDING:
        return Pending(_why_pending(job))
    if job.state in _RUNNING:
        return _exited(job.ended[host]) if host in job.ended else Running()
    if job.state in _LOST:
        return Lost(_LOST[job.state], Gone.TAKEN if job.state in _TAKEN else Gone.MACHINE)
    if job.state in _ENDED:
        return Ended(*_ENDED[job.state])
    if host in job.ended:
        return _exited(job.ended[host])
    return Exited(None, f"its Slurm job is over: {job.state}, {job.reason}")


def _exited(code: int) -> Exited:
    why = "its node has no interpreter with Trackside; see --python" if code == NO_PYTHON else ""
    return Exited(code, why)


def _why_pending(job: SlurmJob) -> str:
    return job.reason if job.state == "PENDING" else f"{job.state}, {job.reason}"
