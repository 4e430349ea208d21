"""Jobs that run as another user of the machine: all they do as ever, and all that is kept from
them, also where they try to have the supervisor fetch it."""

import io
import json
import os
import signal
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest

import trackside
from tests.e2e.conftest import Job, Machine, end, made_machine
from tests.e2e.test_contract import build_wheel
from tests.job_processes import end_processes_of
from tests.other_users import FIRST, SECOND, needs_other_users, packages_for_all, python_for_all
from tests.server_process import ServerProcess
from tests.wait import until
from trackside.api.keys import AccessKeys, Rights
from trackside.jobs.jobs import Jobs
from trackside.records.layout import JobFolder, JobKeys
from trackside.records.owners import local_owner
from trackside.records.status import Status
from trackside.settings import Settings
from trackside.system import control_group, processes

pytestmark = needs_other_users

SECRET = b"the secret that no job may have"
CHECKPOINTS = {"S3Uri": "s3://bucket/checkpoints", "LocalPath": "/opt/ml/checkpoints"}
TWO = {"InstanceCount": 2, "InstanceType": "local"}
WAITS = """
import os, time
def wait():
    while not os.path.exists("/opt/ml/go"): time.sleep(0.02)
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.setenv("TRACKSIDE_RUN_AS", str(FIRST))
    monkeypatch.setenv("TRACKSIDE_PYTHON", python_for_all())
    with made_machine(tmp_path) as machine:
        yield machine


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A folder that only root can read."""
    folder = tmp_path / "kept"
    folder.mkdir(mode=0o700)
    (folder / "secret").write_bytes(SECRET)
    (folder / "secret").chmod(0o600)
    return folder


def put(machine: Machine, key: str, data: bytes) -> None:
    path = machine.settings.layout.buckets / "bucket" / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)
    path.parent.chmod(0o700)


def channel(name: str, key: str, mode: str = "File") -> dict[str, Any]:
    source = {"S3Uri": f"s3://bucket/{key}", "S3DataType": "S3Prefix"}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}, "InputMode": mode}


def check_completed(job: Job) -> None:
    history = job.history()
    assert history.state.status is Status.COMPLETED, (history.failure_reason, job.log())


# As ever


def test_a_job_trains_as_another_user_with_all_its_inputs_and_outputs(machine: Machine) -> None:
    put(machine, "files/a.csv", b"of File")
    put(machine, "fast/b.csv", b"of FastFile")
    put(machine, "piped/c.csv", b"of Pipe")
    put(machine, "checkpoints/old.pt", b"restored")
    script = """
import json, os, pathlib, sys
data = pathlib.Path("/opt/ml/input/data")
print("CHANNELS", (data / "files/a.csv").read_text(), (data / "fast/b.csv").read_text(),
      (data / "piped_0").read_text(), (data / "piped_1").read_text())
checkpoints = pathlib.Path("/opt/ml/checkpoints")
(checkpoints / "new.pt").write_text((checkpoints / "old.pt").read_text() + " and trained on")
(data / "files/a.csv").write_text("its own")
for folder in ("model", "output/data", "output/intermediate"):
    pathlib.Path("/opt/ml", folder, "file").write_text(folder)
for folder in ("/tmp", "/var/tmp", "/dev/shm", os.path.expanduser("~")):
    pathlib.Path(folder, "left-by-a-test").write_text("x")
print("IS", os.getuid(), os.environ["USER"], os.environ["LOGNAME"], os.listdir(os.environ["HOME"]))
"""
    inputs = [channel("files", "files/"), channel("fast", "fast/", "FastFile")]
    inputs.append(channel("piped", "piped/", "Pipe"))
    job = machine.run(script, InputDataConfig=inputs, CheckpointConfig=CHECKPOINTS)
    check_completed(job)
    assert job.said("CHANNELS") == "of File of FastFile of Pipe of Pipe"
    assert job.said("IS") == f"{FIRST} {FIRST} {FIRST} ['left-by-a-test']"
    assert job.model() == {"file": b"model"}
    assert job.output_data() == {"file": b"output/data"}
    assert job.stored(f"{JobKeys.of(job.spec).intermediate}/file") == b"output/intermediate"
    stored = machine.settings.layout.buckets / "bucket" / "checkpoints"
    assert (stored / "new.pt").read_bytes() == b"restored and trained on"
    assert job.record().isolation == "root"
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):
        if Path(trackside.__file__).is_relative_to(folder):  # the user must be able to read it
            Path(folder, "left-by-a-test").unlink()
            continue
        assert not Path(folder, "left-by-a-test").exists()
    host = job.host()
    assert not any(path.exists() for path in (host.ml, host.mounts, host.private))


