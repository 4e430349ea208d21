"""Images as their users name them: in the shell, in the SDK, in Local Mode and over the API."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.client_shell import HURRIED, ClientShell, client_shell
from tests.docker_engine import PYTHON, SHELL, docker, docker_engine
from tests.e2e.conftest import Machine
from tests.image_registry import running_registry
from tests.server_process import ServerProcess
from trackside.api.keys import AccessKeys, Rights
from trackside.records.layout import Home
from trackside.sdk.estimator import Estimator
from trackside.sdk.job import attach

TRACKSIDE = (sys.executable, "-m", "trackside.cli")
TRAIN = """
import json, os, sys
hosts = json.loads(os.environ["SM_HOSTS"])
channel = os.environ.get("SM_CHANNEL_TRAINING")
print("TRAINED", sys.argv[1:], hosts, sorted(os.listdir(channel)) if channel else [], flush=True)
with open(os.path.join(os.environ["SM_MODEL_DIR"], os.environ["SM_CURRENT_HOST"]), "w") as file:
    file.write(sys.version)
"""
DOCKERFILE_004 = """
FROM {base}

RUN pip install sagemaker-training-toolkit

# Copies the training code inside the container
COPY train.py /opt/ml/code/train.py

# Defines train.py as script entry point
ENV SAGEMAKER_PROGRAM train.py
"""
PIP = "[global]\nno-index = true\nfind-links = /wheels\nbreak-system-packages = true\n"


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_HOST", docker_engine())
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("1\n")
    return tmp_path


@pytest.fixture
def tag() -> Iterator[str]:
    """The name of an image that the test makes."""
    name = f"trackside-test/e2e-{os.getpid()}"
    yield name
    remove_image(name)


def remove_image(name: str) -> None:
    if docker("images", "-q", name):
        docker("rmi", "--force", name)


def trackside(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRACKSIDE, *arguments], capture_output=True, text=True, env={**os.environ, **environ}
    )


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture
def image(tag: str) -> str:
    """With train.py in it."""
    Path("Dockerfile").write_text(
        f"FROM {PYTHON}\nCOPY train.py /opt/ml/code/train.py\nENV SAGEMAKER_PROGRAM train.py\n"
    )
    docker("build", "--quiet", "--tag", tag, ".")
    return tag


def base_image(folder: Path, name: str) -> None:
    """Has an empty package of the name that seed 004 installs: no index is needed."""
    folder.mkdir()
    wheel = "sagemaker_training_toolkit-1.0-py3-none-any.whl"
    info = "sagemaker_training_toolkit-1.0.dist-info"
    with zipfile.ZipFile(folder / wheel, "w") as packed:
        head = "Metadata-Version: 2.1\nName: sagemaker-training-toolkit\nVersion: 1.0\n"
        packed.writestr(f"{info}/METADATA", head)
        packed.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        packed.writestr(f"{info}/RECORD", "")
    (folder / "pip.conf").write_text(PIP)
    (folder / "Dockerfile").write_text(
        f"FROM {PYTHON}\nCOPY {wheel} /wheels/\nCOPY pip.conf /etc/pip.conf\n"
    )
    docker("build", "--quiet", "--tag", name, str(folder))


def test_seed_004_dockerfile_and_estimator_run_as_written(
    machine: Machine, tmp_path: Path, tag: str, capfd: pytest.CaptureFixture[str]
) -> None:
    base_image(tmp_path / "base", tag)
    Path("Dockerfile").write_text(DOCKERFILE_004.format(base=tag))
    docker("build", "-t", "tf-2.0", ".")
    try:
        with pytest.warns(FutureWarning):
            estimator = Estimator(  # type: ignore[call-arg]  # old names
                image_name="tf-2.0",
                role="SageMakerRole",
                train_instance_count=1,
                train_instance_type="local",
            )
        estimator.fit()
    finally:
        remove_image("tf-2.0")
    assert "TRAINED [] ['algo-1'] []" in capfd.readouterr().out
    assert estimator.model_data.endswith("/output/model.tar.gz")


def test_an_estimator_with_several_hosts(machine: Machine, image: str) -> None:
    estimator = Estimator(
        image_uri=image,
        instance_count=2,
        instance_type="local",
        hyperparameters={"epochs": 3},
    )
    estimator.fit({"training": "data"}, wait=False)
    job = estimator.latest_training_job
    assert job is not None
    job.wait(logs="None")
    log = "".join(map(str, job.logs()))
    assert log.count("TRAINED ['--epochs', '3'] ['algo-1', 'algo-2'] ['a.csv']") == 2


def test_an_image_is_built_run_and_shown(machine: Machine, tag: str) -> None:
    Path("src").mkdir()
    Path("train.py").rename("src/train.py")
    built = said(
        trackside("image", "build", "train.py", "--source-dir", "src", "-t", tag, "--base", PYTHON)
    )
    assert "Wrote src/Dockerfile\n" in built
    assert "COPY . /opt/ml/code/" in Path("src/Dockerfile").read_text()
    image_id = docker("image", "inspect", "--format", "{{.Id}}", tag)
    assert f"Built {tag} ({image_id})" in built
    again = trackside("image", "build", "train.py", "--source-dir", "src", "-t", tag)
    assert "Using src/Dockerfile\n" in said(again)
    assert "Using cache" in again.stdout
    ran = said(
        trackside(
            *("run", "--image", tag, "-p", "epochs=3", "--channel", "training=./data"),
            *("--wait", "--name", "job-1"),
        )
    )
    assert "TRAINED ['--epochs', '3'] ['algo-1'] ['a.csv']" in ran
    shown = said(trackside("show", "job-1"))
    assert tag in shown
    assert image_id in shown
    assert (
        f"trackside run --channel training={Path('data').resolve()} -p epochs=3 --image {tag}"
        in (" ".join(shown.split()))
    )


def test_a_script_runs_in_somebodys_image(machine: Machine) -> None:
    limits = ("--cores", "1", "--memory", "1g", "--shm", "64m")
    ran = said(trackside("run", "train.py", "--image", PYTHON, "--wait", *limits, "--name", "j"))
    assert "TRAINED [] ['algo-1'] []" in ran
    assert "Limited to 1 core and 1 GB of memory." in said(trackside("show", "j"))


def test_the_files_of_an_image_can_be_protected(machine: Machine) -> None:
    Path("train.py").write_text(
        "import tempfile\n"
        "for path in ('/etc/new', '/opt/ml/model/m', tempfile.mktemp()):\n"
        "    try:\n"
        "        open(path, 'w').write('x')\n"
        "    except OSError as error:\n"
        "        print('REFUSED', path, error.strerror)\n"
    )
    run = ("run", "train.py", "--image", PYTHON, "--read-only", "--wait", "--name", "j")
    ran = said(trackside(*run))
    assert ran.count("REFUSED") == 1
    assert "REFUSED /etc/new Read-only file system" in ran
    assert f"--image {PYTHON} --read-only" in " ".join(said(trackside("show", "j")).split())
    refused = trackside("run", "train.py", "--read-only")
    assert refused.returncode == 2
    assert "give" in refused.stderr


def test_a_missing_image_is_one_sentence_and_no_job(machine: Machine) -> None:
    done = trackside("run", "train.py", "--image", "127.0.0.1:1/no-such")
    assert done.returncode == 2
    assert done.stderr.startswith("Error: There is no image '127.0.0.1:1/no-such' on this machine")
    assert "`docker login 127.0.0.1:1`" in done.stderr
    assert machine.jobs.list() == []


def test_a_pull_is_shown_in_lines(machine: Machine, tmp_path: Path) -> None:
    with running_registry(tmp_path) as registry:
        name = registry.push(PYTHON, "python")
        ran = trackside("run", "train.py", "--image", name, "--wait", "--name", "job-1")
    docker("rmi", name)
    assert "TRAINED" in said(ran)
    assert f"Pulling {name}\n" in ran.stderr
    assert f"{name}@sha256:" in said(trackside("show", "job-1"))


# A server


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[ClientShell]:
    with client_shell(tmp_path, server_options=("--sandbox", "docker")) as shell:
        yield shell


LOCAL_MODE = """
import json, sagemaker
from sagemaker.estimator import Estimator
estimator = Estimator(image_uri={image!r}, role="SageMakerRole", instance_count=1,
    instance_type="local", hyperparameters={{"epochs": 3}})
