"""A whole job as its user sees it: a real script, real supervisors, real processes."""

import io
import json
import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import environment_for
from tests.fault_proxy import FaultProxy
from tests.job_processes import end_processes_of
from tests.wait import until
from trackside.files import durable
from trackside.jobs.jobs import Jobs
from trackside.records import hosts
from trackside.records.host_processes import supervisor_lives
from trackside.records.hosts import HostRecord
from trackside.records.journal import History, Journal
from trackside.records.layout import HostFolder, JobFolder, JobKeys
from trackside.records.spec import JobSpec
from trackside.settings import Settings
from trackside.storage.locate import locate_object
from trackside.system import processes


class Machine:
    """One TRACKSIDE_HOME and what a person does with it."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.settings = Settings.load(environ)
        self.jobs = Jobs(self.settings, environ)
        self.go = folder / "go"
        """A script that waits for it finds its path in the variable GO: so it neither ends before
        it was looked at nor has to be slow."""
        self._num_jobs = 0

    def submit(self, script: str | Mapping[str, str], **request: Any) -> "Job":
        """Submit a script (or several files, with train.py among them) under a name of its own."""
        self._num_jobs += 1
        files = {"train.py": script} if isinstance(script, str) else script
        name = request.pop("name", f"job-{self._num_jobs}")
        hyperparameters = {
            "sagemaker_program": json.dumps(request.pop("entry_point", "train.py")),
            "sagemaker_submit_directory": json.dumps(str(self._pack(name, files))),
            **request.pop("hyperparameters", {}),
        }
        base = {
            "TrainingJobName": name,
            "HyperParameters": hyperparameters,
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
            "Environment": {"GO": str(self.go), **request.pop("Environment", {})},
            "Trackside": {"GraceSeconds": 60},
        }
        self.jobs.submit(JobSpec.from_request({**base, **request}))
        return Job(self, name)

    def run(self, script: str | Mapping[str, str], **request: Any) -> "Job":
        job = self.submit(script, **request)
        job.wait()
        return job

    def _pack(self, name: str, files: Mapping[str, str]) -> Path:
        archive = self.folder / f"{name}.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            for path, content in files.items():
                info = tarfile.TarInfo(path)
                info.size = len(content.encode())
                info.mode = 0o755
                tar.addfile(info, io.BytesIO(content.encode()))
        return archive


class Job:
    def __init__(self, machine: Machine, name: str) -> None:
        self.machine = machine
        self.name = name
        self.folder: JobFolder = machine.settings.layout.job(name)
        self.spec = JobSpec.from_stored(self.folder.spec.read_bytes())

    def history(self) -> History:
        return Journal(self.folder.journal).read()

    def wait(self, seconds: float = 150.0) -> History:
        def is_over() -> bool:
            self.machine.jobs.reconcile(self.name)
            return self.history().state.is_final

        until(is_over, seconds=seconds)
        # The journal's copy in storage and the freed disk follow the final status.
        until(lambda: not any(map(supervisor_lives, self._host_folders())), seconds=seconds)
        return self.history()

    def _host_folders(self) -> list[HostFolder]:
        return [HostFolder(path.parent) for path in self.folder.hosts.glob("*/*/supervisor.json")]

    def wait_for_line(self, text: str) -> None:
        """Until a line with `text` is in the log, with its end."""
        until(lambda: text in self.log().rpartition("\n")[0], seconds=120)

    def describe(self) -> dict[str, Any]:
        return self.machine.jobs.describe(self.name)

    def log(self, host: str = "algo-1", attempt: int = 1) -> str:
        try:
            return self.host(host, attempt).log.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def lines(self) -> list[str]:
        """What the log says to a reader, through the front door."""
        data = b"".join(line.data for line in self.machine.jobs.logs(self.name))
        return data.decode(errors="replace").splitlines()

    def said(self, mark: str) -> str:
        """The rest of the one log line that begins with this mark."""
        [line] = [line for line in self.log().splitlines() if line.startswith(mark)]
        return line.removeprefix(mark).strip()

    def host(self, host: str = "algo-1", attempt: int = 1) -> HostFolder:
        return self.folder.host(host, attempt)

    def record(self, host: str = "algo-1", attempt: int = 1) -> HostRecord:
        record = hosts.read(self.host(host, attempt).record)
        assert record is not None
        return record

    def supervisor_pid(self, host: str = "algo-1", attempt: int = 1) -> int:
        return int(json.loads(self.host(host, attempt).supervisor.read_text())["pid"])

    def sandbox_process(self, which: str, host: str = "algo-1", attempt: int = 1) -> int:
        record = json.loads((self.host(host, attempt).sandbox / "process.json").read_text())
        return int(record[which]["pid"])

    def stored(self, uri: str) -> bytes:
        place = locate_object(uri, home=self.machine.settings.home)
        return place.store.get(place.key)

    def model(self) -> dict[str, bytes]:
        """Name to content of what is in model.tar.gz."""
        return unpacked(self.stored(JobKeys.of(self.spec).model))

    def output_data(self) -> dict[str, bytes]:
        return unpacked(self.stored(JobKeys.of(self.spec).output_data))


def unpacked(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        files = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        return {name: file.read() for name, file in files.items() if file is not None}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with made_machine(tmp_path) as machine:
        yield machine


@pytest.fixture
def away(faulty: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A machine whose store is behind a proxy."""
    for name, value in environment_for(faulty.url).items():
        monkeypatch.setenv(name, value)
    with made_machine(tmp_path) as machine:
        yield machine


@contextmanager
def made_machine(folder: Path, **variables: str) -> Iterator[Machine]:
    """In this environment; nothing of it runs afterwards."""
    machine = Machine(folder, {**os.environ, **variables})
    try:
        yield machine
    finally:
        for job in machine.settings.layout.jobs.glob("*"):
            end(JobFolder(job))
        end_processes_of(machine.settings.home)


def end(folder: JobFolder) -> None:
    """Supervisors first, then what they started."""
    for path in folder.root.glob("hosts/*/*/supervisor.json"):
        if record := durable.read_json(path):
            processes.send_signal(processes.Identity.from_record(record), 9)
    for path in folder.root.glob("hosts/*/*/sandbox/process.json"):
        if record := durable.read_json(path):
            for which in ("init", "command"):
                reported = {**record[which], "boot_id": record["boot_id"]}
                processes.send_signal(processes.Identity.from_record(reported), 9)
            processes.sweep(record["mark"])
