"""A job's folder as a submitter leaves it, and its supervisors' view of it, in this process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from trackside.files import durable
from trackside.records import hosts
from trackside.records.hosts import HostRecord, Phase
from trackside.records.journal import Journal
from trackside.records.layout import JobFolder
from trackside.records.spec import JobSpec
from trackside.settings import Settings
from trackside.supervisor.attempt import Attempt
from trackside.supervisor.context import Context
from trackside.system.processes import Identity, identify

NONCE = "0123456789abcdef"


def context(home: Path, *, host: str = "algo-1", num_hosts: int = 1, **request: Any) -> Context:
    """Opened once, then found again for another host."""
    environ = dict(os.environ) | {"TRACKSIDE_HOME": str(home)}
    settings = Settings.load(environ)
    folder = settings.layout.job("job")
    if not folder.root.exists():
        full = {
            "TrainingJobName": "job",
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
            "AlgorithmSpecification": {"ContainerEntrypoint": ["true"]},
            "ResourceConfig": {"InstanceType": "local", "InstanceCount": num_hosts},
            **request,
        }
        folder.root.mkdir(parents=True)
        durable.write_json(folder.spec, JobSpec.from_request(full).to_request())
        Journal(folder.journal).open()
        for number in range(1, num_hosts + 1):
            folder.host(f"algo-{number}", 1).root.mkdir(parents=True)
    spec = JobSpec.from_stored(folder.spec.read_bytes())
    return Context(folder, spec, host, NONCE, settings, environ)


def attempt(home: Path, **details: Any) -> Attempt:
    return Attempt(context(home, **details), 1)


def record(folder: JobFolder, host: str, phase: Phase, **details: Any) -> None:
    hosts.write(folder.host(host, 1).record, HostRecord(phase=phase, **details))


def supervise_by(folder: JobFolder, host: str, identity: Identity) -> None:
    written = {"pid": identity.pid, "started": identity.started, "boot_id": identity.boot_id}
    durable.write_json(folder.host(host, 1).supervisor, written)


def dead_process() -> Identity:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        identity = identify(process.pid)
        assert identity is not None
    return identity
