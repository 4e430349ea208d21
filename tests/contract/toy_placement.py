"""A placement of hosts that share no files, written by docs/how-to-add/placement.md.

Each host is a process with a TRACKSIDE_HOME of its own below one folder, the "cluster". `full` in
that folder keeps groups waiting, `away` makes the engine unreachable, and `lost` is a machine that
has failed. A handle is the group's folder; what was started is in it.
"""

import json
import os
import shutil
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from trackside.files import durable
from trackside.files.permissions import make_folder
from trackside.placement.local import start_detached
from trackside.placement.placement import (
    Exited,
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
from trackside.system import processes
from trackside.system.processes import Identity


class ToyPlacement(Placement):
    name: ClassVar[str] = "toy"
    shares_files: ClassVar[bool] = False
    is_this_machine: ClassVar[bool] = True
    schedules: ClassVar[bool] = True
    cluster: ClassVar[Path]
    """Set by the test."""

    @property
    def python(self) -> str:
        return sys.executable

    def start(self, group: Group) -> Handle:
        if (self.cluster / "away").exists():
            raise PlacementAway("the head node does not respond")
        folder = self.cluster / f"{group.job}.{group.epoch}"
        make_folder(folder)
        durable.write_bytes(folder / "bundle.json", group.bundle.encode())
        asked = {
            host.name: {"command": [*group.command, *host.arguments], "gpus": host.gpus}
            for host in group.hosts
        }
        durable.write_json(folder / "asked.json", asked)
        handle = {"folder": str(folder)}
        try:
            self._begin(folder)
        except BaseException:
            self.stop(handle, force=True)
            raise
        return handle

    def poll(self, handle: Handle) -> dict[str, Poll]:
        folder = Path(str(handle.get("folder", "/nonexistent")))
        if (self.cluster / "away").exists():
            return dict.fromkeys(_hosts(folder), Unknown("the head node does not respond"))
        self._begin(folder)
        return {host: self._poll(folder, host) for host in _hosts(folder)}

    def addresses(self, handle: Handle) -> dict[str, str]:
        hosts = _hosts(Path(str(handle.get("folder", "/nonexistent"))))
        return {host: f"127.0.0.{number}" for number, host in enumerate(hosts, 1)}

    def interface(self, handle: Handle) -> str:
        return "lo"

    def stop(self, handle: Handle, *, host: str | None = None, force: bool = False) -> None:
        folder = Path(str(handle.get("folder", "/nonexistent")))
        for name in _hosts(folder):
            if host in (None, name) and (identity := _identity(folder, name)) is not None:
                processes.send_signal(identity, signal.SIGKILL if force else signal.SIGTERM)
        if force and host is None and folder.exists():
            (folder / "bundle.json").unlink(missing_ok=True)  # it has secrets
            (folder / "cancelled").touch()

    def _begin(self, folder: Path) -> None:
        """What the engine of a real cluster does by itself, once machines are free."""
        is_over = (folder / "cancelled").exists()
        if is_over or (self.cluster / "full").exists() or not folder.exists():
            return
        addresses = ",".join(self.addresses({"folder": str(folder)}).values())
        for host, asked in _asked(folder).items():
            if _identity(folder, host) is not None:
                continue
            environment = {
                "PATH": os.environ["PATH"],
                "TRACKSIDE_HOME": str(self.cluster / "machines" / host),
                "TRACKSIDE_GROUP_FILE": str(folder / "bundle.json"),
                "TRACKSIDE_GROUP_ADDRESSES": addresses,
                "OF_THE_HOST": host,
            }
            log = folder / f"{host}.log"
            if (self.cluster / f"broken-{host}").exists():
                raise OSError(f"the machine of {host} is broken")
            identity = start_detached(asked["command"], environment, log)
            durable.write_json(folder / f"{host}.json", asdict(identity))

    def _poll(self, folder: Path, host: str) -> Poll:
        if (self.cluster / "lost").exists():
            return Lost("the machine was preempted")
        identity = _identity(folder, host)
        if identity is None:
            return (
                Exited(None) if (folder / "cancelled").exists() else Pending("no machine is free")
            )
        return Running() if processes.is_alive(identity) else Exited(None)


def free(cluster: Path) -> None:
    """After a test: nothing is left."""
    for folder in cluster.glob("*.*"):
        ToyPlacement().stop({"folder": str(folder)}, force=True)
    shutil.rmtree(cluster, ignore_errors=True)


def _asked(folder: Path) -> dict[str, dict[str, list[str]]]:
    try:
        return dict(json.loads((folder / "asked.json").read_text()))
    except FileNotFoundError:
        return {}


def _hosts(folder: Path) -> list[str]:
    return [*_asked(folder)]


def _identity(folder: Path, host: str) -> Identity | None:
    record = durable.read_json(folder / f"{host}.json")
    return None if record is None else Identity.from_record(record)
