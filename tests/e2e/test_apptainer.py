"""A job in an image on a node without an engine: by a true Apptainer (`.ci/apptainer`), and by
`tests/recorded_apptainer.py`, which records its arguments and runs commands on this machine."""

import io
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import recorded_apptainer
from tests.apptainer_program import PYTHON, SHELL, apptainer_program
from tests.conftest import S3Server, environment_for
from tests.contract.toy_placement import ToyPlacement, free
from tests.e2e.conftest import Job, Machine, end
from tests.job_processes import end_processes_of
from trackside.containers.engine_client import find_engine
from trackside.placement import choose
from trackside.records.layout import JobFolder, JobKeys
from trackside.records.spec import JobSpec
from trackside.records.status import Status

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="the stand-in mounts folders, as root"),
    pytest.mark.skipif(
        os.path.exists(find_engine({}).removeprefix("unix://")), reason="there is an engine"
    ),
]

SCRIPT = """
import json, os
with open("/opt/ml/model/seen.json", "w") as file:
    json.dump({key: os.environ.get(key) for key in ("ASKED_FOR", "HOME", "TRACKSIDE_NONCE")}, file)
print("in an image")
"""


class Submitter(Machine):
    bucket = ""

    def place(self, script: str, name: str, image: str) -> Job:
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz") as tar:
            info = tarfile.TarInfo("train.py")
            info.size = len(script)
            tar.addfile(info, io.BytesIO(script.encode()))
        keys = JobKeys(f"s3://{self.bucket}/out", name)
        spec = JobSpec.from_request(
            {
                "TrainingJobName": name,
                "AlgorithmSpecification": {"TrainingImage": image, "TrainingInputMode": "File"},
                "HyperParameters": {
                    "sagemaker_program": "train.py",
                    "sagemaker_submit_directory": keys.source,
                },
                "OutputDataConfig": {"S3OutputPath": keys.output},
                "Environment": {"ASKED_FOR": "hush-4711"},
                "Trackside": {"Placement": "toy", "Sandbox": "docker"},
            }
        )
        self.jobs.submit(spec, source=[content.getvalue()])
        return Job(self, name)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = recorded_apptainer.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.fixture
def true_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = Path(apptainer_program()).parent
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("APPTAINER_CACHEDIR", str(tmp_path / "cache"))


@pytest.fixture
def submitter(
    s3_server: S3Server,
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Submitter]:
    for name, value in environment_for(s3_server.url).items():
        monkeypatch.setenv(name, value)
    cluster = tmp_path / "cluster"
    cluster.mkdir()
    monkeypatch.setattr(ToyPlacement, "cluster", cluster, raising=False)
    monkeypatch.setitem(choose.PLACEMENTS, "toy", f"{ToyPlacement.__module__}:ToyPlacement")
    machine = Submitter(tmp_path, dict(os.environ))
    machine.bucket = bucket
    yield machine
    for job in cluster.glob("machines/*/jobs/*"):
        end(JobFolder(job))
    end_processes_of(cluster)
    free(cluster)
    end_processes_of(machine.settings.home)


def test_a_node_without_an_engine_runs_images_by_apptainer(programs: Path, submitter: Submitter):
    job = submitter.place(SCRIPT, "in-an-image", "registry.example.com/torch:2")
    over = job.wait()
    assert over.state.status is Status.COMPLETED, over.failure_reason
    assert "in an image" in "\n".join(job.lines())
    seen = json.loads(job.model()["seen.json"])
    assert (seen["ASKED_FOR"], seen["HOME"]) == ("hush-4711", "/opt/.trackside/home")
    assert seen["TRACKSIDE_NONCE"], "its processes can be found"
    pull, run = recorded_apptainer.calls(programs)
    assert pull["words"][-1] == "docker://registry.example.com/torch:2"
    assert run["flags"] == ["--containall", "--writable-tmpfs"]
    mounted = [value for option, value in run["values"] if option == "--mount"]
    assert any(value.endswith("destination=/opt/ml") for value in mounted)
    assert "hush-4711" not in json.dumps([pull, run["values"], run["words"]])


@pytest.mark.usefixtures("programs")
def test_an_image_that_cannot_be_pulled_is_the_cause(submitter: Submitter):
    over = submitter.place(SCRIPT, "no-image", "missing:1").wait()
    assert over.state.status is Status.FAILED
    assert "manifest unknown" in (over.failure_reason or "")
    assert over.death is not None
    assert over.death.cause == "image"


TRUE_SCRIPT = """
import json, os, sys
seen = {key: os.environ.get(key) for key in ("ASKED_FOR", "HOME", "SM_MODEL_DIR")}
seen |= {"version": sys.version, "tmp": os.listdir("/tmp"), "home": os.listdir(os.environ["HOME"])}
open("/opt/ml/model/seen.json", "w").write(json.dumps(seen))
print("in an image")
"""


@pytest.mark.usefixtures("true_program")
def test_a_true_apptainer_runs_a_job(submitter: Submitter):
    job = submitter.place(TRUE_SCRIPT, "in-a-true-image", str(PYTHON))
    over = job.wait()
    assert over.state.status is Status.COMPLETED, over.failure_reason
    assert "in an image" in "\n".join(job.lines())
    seen = json.loads(job.model()["seen.json"])
    assert (seen["ASKED_FOR"], seen["HOME"]) == ("hush-4711", "/opt/.trackside/home")
    assert seen["version"].startswith("3.11.2 "), "the image's own"
    assert seen["SM_MODEL_DIR"] == "/opt/ml/model"
    assert seen["tmp"] == []


@pytest.mark.usefixtures("true_program")
@pytest.mark.parametrize(
    ("name", "script", "image", "cause", "reason"),
    [
        ("raises", "raise ValueError('too bad')", PYTHON, "code", "too bad"),
        ("killed", "import os; os.kill(os.getpid(), 9)", PYTHON, "signal", "SIGKILL"),
        ("empty", "print(1)", SHELL, "image", "ython"),
    ],
)
def test_how_a_script_dies_by_a_true_apptainer(
    submitter: Submitter, name: str, script: str, image: Path, cause: str, reason: str
):
    over = submitter.place(script, name, str(image)).wait()
    assert over.state.status is Status.FAILED
    assert over.death is not None
    assert (over.death.cause, reason in (over.failure_reason or "")) == (cause, True), (
        over.death,
        over.failure_reason,
    )
