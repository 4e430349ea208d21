"""One job of the drill, looked at from outside: its journal, its log, its processes, its output."""

import io
import json
import os
import signal
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.drill.case import check
from benchmarks.drill.numbered_lines import LineCount, count_lines
from benchmarks.drill.server import Server
from trackside.records import host_processes, log_lines
from trackside.records.journal import History, Journal
from trackside.records.layout import Home, HostFolder, JobFolder, JobKeys
from trackside.records.spec import JobSpec
from trackside.storage.locate import Location, locate, locate_object

if TYPE_CHECKING:
    from benchmarks.drill.ground import Ground


class DrillJob:
    def __init__(
        self, ground: "Ground", name: str, at: Server | None, home: Path | None = None
    ) -> None:
        self.ground = ground
        self.name = name
        self.at = at
        self.home = at.home if at else Home(home or ground.home)
        self.folder: JobFolder = self.home.job(name)

    @property
    def spec(self) -> JobSpec:
        return JobSpec.from_stored(self.folder.spec.read_bytes())

    @property
    def keys(self) -> JobKeys:
        return JobKeys.of(self.spec)

    def history(self) -> History:
        return Journal(self.folder.journal).read()

    @property
    def status(self) -> str:
        return str(self.history().state.status)

    @property
    def secondary(self) -> str:
        return str(self.history().state.secondary)

    def is_over(self) -> bool:
        return self.history().state.is_final

    def wait_over(self, *, seconds: float = 120.0) -> History:
        """A final status, and no supervisor left: what follows the status has been done too.

        Without a server, somebody who looks is what brings dead supervisors back.
        """
        self.ground.until(self._looked_at, f"{self.name} is over", seconds=seconds)
        self.ground.until(
            lambda: not any(map(host_processes.supervisor_lives, self.host_folders())),
            f"the supervisors of {self.name} have left",
            seconds=seconds,
        )
        return self.history()

    def _looked_at(self) -> bool:
        if not self.is_over() and not self.at and not self._all_live():
            self._trackside("jobs", expect=None)
        return self.is_over()

    def _all_live(self) -> bool:
        folders = self.host_folders()
        return bool(folders) and all(map(host_processes.supervisor_lives, folders))

    def host_folders(self) -> list[HostFolder]:
        return [HostFolder(path.parent) for path in self.folder.hosts.glob("*/*/supervisor.json")]

    def host(self, host: str = "algo-1", attempt: int = 1) -> HostFolder:
        return self.folder.host(host, attempt)

    def wait_for_line(self, text: str, *, seconds: float = 60.0, attempt: int = 1) -> None:
        def is_there() -> bool:
            return text.encode() in self.raw_log(attempt=attempt)

        self.ground.until(is_there, f"{self.name} prints {text!r}", seconds=seconds)

    def raw_log(self, host: str = "algo-1", attempt: int = 1) -> bytes:
        """The file on the host's disk."""
        try:
            return self.host(host, attempt).log.read_bytes()
        except FileNotFoundError:
            return b""

    def log(self) -> bytes:
        """What `trackside logs` prints."""
        return self._trackside("logs", self.name).stdout

    def _trackside(
        self, *arguments: str, expect: int | None = 0
    ) -> "subprocess.CompletedProcess[bytes]":
        home = {"TRACKSIDE_HOME": str(self.home.root)}
        return self.ground.trackside(*arguments, at=self.at, environment=home, expect=expect)

    def stored_log(self, host: str = "algo-1", attempt: int = 1) -> bytes:
        """The chunks in the embedded store, put together by their offsets; a gap is `Broke`."""
        data = b""
        for offset, chunk in sorted(self._chunks(host, attempt).items()):
            text = b"".join(line for _, line in log_lines.decode(chunk.store.get(chunk.key)))
            check(offset <= len(data), f"bytes {len(data)}-{offset} of the stored log are missing")
            data = data[:offset] + text
        return data

    def _chunks(self, host: str, attempt: int) -> dict[int, Location]:
        place = locate(f"{self.keys.logs}/{host}", home=self.home.root)
        found = {}
        for entry in place.store.list(f"{place.key}/" if place.key else ""):
            name = entry.key.rpartition("/")[2]
            where = log_lines.chunk_position(name)
            if where is not None and where[0] == attempt:
                found[where[1]] = place.child(name)
        return found

    def count_lines(self, expected: int) -> LineCount:
        """In what `trackside logs` prints, which must be what is in the store, byte for byte."""
        printed = self.log()
        stored = self.stored_log(attempt=self.history().attempt)
        check(
            printed == stored,
            f"`trackside logs {self.name}` has {len(printed)} bytes, its chunks {len(stored)}",
        )
        return count_lines(printed, expected)

    def model(self) -> dict[str, bytes]:
        """Name to content of what is in model.tar.gz, in the embedded store."""
        return unpacked(self.stored(self.keys.model))

    def output_data(self) -> dict[str, bytes]:
        return unpacked(self.stored(self.keys.output_data))

    def stored(self, uri: str) -> bytes:
        """From the embedded store."""
        place = locate_object(uri, home=self.home.root)
        return place.store.get(place.key)

    def supervisor_pid(self, host: str = "algo-1", attempt: int = 1) -> int:
        return int(json.loads(self.host(host, attempt).supervisor.read_text())["pid"])

    def sandbox_pid(self, which: str = "command", host: str = "algo-1", attempt: int = 1) -> int:
        """Of `init` or of `command`, which is the toolkit that runs the script."""
        record = json.loads((self.host(host, attempt).sandbox / "process.json").read_text())
        return int(record[which]["pid"])

    def evaluator_pid(self) -> int:
        return int(json.loads(self.folder.rules.evaluator.read_text())["pid"])

    def kill_supervisor(self, host: str = "algo-1", attempt: int = 1) -> int:
        """SIGKILL; the pid that it had."""
        pid = self.supervisor_pid(host, attempt)
        os.kill(pid, signal.SIGKILL)
        return pid

    def replace_supervisor(self, host: str = "algo-1", attempt: int = 1) -> None:
        """SIGKILL, and the next one has begun when this returns."""
        old = self.kill_supervisor(host, attempt)
        self.ground.until(
            lambda: self.supervisor_pid(host, attempt) != old, f"{self.name} has a new supervisor"
        )

    def describe(self) -> Any:
        """As `trackside show --json` has it."""
        return json.loads(self._trackside("show", self.name, "--json").stdout)


def unpacked(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        files = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        return {name: file.read() for name, file in files.items() if file is not None}