estimator.fit({{"training": "file://./data"}})
print(json.dumps({{"model": estimator.model_data,
    "session": type(estimator.sagemaker_session).__name__,
    "job": estimator.latest_training_job.name}}))
"""
LOCAL_CODE = """
import json
from sagemaker.estimator import Estimator
from sagemaker.local import LocalSession
session = LocalSession()
session.config = {{"local": {{"local_code": True}}}}
estimator = Estimator(image_uri={image!r}, role="SageMakerRole", instance_count=2,
    instance_type="local", entry_point="train.py", source_dir="code", sagemaker_session=session)
estimator.fit()
print(json.dumps(estimator.latest_training_job.describe()["TrainingJobStatus"]))
"""
OLD_LOCAL_MODE = """
import json
from sagemaker.estimator import Estimator
estimator = Estimator(image_name={image!r}, role="SageMakerRole", train_instance_count=1,
    train_instance_type="local")
estimator.fit("file://./data")
print(json.dumps(estimator.model_data))
"""


def test_local_mode_code_of_the_real_sdk_runs_at_the_server(shell: ClientShell, image: str) -> None:
    shown, reported = shell.python(HURRIED + LOCAL_MODE.format(image=image))
    assert "TRAINED ['--epochs', '3'] ['algo-1'] ['a.csv']" in shown
    assert reported["session"] == "LocalSession"
    assert reported["model"].startswith("s3://")
    described = attach(reported["job"]).describe()
    assert described["Trackside"]["options"]["Sandbox"] == "docker"


def test_local_code_is_sent_to_the_server(shell: ClientShell, workplace: Path) -> None:
    (workplace / "code").mkdir()
    Path("train.py").rename("code/train.py")
    shown, status = shell.python(HURRIED + LOCAL_CODE.format(image=PYTHON))
    assert status == "Completed"
    assert shown.count("['algo-1', 'algo-2']") >= 2


@pytest.mark.nightly
def test_local_mode_code_of_the_first_sdk_runs_at_the_server(
    shell: ClientShell, image: str
) -> None:
    shown, model = shell.python(HURRIED + OLD_LOCAL_MODE.format(image=image), sdk=1)
    assert "TRAINED" in shown
    assert model.startswith("s3://")


def request_for(server: ServerProcess, image: str, **more: object) -> dict[str, object]:
    return {
        "TrainingJobName": f"job-{os.urandom(4).hex()}",
        "RoleArn": "arn:aws:iam::000000000000:role/x",
        "AlgorithmSpecification": {"TrainingImage": image, "TrainingInputMode": "File", **more},
        "OutputDataConfig": {"S3OutputPath": "s3://trackside/out"},
        "ResourceConfig": {
            "InstanceType": "ml.m5.large",
            "InstanceCount": 1,
            "VolumeSizeInGB": 1,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
    }


def client(server: ServerProcess, rights: Rights) -> "boto3.client":
    key, secret = AccessKeys(Home(server.home).server.root).create("team", rights)
    return boto3.client(
        "sagemaker",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=key.id,
        aws_secret_access_key=secret,
    )


def test_keys_that_may_submit_name_only_images_of_the_settings(tmp_path: Path, image: str) -> None:
    settings = {
        "TRACKSIDE_SANDBOX": "docker",
        "TRACKSIDE_IMAGES": f"pytorch-training:*=docker:{image}",
        "TRACKSIDE_ALLOW_IMAGES": f"{SHELL},registry.example/team/*",
    }
    with ServerProcess(tmp_path / "home", **settings) as server:
        team, admin = client(server, Rights.SUBMIT), client(server, Rights.ADMIN)
        with pytest.raises(team.exceptions.ClientError) as refused:
            team.create_training_job(**request_for(server, "evil.example/x:1"))
        named = "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.1-cpu-py310"
        done = [
            run(team, request_for(server, named)),
            run(
                team,
                request_for(
                    server,
                    SHELL,
                    ContainerEntrypoint=["/bin/sh", "-c"],
                    ContainerArguments=["cat /opt/ml/input/config/resourceconfig.json"],
                ),
            ),
            run(admin, request_for(server, image)),
        ]
        bare = request_for(server, image)
        bare["AlgorithmSpecification"] = {"TrainingInputMode": "File"}
        bare["HyperParameters"] = {"sagemaker_program": "train.py"}
        with pytest.raises(team.exceptions.ClientError) as without:
            admin.create_training_job(**bare)
    error = refused.value.response["Error"]
    assert error["Code"] == "ValidationException"
    assert "'evil.example/x:1' at 'algorithmSpecification.trainingImage'" in error["Message"]
    assert "may run pytorch-training:*, " in error["Message"]
    assert "TRACKSIDE_IMAGES and TRACKSIDE_ALLOW_IMAGES" in error["Message"]
    assert [each["TrainingJobStatus"] for each in done] == ["Completed"] * 3
    assert done[0]["AlgorithmSpecification"]["TrainingImage"] == named
    assert "'*=docker:IMAGE'" in without.value.response["Error"]["Message"]


def run(sagemaker: "boto3.client", request: dict[str, object]) -> dict[str, Any]:
    sagemaker.create_training_job(**request)
    name = request["TrainingJobName"]
    sagemaker.get_waiter("training_job_completed_or_stopped").wait(
        TrainingJobName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 120}
    )
    described: dict[str, Any] = sagemaker.describe_training_job(TrainingJobName=name)
    return described


def test_a_server_pulls_a_missing_image_and_keeps_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        running_registry(tmp_path) as registry,
        ServerProcess(tmp_path / "home", TRACKSIDE_SANDBOX="docker") as server,
    ):
        name = registry.push(PYTHON, "python")
        server.use(monkeypatch)
        ran = said(trackside("run", "train.py", "--image", name, "--wait", "--name", "job-1"))
        shown = said(trackside("show", "job-1"))
        missed = trackside("run", "train.py", "--image", f"{name}-2", "--wait", "--name", "job-2")
        died = json.loads(said(trackside("show", "job-2", "--json")))["Trackside"]["death"]
    docker("rmi", name)
    assert "TRAINED" in ran
    assert docker("image", "inspect", "--format", "{{.Id}}", PYTHON) in shown
    assert missed.returncode == 1
    assert "There is no image" in missed.stdout + missed.stderr
    assert died == {"cause": "image", "host": "algo-1", "attempt": 1}


def test_a_server_without_an_engine_does_not_start(tmp_path: Path) -> None:
    away = {"DOCKER_HOST": f"unix://{tmp_path}/no.sock"}
    done = trackside("server", "--sandbox", "docker", "--listen", "127.0.0.1:0", **away)
    assert done.returncode == 2
    assert "--sandbox docker runs jobs in containers. No Docker engine at" in done.stderr
    table = {"TRACKSIDE_IMAGES": f"*={sys.executable}"}
    done = trackside("server", "--sandbox", "docker", "--listen", "127.0.0.1:0", **table)
    assert "TRACKSIDE_IMAGES names interpreters" in done.stderr


def test_the_table_alone_runs_some_jobs_in_containers(
    tmp_path: Path, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = f"theirs*=docker:{image}"
    with ServerProcess(tmp_path / "home", TRACKSIDE_IMAGES=table) as server:
        server.use(monkeypatch)
        said(trackside("run", "--image", "theirs:1", "--wait", "--name", "a"))
        said(trackside("run", "train.py", "--image", "ours:1", "--wait", "--name", "b"))
        described = [json.loads(said(trackside("show", name, "--json"))) for name in "ab"]
    sandboxes = [each["Trackside"]["options"].get("Sandbox", "process") for each in described]
    assert sandboxes == ["docker", "process"]