def test_a_failure_is_reported_as_ever(machine: Machine) -> None:
    job = machine.run("import sys; print('bye', file=sys.stderr); sys.exit(7)")
    assert job.history().state.status is Status.FAILED
    assert "ExitCode 7" in (job.history().failure_reason or "")
    assert "bye" in (job.history().failure_reason or "")
    assert job.record().exit_code == 7


def test_it_is_kept_to_the_memory_that_its_job_asks_for(machine: Machine) -> None:
    if not control_group.enforced().memory:
        pytest.skip("no control group can be made here")
    script = "kept = [b'x' * (64 << 20) for _ in range(40)]; print('survived')"
    job = machine.run(script, Trackside={"MemoryGB": 1})
    assert job.history().state.status is Status.FAILED
    assert "more than the limit of 1 GB of memory" in (job.history().failure_reason or "")
    assert job.record().limits == "Limited to 1 GB of memory."


def test_requirements_are_installed_by_the_user_into_what_only_it_executes(
    machine: Machine, tmp_path: Path
) -> None:
    package = tmp_path / "speckle"
    package.mkdir()
    (package / "speckle.py").write_text("COLOUR = 'green'")
    wheel = build_wheel(package, tmp_path)
    put(machine, f"wheels/{wheel.name}", wheel.read_bytes())
    files = {
        "train.py": "import speckle, sys; print('COLOUR', speckle.COLOUR, sys.prefix, flush=True)",
        "requirements.txt": f"/opt/ml/input/data/wheels/{wheel.name}\n",
    }
    jobs = [machine.run(files, InputDataConfig=[channel("wheels", "wheels/")]) for _ in range(2)]
    for job in jobs:
        check_completed(job)
        assert job.said("COLOUR").startswith("green /opt/.trackside/overlays/")
    assert ["Installing:" in job.log() for job in jobs] == [True, False]
    [cache] = machine.settings.layout.overlays.iterdir()
    assert cache == machine.settings.layout.overlays_of(FIRST, local_owner())
    assert cache.stat().st_mode & 0o777 == 0o700
    owners = {path.lstat().st_uid for path in (cache, *cache.rglob("*"))}
    assert owners == {FIRST}
    assert machine.settings.layout.overlays_of(FIRST, "ci") != cache
    assert machine.settings.layout.overlays_of(SECOND, local_owner()) != cache


