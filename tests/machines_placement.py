"""A placement on the machines of `tests/machines.py`: each group gets machines that no other had.

It works in every process of the test that has MACHINES, the folder of the network, in its
environment. A handle has what was started, by host.
"""

import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import psutil

from tests.machines import HOME, INSIDE, USER_HOME, entered
from trackside.files import durable
from trackside.placement.local import start_detached
from trackside.placement.placement import (
    Exited,
    Group,
    Handle,
    Lost,
    Pending,
    Placement,
    Poll,
    Running,
)
from trackside.system import processes
from trackside.system.processes import Identity

NAME = "machines"
CLASS = "tests.machines_placement:MachinesPlacement"


class MachinesPlacement(Placement):
    name: ClassVar[str] = NAME
    shares_files: ClassVar[bool] = False
    schedules: ClassVar[bool] = True

    @property
    def python(self) -> str:
        return sys.executable

    @property
    def _folder(self) -> Path:
        return Path(os.environ["MACHINES"])

    def start(self, group: Group) -> Handle:
        chosen = self._free_machines()[: len(group.hosts)]
        if len(chosen) < len(group.hosts):
            raise ValueError(f"only {len(chosen)} machines are free")
        addresses = ",".join(self._address(machine) for machine in chosen)
        placed: dict[str, Any] = {}
        for host, machine in zip(group.hosts, chosen, strict=True):
            bundle = self._folder / "disks" / machine / "bundle.json"
            durable.write_bytes(bundle, group.bundle.encode())
            environment = {
                "PATH": os.environ["PATH"],
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                "HOME": str(USER_HOME),
                "TRACKSIDE_HOME": str(HOME),
                "TRACKSIDE_GROUP_FILE": str(INSIDE / "bundle.json"),
                "TRACKSIDE_GROUP_ADDRESSES": addresses,
            }
            command = [*entered(self._pids()[machine] or 0), *group.command, *host.arguments]
            log = self._folder / f"{group.job}.{group.epoch}.{host.name}.log"
            identity = start_detached(command, environment, log)
            placed[host.name] = {"machine": machine, "process": asdict(identity)}
        with (self._folder / "used").open("a") as used:
            used.write("".join(f"{machine}\n" for machine in chosen))
        return placed

    def poll(self, handle: Handle) -> dict[str, Poll]:
        return {host: self._poll(each) for host, each in handle.items()}

    def addresses(self, handle: Handle) -> dict[str, str]:
        return {host: self._address(each["machine"]) for host, each in handle.items()}

    def interface(self, handle: Handle) -> str:
        return "eth0"

    def stop(self, handle: Handle, *, host: str | None = None, force: bool = False) -> None:
        number = signal.SIGKILL if force else signal.SIGTERM
        for name, each in handle.items():
            identity = Identity.from_record(each["process"])
            if host in (None, name) and processes.is_alive(identity):
                for child in psutil.Process(identity.pid).children():
                    child.send_signal(number)

    def _poll(self, each: dict[str, Any]) -> Poll:
        if self._pids().get(each["machine"]) is None:
            return Lost(f"the machine {each['machine']} is off")
        if (self._folder / "full").exists():
            return Pending("no machine is free")
        identity = Identity.from_record(each["process"])
        return Running() if processes.is_alive(identity) else Exited(None)

    def _pids(self) -> dict[str, int | None]:
        return dict(json.loads((self._folder / "machines.json").read_text()))

    def _free_machines(self) -> list[str]:
        used = self._folder / "used"
        taken = used.read_text().split() if used.exists() else []
        return [name for name, pid in self._pids().items() if pid and name not in taken]

    def _address(self, machine: str) -> str:
        return (self._folder / f"address-{machine}").read_text()
