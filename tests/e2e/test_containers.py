"""Jobs in containers, by a real engine: the scenarios of other sandboxes, and what only images have.

Imported tests run here again, each script in a container.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.docker_engine import ADDRESS, PYTHON, docker, docker_engine
from tests.e2e.conftest import Job, Machine, end
from tests.e2e.test_contract import (
    test_a_finished_job_has_the_service_s_history_and_frees_its_disk as test_history,
)
from tests.e2e.test_contract import (
    test_a_script_meets_the_contract_and_its_results_are_kept as test_contract,
)
from tests.e2e.test_contract import (
    test_a_shell_script_gets_the_same_arguments_and_variables as test_shell_script,
)
from tests.e2e.test_crashes import (
    test_the_supervisor_may_die_again_and_again as test_repeated_deaths,
)
from tests.e2e.test_ends import (
    test_a_script_ended_by_a_signal_fails_with_the_signal as test_signals,
)
from tests.e2e.test_ends import (
    test_a_script_s_own_failure_text_is_kept as test_failure_text,
)
from tests.e2e.test_ends import (
    test_a_script_that_raises_fails_the_job_with_its_last_words as test_last_words,
)
from tests.e2e.test_ends import (
    test_stop_lets_the_script_save_and_uploads_what_it_saved as test_stop,
)
from tests.e2e.test_hosts import (
    TWO,
)
from tests.e2e.test_hosts import (
    test_hosts_have_their_own_folders_and_know_each_other as test_two_hosts,
)
from tests.e2e.test_hosts import (
    test_stop_reaches_every_host as test_stop_of_two_hosts,
)
from tests.e2e.test_hosts import (
    test_the_first_failure_ends_the_job_and_names_the_host as test_first_failure,
)
from tests.job_processes import end_processes_of
from tests.wait import until
from trackside.containers.engine_client import Engine
from trackside.records.layout import JobFolder
from trackside.records.status import Status

__all__ = [
    "test_contract",
    "test_failure_text",
    "test_first_failure",
    "test_history",
    "test_last_words",
    "test_repeated_deaths",
    "test_shell_script",
    "test_signals",
    "test_stop",
    "test_stop_of_two_hosts",
    "test_two_hosts",
]
pytestmark = pytest.mark.timeout(600)


class ContainerMachine(Machine):
    """Every job runs in a container. `go` is in a folder that is mounted there."""

    image = PYTHON

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        super().__init__(folder, environ)
        self._shown = folder / "shown"
        self._shown.mkdir()
        (self._shown / "a").touch()  # a channel is not empty
        self.go = self._shown / "go"

    def submit(self, script: str | Mapping[str, str], **request: Any) -> Job:
        algorithm = {"TrainingImage": self.image, **request.pop("AlgorithmSpecification", {})}
        options = {"GraceSeconds": 60, **request.pop("Trackside", {}), "Sandbox": "docker"}
        channel = {
            "ChannelName": "shown",
            "DataSource": {"S3DataSource": {"S3Uri": str(self._shown)}},
        }
        return super().submit(
            script,
            AlgorithmSpecification=algorithm,
            Trackside=options,
            InputDataConfig=[channel, *request.pop("InputDataConfig", ())],
            Environment={"GO": "/opt/ml/input/data/shown/go", **request.pop("Environment", {})},
            **request,
        )


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ContainerMachine]:
    monkeypatch.setenv("DOCKER_HOST", docker_engine())
    machine = ContainerMachine(tmp_path, dict(os.environ))
    try:
        yield machine
    finally:
        for path in machine.settings.layout.jobs.glob("*"):
            end(JobFolder(path))
        end_processes_of(machine.settings.home)
        for container in containers(tmp_path):
            Engine(ADDRESS).remove(container)


def containers(folder: Path, address: str = ADDRESS) -> list[str]:
    """Those whose /opt/ml is below this folder."""
    found = docker("ps", "-aq", "--filter", "label=trackside.job", address=address).split()
    texts = {each: docker("inspect", each, address=address) for each in found}
    return [each for each, text in texts.items() if str(folder) in text]


def left_behind(folder: Path, job: str) -> list[str]:
    networks = docker("network", "ls", "--format", "{{.Name}}").split()
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return [
        *containers(folder),
        *(name for name in networks if name.startswith(f"trackside-{job}-")),
        *(line for line in mounts if str(folder) in line),
    ]


def test_nothing_of_a_job_is_left_on_the_machine(machine: ContainerMachine, tmp_path: Path) -> None:
    volumes = set(docker("volume", "ls", "--quiet").split())
    job = machine.run(
        "open('/opt/ml/model/m', 'w').write('x')", name="leaves-nothing", ResourceConfig=TWO
    )
    assert job.history().state.status is Status.COMPLETED, job.history().failure_reason
    until(lambda: left_behind(tmp_path, "leaves-nothing") == [])
    assert set(docker("volume", "ls", "--quiet").split()) <= volumes
    machine.jobs.delete(job.name)
    assert not job.folder.root.exists()
