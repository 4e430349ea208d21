"""Jobs in containers of a real engine: the scenarios of other sandboxes, and what images add.

Imported tests run here again, each script in a container.
"""

import json
import os
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest

from tests.docker_engine import ADDRESS, PYTHON, SHELL, docker, docker_engine, own_engine
from tests.e2e.conftest import Job, Machine, end
from tests.e2e.test_capture import HOOK, NAMES, NET, TRAIN
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
    HELD,
    LINES,
    kill_supervisor,
)
from tests.e2e.test_crashes import (
    test_the_supervisor_may_die_again_and_again as test_repeated_deaths,
)
from tests.e2e.test_ends import (
    SAVES_ON_TERM,
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
from trackside import create_trial
from trackside.containers.engine_client import Engine
from trackside.containers.job_containers import remove_container
from trackside.curves import read
from trackside.records.death import Cause, Death
from trackside.records.layout import JobFolder, JobKeys, curves_of
from trackside.records.spec import JobSpec
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
        for facts in tmp_path.glob("**/sandbox/container.json"):  # of a test that failed
            if network := json.loads(facts.read_text())["own_network"]:
                Engine(ADDRESS).remove_network(network)


def containers(folder: Path, address: str = ADDRESS) -> list[str]:
    """Those whose /opt/ml is below this folder. Those of other tests come and go meanwhile."""
    found = docker("ps", "-aq", "--filter", "label=trackside.job", address=address).split()
    described = {each: Engine(address).inspect(each) for each in found}
    return [each for each, facts in described.items() if str(folder) in json.dumps(facts)]


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


# Kinds of images


def run_image(machine: ContainerMachine, **request: Any) -> Job:
    """An image that needs no script of ours."""
    algorithm = {"TrainingImage": machine.image, **request.pop("AlgorithmSpecification", {})}
    base = {
        "TrainingJobName": request.pop("name", "of-image"),
        "AlgorithmSpecification": algorithm,
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "Trackside": {"Sandbox": "docker", **request.pop("Trackside", {})},
    }
    machine.jobs.submit(JobSpec.from_request({**base, **request}))
    job = Job(machine, base["TrainingJobName"])
    job.wait()
    return job


@pytest.fixture
def make_image(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """An image by its Dockerfile's lines, from one of the tests' images."""
    docker_engine()
    names: list[str] = []

    def make(lines: str, base: str = PYTHON, **files: str) -> str:
        folder = tmp_path / f"image-{len(names)}"
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        (folder / "Dockerfile").write_text(f"FROM {base}\n{textwrap.dedent(lines)}")
        names.append(f"trackside-test/made-{os.getpid()}-{time.monotonic_ns()}")
        docker("build", "--network=none", "-t", names[-1], str(folder))
        return names[-1]

    yield make
    for name in names:
        docker("rmi", "--force", name)


TRAIN_PROGRAM = """#!/bin/sh
echo "own train in $(pwd) for $TRAINING_JOB_NAME"
cat /opt/ml/input/config/hyperparameters.json
echo own > /opt/ml/model/own
"""
BAKED = """
import os, sys
print("BAKED", sys.argv[1:], os.environ["SM_MODEL_DIR"], flush=True)
open(os.path.join(os.environ["SM_MODEL_DIR"], "baked"), "w").write("b")
"""


def test_an_image_with_train_on_its_path_runs_that(
    machine: ContainerMachine, make_image: Callable[..., str]
) -> None:
    image = make_image("COPY train /usr/local/bin/train", SHELL, train=TRAIN_PROGRAM)
    job = run_image(
        machine, AlgorithmSpecification={"TrainingImage": image}, HyperParameters={"a": "1"}
    )
    assert job.history().state.status is Status.COMPLETED, job.history().failure_reason
    assert "for of-image" in job.log()
    assert '{"a": "1"}' in job.log()
    assert job.model() == {"own": b"own\n"}


def test_the_dockerfile_of_a_script_and_its_name_is_enough(
    machine: ContainerMachine, make_image: Callable[..., str]
) -> None:
    """With a toolkit of its own, `train` is on its PATH; here ours is mounted."""
    lines = "COPY train.py /opt/ml/code/train.py\nENV SAGEMAKER_PROGRAM train.py"
    image = make_image(lines, **{"train.py": BAKED})
    job = run_image(
        machine, AlgorithmSpecification={"TrainingImage": image}, HyperParameters={"epochs": "3"}
    )
    assert job.history().state.status is Status.COMPLETED, job.log()
    assert "BAKED ['--epochs', '3'] /opt/ml/model" in job.log()
    assert job.model() == {"baked": b"b"}


def test_an_entry_point_and_arguments_replace_the_image_s(machine: ContainerMachine) -> None:
    job = run_image(
        machine,
        AlgorithmSpecification={
            "TrainingImage": SHELL,
            "ContainerEntrypoint": ["/bin/sh", "-c", 'echo "given $0"; exit 4'],
            "ContainerArguments": ["word"],
        },
    )
    assert "given word" in job.log()
    reason = job.history().failure_reason or ""
    assert reason.startswith("AlgorithmError: ")
    assert reason.endswith("exit code: 4")


def test_an_image_without_anything_to_run_is_explained(machine: ContainerMachine) -> None:
    job = run_image(machine, AlgorithmSpecification={"TrainingImage": SHELL})
    assert "'train' cannot be started: the image has no such program" in (
        job.history().failure_reason or ""
    )


def test_a_script_in_an_image_without_python_is_explained(machine: ContainerMachine) -> None:
    machine.image = SHELL
    job = machine.run("print('never')")
    assert "The image has no python3, and Trackside needs Python 3.8" in (
        job.history().failure_reason or ""
    )


def test_an_image_s_own_user_can_read_and_write(
    machine: ContainerMachine, make_image: Callable[..., str]
) -> None:
    machine.image = make_image("USER 1234")
    job = machine.run(
        "import os; open('/opt/ml/model/m', 'w').write(str(os.getuid()))\n"
        "open('/opt/ml/code/kept.txt', 'w').write(open('/opt/ml/input/data/shown/a').read())"
    )
    assert job.history().state.status is Status.COMPLETED, job.log()
    assert job.model() == {"m": b"1234"}


# What a container is given


def test_nothing_of_the_submitter_s_environment_goes_in(
    machine: ContainerMachine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MY_SECRET_TOKEN", "s3cret")
    monkeypatch.setenv("WANTED", "yes")
    monkeypatch.setenv("TRACKSIDE_JOB_VARIABLES", "WANTED")
    (tmp_path / "other").mkdir()
    there = ContainerMachine(tmp_path / "other", dict(os.environ))
    script = (
        "import json, os; print('ENV', json.dumps(dict(os.environ)))\n"
        "print('SOCKET', os.path.exists('/var/run/docker.sock'))"
    )
    job = there.run(script, Environment={"OWN": "1"})
    seen = json.loads(job.said("ENV"))
    assert "MY_SECRET_TOKEN" not in seen
    assert str(tmp_path) not in json.dumps(
        {key: seen[key] for key in seen if key != "SM_MODULE_DIR" and key != "SM_TRAINING_ENV"}
    )
    assert (seen["WANTED"], seen["OWN"]) == ("yes", "1")
    assert seen["PATH"] == "/usr/local/bin:/usr/bin:/bin"
    assert job.said("SOCKET") == "False"


def test_limits_are_kept_and_memory_beyond_them_is_the_reason(machine: ContainerMachine) -> None:
    script = (
        "import os\nshm = os.statvfs('/dev/shm')\nprint('SHM', shm.f_blocks * shm.f_bsize)\n"
        "print('THREADS', os.environ['OMP_NUM_THREADS'], flush=True)\n"
        "kept = [b'x' * (64 << 20) for _ in range(40)]\n"
    )
    job = machine.run(script, Trackside={"Cores": 1, "MemoryGB": 1, "ShmGB": 0.25})
    assert f"SHM {1 << 28}\nTHREADS 1\n" in job.log()
    reason = job.history().failure_reason or ""
    assert "OutOfMemory: the script used more than the limit of 1 GB" in reason
    assert job.record().limits == "Limited to 1 core and 1 GB of memory."
    assert job.history().death == Death(cause=Cause.OUT_OF_MEMORY, host="algo-1", memory="limit")


def test_links_of_a_container_lead_nowhere_on_this_machine(
    machine: ContainerMachine, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the machine")
    script = f"""
import os
os.symlink({str(secret)!r}, "/opt/ml/model/link")
os.symlink({str(tmp_path)!r}, "/opt/ml/output/data/folder")
open("/opt/ml/model/m", "w").write("m")
"""
    job = machine.run(script)
    assert job.history().state.status is Status.COMPLETED, job.history().failure_reason
    stored = b"".join(path.read_bytes() for path in _files(machine.settings.layout.buckets))
    assert b"of the machine" not in stored
    assert job.model()["m"] == b"m"


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_network_that_leads_nowhere_is_none(machine: ContainerMachine) -> None:
    script = (
        "import os, socket\n"
        "print('NET', os.listdir('/sys/class/net'), socket.gethostbyname('algo-1'))"
    )
    job = machine.run(script, EnableNetworkIsolation=True)
    assert job.said("NET") == "['lo'] 127.0.0.1"


# Who may die


def test_client_supervisor_and_init_may_die_at_once(machine: ContainerMachine) -> None:
    job = machine.submit(HELD)
    job.wait_for_line("line 9")
    os.kill(job.supervisor_pid(), signal.SIGKILL)
    os.kill(job.sandbox_process("init"), signal.SIGKILL)
    machine.go.touch()
    history = job.wait()
    assert history.state.status is Status.COMPLETED, history.failure_reason
    assert history.attempt == 1
    assert [line for line in job.lines() if line.startswith("line")] == LINES
    assert job.model() == {"m.txt": b"trained to the end"}


def test_a_job_given_up_leaves_no_container(machine: ContainerMachine, tmp_path: Path) -> None:
    job = machine.submit(SAVES_ON_TERM)
    job.wait_for_line("READY")
    assert len(containers(tmp_path)) == 1
    remove_container(job.host())
    assert containers(tmp_path) == []
    history = job.wait()
    assert history.state.status is Status.FAILED
    assert "The container was removed" in (history.failure_reason or "") or "SIGKILL" in (
        history.failure_reason or ""
    )


def test_a_job_outlives_its_engine(
    machine: ContainerMachine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with own_engine() as engine:
        monkeypatch.setenv("DOCKER_HOST", engine.address)
        (tmp_path / "other").mkdir()
        there = ContainerMachine(tmp_path / "other", dict(os.environ))
        there.image = SHELL
        lines = (
            "echo up; while [ ! -e $GO ]; do sleep 0.05; done; echo on; echo x > /opt/ml/model/m"
        )
        job = there.submit(
            "", AlgorithmSpecification={"ContainerEntrypoint": ["/bin/sh", "-c", lines]}
        )
        job.wait_for_line("up")
        engine.kill()
        kill_supervisor(job)
        there.go.touch()
        job.wait_for_line("on")
        engine.start()
        history = job.wait()
        assert history.state.status is Status.COMPLETED, history.failure_reason
        assert job.log().splitlines() == ["up", "on"]
        until(lambda: containers(tmp_path, engine.address) == [])


# What is watched, and what goes in and out

PACKAGES = Path(numpy.__file__).parents[1]
"""Mounted as a channel: the image has a Python of the same version, and no packages."""


def with_torch(**request: Any) -> dict[str, Any]:
    channel = {
        "ChannelName": "packages",
        "DataSource": {"S3DataSource": {"S3Uri": str(PACKAGES)}},
    }
    variables = {"PYTHONPATH": "/opt/ml/input/data/packages", **request.pop("Environment", {})}
    return {"InputDataConfig": [channel], "Environment": variables, **request}


@pytest.fixture
def torch_matches() -> None:
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the image has Python 3.11, and these packages are of another version")


def test_an_unchanged_script_is_captured_and_judged(
    machine: ContainerMachine, torch_matches: None
) -> None:
    rule = {
        "RuleConfigurationName": "vanishing",
        "RuleParameters": {"rule_to_invoke": "VanishingGradient"},
    }
    job = machine.run(
        NET + TRAIN, **with_torch(DebugHookConfig=HOOK, DebugRuleConfigurations=[rule])
    )
    assert job.history().state.status is Status.COMPLETED, job.log()
    where = JobKeys.of(job.spec).under("s3://bucket/debug", "debug-output")
    trial = create_trial(where, home=machine.settings.home)
    assert trial.steps() == [0, 10, 20]
    assert set(NAMES) <= set(trial.tensor_names())
    assert job.record().capture == ""
    [status] = until(lambda: over(job))
    assert status["RuleEvaluationStatus"] == "NoIssuesFound"


def over(job: Job) -> list[dict[str, Any]]:
    job.machine.jobs.reconcile(job.name)
    found = job.describe().get("DebugRuleEvaluationStatuses", [])
    return found if all(each["RuleEvaluationStatus"] != "InProgress" for each in found) else []


def test_no_capture_is_silently_absent(
    machine: ContainerMachine, make_image: Callable[..., str]
) -> None:
    """A hook that cannot be loaded: here, for want of the module that an image's own hides."""
    train = "#!/bin/sh\npython3 -c 'print(1)'\npython3 -c 'print(2)'\n"
    lines = "COPY train /usr/local/bin/train\nCOPY trackside.py /hides/\nENV PYTHONPATH=/hides"
    image = make_image(lines, train=train, **{"trackside.py": ""})
    rule = {
        "RuleConfigurationName": "vanishing",
        "RuleParameters": {"rule_to_invoke": "VanishingGradient"},
    }
    job = run_image(
        machine,
        AlgorithmSpecification={"TrainingImage": image},
        DebugHookConfig=HOOK,
        DebugRuleConfigurations=[rule],
    )
    assert job.history().state.status is Status.COMPLETED, job.log()
    first, *rest = job.log().splitlines()
    assert first.startswith("[trackside] Not watched: Python 3.11 of this script: ")
    assert rest == ["1", "2"]
    assert job.record().capture.startswith("not watched: Python 3.11")
    [status] = until(lambda: over(job))
    assert "Not watched: Python 3.11" in status["StatusDetails"]


def test_channels_and_checkpoints_are_as_in_any_sandbox(
    machine: ContainerMachine, tmp_path: Path
) -> None:
    for name, text in (("piped", "p" * 100_000), ("fast", "fast")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(text)
    channels = [
        {
            "ChannelName": name,
            "DataSource": {"S3DataSource": {"S3Uri": str(tmp_path / name)}},
            "InputMode": mode,
        }
        for name, mode in (("piped", "Pipe"), ("fast", "FastFile"))
    ]
    script = """
import os, time
print("PIPED", len(open("/opt/ml/input/data/piped_0").read()), flush=True)
print("FAST", open("/opt/ml/input/data/fast/f").read(), flush=True)
old = "/opt/ml/checkpoints/a"
print("OLD", os.path.exists(old) and open(old).read(), flush=True)
open(old, "w").write("saved")
"""
    stored = {"S3Uri": "s3://bucket/checkpoints", "LocalPath": "/opt/ml/checkpoints"}
    job = machine.run(script, InputDataConfig=channels, CheckpointConfig=stored)
    assert job.history().state.status is Status.COMPLETED, job.log()
    assert (job.said("PIPED"), job.said("FAST"), job.said("OLD")) == ("100000", "fast", "False")
    again = machine.run(script, InputDataConfig=channels, CheckpointConfig=stored)
    assert again.said("OLD") == "saved"


def test_torchrun_works_between_containers(machine: ContainerMachine, torch_matches: None) -> None:
    script = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
print("SUM", int(total.item()), dist.get_world_size(), os.environ["NCCL_SOCKET_IFNAME"], flush=True)
dist.destroy_process_group()
"""
    job = machine.run(
        script,
        hyperparameters={"sagemaker_torch_distributed_enabled": "true"},
        ResourceConfig=TWO,
        **with_torch(Environment={"GLOO_SOCKET_IFNAME": "eth0"}),
    )
    assert job.history().state.status is Status.COMPLETED, job.log() + job.log("algo-2")
    for host in ("algo-1", "algo-2"):
        assert "SUM 3 2 eth0" in job.log(host)


def test_the_figures_are_the_container_s_own(machine: ContainerMachine) -> None:
    script = """
import os, time
kept = b"x" * (200 << 20)
until = time.monotonic() + 4
while time.monotonic() < until:
    pass
"""
    job = machine.run(script, Trackside={"Cores": 1, "MemoryGB": 1})
    curves = read(curves_of(job.spec), home=machine.settings.home).scalars
    used = max(curves["system/algo-1", "memory/used_bytes"].values)
    assert 200 << 20 < used < 1 << 30
    assert ("system/algo-1", "cpu/core_0_percent") in curves
    assert ("system/algo-1", "cpu/core_1_percent") not in curves