def test_two_hosts_train_with_torch(machine: Machine) -> None:
    packages = packages_for_all("torch")
    if not packages:
        pytest.skip("needs a torch that every user may read, for the Python of all users")
    script = """
import os, torch, torch.distributed as dist
rank = int(os.environ["SM_CURRENT_HOST"].split("-")[1]) - 1
dist.init_process_group("gloo", rank=rank, world_size=2)
value = torch.tensor([float(os.getuid() + rank)])
dist.all_reduce(value)
torch.save({"sum": value}, f"/opt/ml/model/{rank}.pt")
print("SUM", int(value.item()))
dist.destroy_process_group()
"""
    environment = {"PYTHONPATH": packages, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    job = machine.run(script, ResourceConfig=TWO, Environment=environment)
    check_completed(job)
    assert job.said("SUM") == str(2 * FIRST + 1)
    assert set(job.model()) == {"0.pt", "1.pt"}


def test_a_stop_gives_time_to_save_and_leaves_no_process(machine: Machine) -> None:
    script = """
import os, signal, subprocess, sys, time
subprocess.Popen(["sleep", "1000"], start_new_session=True, env={})
def save(*_):
    open("/opt/ml/model/saved", "w").write("saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("READY", flush=True)
time.sleep(600)
"""
    job = machine.submit(script)
    job.wait_for_line("READY")
    mark = json.loads((job.host().sandbox / "process.json").read_text())["mark"]
    assert len(processes.carriers(mark)) > 2
    machine.jobs.stop(job.name)
    assert job.wait().state.status is Status.STOPPED
    assert job.model() == {"saved": b"saved"}
    assert processes.carriers(mark) == []


def test_a_script_that_does_not_want_to_end_is_ended(machine: Machine) -> None:
    script = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("READY", flush=True)
while True: time.sleep(1000)
"""
    job = machine.submit(script, Trackside={"GraceSeconds": 0})
    job.wait_for_line("READY")
    machine.jobs.stop(job.name)
    assert job.wait().state.status is Status.STOPPED


def test_the_supervisor_s_death_costs_nothing_of_a_piped_channel(machine: Machine) -> None:
    put(machine, "piped/c.csv", b"an epoch")
    script = f"""{WAITS}
print("FIRST", open("/opt/ml/input/data/piped_0").read(), flush=True)
wait()
print("SECOND", open("/opt/ml/input/data/piped_1").read(), flush=True)
open("/opt/ml/model/m", "w").write("trained")
"""
    job = machine.submit(script, InputDataConfig=[channel("piped", "piped/", "Pipe")])
    job.wait_for_line("FIRST an epoch")
    before = job.supervisor_pid()
    os.kill(before, signal.SIGKILL)
    until(lambda: job.supervisor_pid() != before)
    (job.host().ml / "go").touch()
    job.wait()
    check_completed(job)
    assert job.said("SECOND") == "an epoch"
    assert job.model() == {"m": b"trained"}


def test_whoever_starts_it_again_starts_it_as_the_same_user(machine: Machine) -> None:
    """As `trackside list` does, of a person who knows nothing of the server's options."""
    script = """
import os, time
print("UID", os.getuid(), flush=True)
while os.path.exists("/opt/ml/first"): time.sleep(0.02)
"""
    files = {"train.py": "open('/opt/ml/first', 'w')\n" + script}
    job = machine.submit(files, RetryStrategy={"MaximumRetryAttempts": 1})
    job.wait_for_line("UID")
    for pid in (job.supervisor_pid(), job.sandbox_process("init")):
        os.kill(pid, signal.SIGKILL)
    without = {name: value for name, value in os.environ.items() if name != "TRACKSIDE_RUN_AS"}
    machine.jobs = Jobs(Settings.load(without), without)

    def second_attempt_runs() -> bool:
        machine.jobs.reconcile(job.name)
        return "UID" in job.log(attempt=2)

    until(second_attempt_runs)
    (job.host(attempt=2).ml / "first").unlink()
    assert job.wait().state.status is Status.COMPLETED
    assert f"UID {FIRST}\n" in job.log(attempt=2)


def test_a_job_that_cannot_run_as_its_user_fails_and_runs_as_nobody_else(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {**os.environ, "TRACKSIDE_ISOLATION": "none"}
    machine.jobs = Jobs(Settings.load(environ), environ)
    job = machine.run("open('/opt/ml/model/ran', 'w')")
    assert job.history().state.status is Status.FAILED
    reason = job.history().failure_reason or ""
    assert f"are to run as user '{FIRST}', and the isolation 'none' cannot" in reason
    environ = {**os.environ, "TRACKSIDE_RUN_AS": "nobody-of-that-name"}
    machine.jobs = Jobs(Settings.load(environ), environ)
    job = machine.run("open('/opt/ml/model/ran', 'w')")
    assert job.history().state.status is Status.FAILED
    assert "whom this system does not know" in (job.history().failure_reason or "")
    assert not list(machine.settings.layout.jobs.rglob("ran"))


# Kept from them

TRIES = """
import json, os
def tried(path, mode):
    try:
        if mode == "r" and os.path.isdir(path):
            return "listed: " + repr(os.listdir(path))
        with open(path, mode) as file:
            return "read: " + file.read(100) if mode == "r" else "written"
    except OSError as error:
        return type(error).__name__
found = {path: tried(path, "r") for path in READS}
found |= {path + " written": tried(path, "w") for path in WRITES}
print("FOUND", json.dumps(found), flush=True)
print("IS", os.getuid(), flush=True)
"""


class Team:
    """A server for two people and a sweep, each with a key and a user of their own."""

    def __init__(self, server: ServerProcess) -> None:
        self.home = server.home
        self.layout = Settings(home=server.home).layout
        self._url = server.url
        keys = AccessKeys(self.layout.server.root)
        self._keys: dict[str, tuple[str, str]] = {}
        for name in ("ci", "team"):
            key, secret = keys.create(name, Rights.SUBMIT)
            self.give(name, key.id, secret)

    def give(self, label: str, key_id: str, secret: str) -> None:
        self._keys[label] = key_id, secret

    def create(self, label: str, name: str, script: str, **request: Any) -> Path:
        """The job's folder on this machine."""
        archive = self.layout.buckets / "code" / f"{name}.tar.gz"
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive, "w:gz") as tar:
            info = tarfile.TarInfo("train.py")
            info.size = len(script)
            tar.addfile(info, io.BytesIO(script.encode()))
        hyperparameters = {
            "sagemaker_program": "train.py",
            "sagemaker_submit_directory": f"s3://code/{name}.tar.gz",
        }
        self.client(label).create_training_job(
            TrainingJobName=name,
            RoleArn="arn:aws:iam::000000000000:role/trackside",
            AlgorithmSpecification={"TrainingImage": "image", "TrainingInputMode": "File"},
            HyperParameters=hyperparameters | request.pop("HyperParameters", {}),
            OutputDataConfig={"S3OutputPath": "s3://out/runs"},
            ResourceConfig={"InstanceType": "local", "InstanceCount": 1, "VolumeSizeInGB": 1},
            StoppingCondition={"MaxRuntimeInSeconds": 600},
            **request,
        )
        return self.layout.job(name).root

    def client(self, label: str) -> Any:
        key_id, secret = self._keys[label]
        return boto3.client(
            "sagemaker",
            endpoint_url=self._url,
            region_name="us-east-1",
            aws_access_key_id=key_id,
            aws_secret_access_key=secret,
        )

    def log(self, name: str) -> str:
        return self.layout.job(name).host("algo-1", 1).log.read_text()

    def wait_until_ready(self, name: str) -> None:
        until(lambda: "READY" in self.log(name))

    def wait(self, name: str) -> Mapping[str, Any]:
        def ended() -> Any:
            reported = self.client("ci").describe_training_job(TrainingJobName=name)
            return (
                reported
                if reported["TrainingJobStatus"] not in ("InProgress", "Stopping")
                else None
            )

        return until(ended, seconds=150)


@pytest.fixture
def team(tmp_path: Path) -> Iterator[tuple[Team, ServerProcess]]:
    home = tmp_path / "home of the server"
    server = ServerProcess(
        home,
        TRACKSIDE_RUN_AS=f"ci={FIRST},team={SECOND}",
        TRACKSIDE_PYTHON=python_for_all(),
        TRACKSIDE_CAPACITY="cores=8,memory_gb=64,gpus=0",
    )
    try:
        with server:
            yield Team(server), server
    finally:
        for job in Settings(home=home).layout.jobs.glob("*"):
            end(JobFolder(job))
        end_processes_of(home)


def test_keys_other_jobs_and_the_server_s_environment_are_out_of_reach(
    team: tuple[Team, ServerProcess],
) -> None:
    people, server = team
    waits = (
        WAITS + "open('/opt/ml/model/weights', 'w').write('w')\n"
        "print('READY', os.getuid(), flush=True)\nwait()"
    )
    others = {
        "of-the-same": people.create("ci", "of-the-same", waits),
        "of-another": people.create("team", "of-another", waits),
    }
    for name in others:
        people.wait_until_ready(name)
    keys = people.layout.server.root
    assert (keys / "master.key").is_file()
    assert (keys / "own_key.json").is_file()
    reads = [keys / "master.key", keys / "own_key.json", keys / "keys.json", people.home]
    reads += [Path(f"/proc/{server.pid}/environ"), Path(f"/proc/{server.pid}/cwd")]
    for folder in others.values():
        host = folder / "hosts" / "algo-1" / "1"
        record = json.loads((host / "sandbox" / "process.json").read_text())
        for which in ("init", "command"):
            reads += [Path(f"/proc/{record[which]['pid']}", name) for name in ("environ", "root")]
        reads += [folder / "job.json", host / "log", host / "ml" / "model" / "weights"]
    package = Path(trackside.__file__).parent
    writes = [people.home / "new", package / "new.py", Path("/etc/new"), Path("/usr/new")]
    tries = {
        "READS": [str(path) for path in reads],
        "WRITES": [str(path) for path in (*writes, *reads[:3])],
    }
    lists = "".join(f"{name} = {paths}\n" for name, paths in tries.items())
    people.create("ci", "spy", lists + TRIES)
    assert people.wait("spy")["TrainingJobStatus"] == "Completed", people.log("spy")
    [line] = [line for line in people.log("spy").splitlines() if line.startswith("FOUND")]
    found = json.loads(line.removeprefix("FOUND"))
    assert len(found) == len(reads) + len(writes) + 3
    assert set(found.values()) <= {"PermissionError", "FileNotFoundError"}, found
    assert f"IS {FIRST}\n" in people.log("spy")
    for name, folder in others.items():
        (folder / "hosts" / "algo-1" / "1" / "ml" / "go").touch()
        assert people.wait(name)["TrainingJobStatus"] == "Completed"
    assert f"READY {SECOND}\n" in people.log("of-another")


def test_a_job_that_a_job_submits_runs_as_the_same_user(team: tuple[Team, ServerProcess]) -> None:
    """There is no user for all: a job that belonged to nobody would run as root."""
    people, _ = team
    parent = people.create("ci", "parent", f"{WAITS}\nprint('READY', flush=True)\nwait()")
    people.wait_until_ready("parent")
    host = parent / "hosts" / "algo-1" / "1"
    pid = json.loads((host / "sandbox" / "process.json").read_text())["command"]["pid"]
    pairs = Path(f"/proc/{pid}/environ").read_text().split("\0")
    environment = dict(pair.split("=", 1) for pair in pairs if pair)
    assert environment["AWS_ACCESS_KEY_ID"] == "TSJOB-parent"
    people.give("parent", environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
    people.create("parent", "child", "import os; print('IS', os.getuid(), flush=True)")
    assert people.wait("child")["TrainingJobStatus"] == "Completed"
    assert f"IS {FIRST}\n" in people.log("child")
    (host / "ml" / "go").touch()
    assert people.wait("parent")["TrainingJobStatus"] == "Completed"


def test_no_file_of_the_server_s_machine_can_be_named_as_a_job_s_source(
    team: tuple[Team, ServerProcess], kept: Path
) -> None:
    people, _ = team
    for place in (str(kept), f"file://{kept}", f'"{kept}"', str(people.home / "server")):
        source = {"sagemaker_submit_directory": place}
        with pytest.raises(people.client("ci").exceptions.ClientError) as refused:
            people.create("ci", "thief", "", HyperParameters=source)
        assert "sagemaker_submit_directory" in str(refused.value)


# What a script plants for its supervisor to find


def check_kept(machine: Machine, kept: Path) -> None:
    """The secret is nowhere but where it was, and nothing was put or removed there."""
    assert os.listdir(kept) == ["secret"]
    assert (kept / "secret").read_bytes() == SECRET
    for path in machine.settings.home.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert SECRET not in path.read_bytes(), path
    for archive in machine.settings.layout.buckets.rglob("*.tar.gz"):
        with tarfile.open(archive) as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isfile() else None
                assert file is None or SECRET not in file.read(), (archive, member.name)


PLANTS = """
import json, os, pathlib, shutil, sys
kept = os.environ["KEPT"]
for place, target in LINKS.items():
    path = pathlib.Path(place)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(kept + target)
print("PLANTED", flush=True)
sys.exit(int(os.environ["CODE"]))
"""
FOLDERS = (
    *("/opt/ml/model", "/opt/ml/output/data", "/opt/ml/output/intermediate"),
    *("/opt/ml/checkpoints", "/opt/ml/output/tensorboard", "/opt/ml/output/tensors"),
    *("/opt/ml/output/profiler", "/opt/ml/output/metrics/sagemaker"),
)
WATCHED = {
    "CheckpointConfig": CHECKPOINTS,
    "TensorBoardOutputConfig": {"S3OutputPath": "s3://bucket/curves"},
    "DebugHookConfig": {"S3OutputPath": "s3://bucket/tensors"},
    "ProfilerConfig": {"ProfilingIntervalInMilliseconds": 100},
}


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize(
    "links",
    [
        dict.fromkeys(FOLDERS, ""),
        {f"{place}/inside": "" for place in FOLDERS},
        {f"{place}/events.out.tfevents.1.x": "/secret" for place in FOLDERS}
        | {
            "/opt/ml/output/failure": "/secret",
            "/opt/ml/output/tensors/capture-errors.json": "/secret",
            "/opt/ml/output/metrics/sagemaker/m.json": "/secret",
            "/opt/ml/output/profiler/framework/pevents/1_x_pythontimeline.json.tmp": "/secret",
            "/opt/.trackside/script.json": "/secret",
        },
        {"/opt/ml/output": "", "/opt/ml/input": ""},
        {"/opt/ml/output/profiler/system": "", "/opt/ml/input/data": ""},
    ],
    ids=["folders", "inside", "files", "above", "written"],
)
def test_links_lead_the_supervisor_nowhere(
    machine: Machine, kept: Path, links: dict[str, str], code: int
) -> None:
    (kept / "secret").chmod(0o644)  # it is the folder that is closed
    environment = {"KEPT": str(kept), "CODE": str(code)}
    job = machine.run(f"LINKS = {links}\n{PLANTS}", Environment=environment, **WATCHED)
    assert "PLANTED" in job.log()
    check_kept(machine, kept)
    assert SECRET.decode() not in str(job.history())
    assert SECRET.decode() not in str(job.record())


def test_a_folder_that_turns_into_a_link_and_back_is_never_followed(
    machine: Machine, kept: Path
) -> None:
    """The race between a look and the reading, tried as fast as a script can."""
    script = """
import os, time
os.chdir("/opt/ml/checkpoints")
for name in ("real", "other"):
    os.mkdir(name)
open("real/secret", "w").write("x" * 31)
os.symlink(os.environ["KEPT"], "link")
end = time.monotonic() + 4
while time.monotonic() < end:
    os.rename("real", "folder"); os.utime("folder/secret"); os.rename("folder", "real")
    os.rename("link", "folder"); os.rename("folder", "link")
"""
    environment = {"KEPT": str(kept)}
    machine.run(script, Environment=environment, CheckpointConfig=CHECKPOINTS)
    check_kept(machine, kept)


def test_pipes_and_devices_hold_nobody_up(machine: Machine) -> None:
    script = """
import os
for place in ("model", "output/data", "output/intermediate", "output/metrics/sagemaker"):
    os.mkfifo(f"/opt/ml/{place}/pipe.json")
os.mkfifo("/opt/ml/output/failure")
os.mkfifo("/opt/.trackside/script.json")
open("/opt/ml/model/m", "w").write("trained")
os._exit(0)
"""
    job = machine.run(script)
    assert job.history().state.is_final
    assert job.model() == {"m": b"trained"}
