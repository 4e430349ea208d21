"""What a script sees and leaves behind: the contract, through a whole job."""

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from trackside.records.layout import JobKeys
from trackside.records.status import Secondary, Status

LOOK_AROUND = """
import json, os, socket, sys
say = lambda mark, value: print(mark, json.dumps(value), flush=True)
say("ARGV", sys.argv)
say("CWD", os.getcwd())
say("ENV", {k: v for k, v in os.environ.items() if k.startswith(("SM_", "TRAINING_JOB"))})
say("TREE", sorted(os.path.join(d, f)[8:] for d, _, fs in os.walk("/opt/ml") for f in fs))
say("FOLDERS", sorted(os.listdir("/opt/ml")))
say("HOST", [socket.gethostname(), socket.gethostbyname(os.environ["SM_CURRENT_HOST"])])
say("RESOURCE", json.load(open("/opt/ml/input/config/resourceconfig.json")))
open("/opt/ml/model/weights.bin", "wb").write(b"w" * 5000)
open("/opt/ml/output/data/eval.json", "w").write("{}")
"""


def test_a_script_meets_the_contract_and_its_results_are_kept(machine, tmp_path):
    data = tmp_path / "my data"
    data.mkdir()
    (data / "a.csv").write_text("1,2\n")
    channel = {
        "ChannelName": "training",
        "DataSource": {"S3DataSource": {"S3Uri": str(data)}},
        "ContentType": "text/csv",
    }
    job = machine.run(
        LOOK_AROUND,
        hyperparameters={"batch-size": "256", "learning-rate": "0.0001", "tag": '"a b"'},
        InputDataConfig=[channel],
    )
    assert job.describe()["TrainingJobStatus"] == "Completed", job.log()
    arguments = ["--batch-size", "256", "--learning-rate", "0.0001", "--tag", "a b"]
    assert json.loads(job.said("ARGV")) == ["train.py", *arguments]
    assert json.loads(job.said("CWD")) == "/opt/ml/code"
    environment = json.loads(job.said("ENV"))
    assert environment["SM_CHANNEL_TRAINING"] == "/opt/ml/input/data/training"
    assert environment["SM_MODEL_DIR"] == "/opt/ml/model"
    assert environment["SM_HP_BATCH-SIZE"] == "256"
    assert json.loads(environment["SM_HPS"])["tag"] == "a b"
    assert environment["TRAINING_JOB_NAME"] == job.name
    tree = json.loads(job.said("TREE"))
    assert "input/data/training/a.csv" in tree
    assert "code/train.py" in tree
    for name in ("hyperparameters", "inputdataconfig", "resourceconfig", "trainingjobconfig"):
        assert f"input/config/{name}.json" in tree
    hostname, address = json.loads(job.said("HOST"))
    assert hostname == "algo-1"
    assert address.startswith("127.")
    assert json.loads(job.said("RESOURCE"))["current_host"] == "algo-1"
    assert job.model() == {"weights.bin": b"w" * 5000}
    assert job.output_data() == {"eval.json": b"{}"}
    assert sorted(data.iterdir()) == [data / "a.csv"]


def test_a_finished_job_has_the_service_s_history_and_frees_its_disk(machine):
    job = machine.run("print('done')")
    history = job.history()
    assert [transition.secondary for transition in history.transitions] == [
        Secondary.STARTING,
        Secondary.DOWNLOADING,
        Secondary.TRAINING,
        Secondary.UPLOADING,
        Secondary.COMPLETED,
    ]
    keys = JobKeys.of(job.spec)
    assert job.stored(keys.journal) == job.folder.journal.read_bytes()
    [model] = json.loads(job.stored(keys.artifacts))
    assert model["uri"] == keys.model == "s3://bucket/out/job-1/output/model.tar.gz"
    assert model["size_bytes"] == len(job.stored(keys.model))
    assert not job.host().ml.exists()
    assert job.lines()[-2] == "done"


def test_nothing_of_a_job_is_left_on_the_machine(machine):
    before = set(os.listdir("/opt"))
    job = machine.run("import os; os.makedirs('/opt/ml/model/deep'); print('x')")
    assert job.history().state.status is Status.COMPLETED
    assert set(os.listdir("/opt")) == before


def test_two_jobs_at_once_do_not_see_each_other(machine):
    script = """
import os, time, pathlib
mine = pathlib.Path("/opt/ml/model") / os.environ["TRAINING_JOB_NAME"]
mine.write_text("mine")
time.sleep(1.0)
print("SEEN", sorted(os.listdir("/opt/ml/model")), flush=True)
"""
    jobs = [machine.submit(script), machine.submit(script)]
    for job in jobs:
        assert job.wait().state.status is Status.COMPLETED
        assert list(job.model()) == [job.name]


def test_a_shell_script_gets_the_same_arguments_and_variables(machine):
    job = machine.run(
        {"run.sh": '#!/bin/sh\necho "GOT $@ $SM_HP_EPOCHS"\necho weights > $SM_MODEL_DIR/w.txt\n'},
        entry_point="run.sh",
        hyperparameters={"epochs": "3"},
    )
    assert job.said("GOT") == "--epochs 3 3"
    assert job.model() == {"w.txt": b"weights\n"}


def test_an_uncompressed_model_is_uploaded_file_by_file(machine):
    job = machine.run(
        "import os; os.makedirs('/opt/ml/model/a'); open('/opt/ml/model/a/b.txt','w').write('hi')",
        OutputDataConfig={"S3OutputPath": "s3://bucket/out", "CompressionType": "NONE"},
    )
    assert job.stored("s3://bucket/out/job-1/output/model/a/b.txt") == b"hi"


def test_output_goes_to_a_plain_folder_too(machine, tmp_path):
    target = tmp_path / "results here"
    job = machine.run("print('x')", OutputDataConfig={"S3OutputPath": str(target)})
    assert job.history().state.status is Status.COMPLETED
    assert (target / job.name / "output" / "model.tar.gz").is_file()


def test_output_and_channels_live_on_a_real_s3_server(machine, s3_server, monkeypatch, tmp_path):
    from tests.e2e.conftest import Machine

    bucket = s3_server.make_bucket()
    client = s3_server.client()
    for number in range(30):
        client.put_object(Bucket=bucket, Key=f"data/part-{number:02d}.txt", Body=b"x" * number)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    elsewhere = Machine(tmp_path, dict(os.environ))
    channel = {
        "ChannelName": "training",
        "DataSource": {"S3DataSource": {"S3Uri": f"s3://{bucket}/data/"}},
    }
    job = elsewhere.run(
        "import os; n = sorted(os.listdir('/opt/ml/input/data/training'))\n"
        "print('NAMES', len(n), n[0], flush=True)\n"
        "open('/opt/ml/model/m', 'w').write('model')",
        InputDataConfig=[channel],
        OutputDataConfig={"S3OutputPath": f"s3://{bucket}/out"},
    )
    assert job.history().state.status is Status.COMPLETED, job.history().failure_reason
    assert job.said("NAMES") == "30 part-00.txt"
    assert job.model() == {"m": b"model"}
    keys = {
        entry["Key"]
        for entry in client.list_objects_v2(Bucket=bucket, Prefix=f"out/{job.name}/")["Contents"]
    }
    assert f"out/{job.name}/output/model.tar.gz" in keys
    assert f"out/{job.name}/trackside/journal.jsonl" in keys
    assert client.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []


def test_requirements_go_into_an_overlay_and_never_into_the_user_s_environment(machine, tmp_path):
    package = tmp_path / "speckle"
    package.mkdir()
    (package / "setup.py").write_text(
        "from setuptools import setup; setup(name='speckle', version='1.0', py_modules=['speckle'])"
    )
    (package / "speckle.py").write_text("COLOUR = 'green'")
    wheel = build_wheel(package, tmp_path)
    files = {
        "train.py": "import speckle, sys; print('COLOUR', speckle.COLOUR, sys.prefix, flush=True)",
        "requirements.txt": f"{wheel}\n",
    }
    job = machine.run(files)
    assert job.history().state.status is Status.COMPLETED, job.log()
    assert job.said("COLOUR").startswith("green")
    import sys

    absent = subprocess.run([sys.executable, "-c", "import speckle"], capture_output=True)
    assert absent.returncode != 0


def build_wheel(package: Path, target: Path) -> Path:
    """A wheel by hand: no build tool, no network."""
    import zipfile

    wheel = target / "speckle-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(package / "speckle.py", "speckle.py")
        meta = "speckle-1.0.dist-info"
        archive.writestr(f"{meta}/METADATA", "Metadata-Version: 2.1\nName: speckle\nVersion: 1.0\n")
        archive.writestr(
            f"{meta}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(
            f"{meta}/RECORD", f"speckle.py,,\n{meta}/METADATA,,\n{meta}/WHEEL,,\n{meta}/RECORD,,\n"
        )
    return wheel


def test_a_requirement_that_cannot_be_had_fails_the_job_in_pip_s_words(machine):
    files = {"train.py": "print('never')", "requirements.txt": "/no/such/place/x-1.0.whl\n"}
    job = machine.run(files)
    reason = job.describe()["FailureReason"]
    assert "InstallRequirementsError" in reason
    assert "x-1.0.whl" in reason
    assert "never" not in job.log()


@pytest.mark.parametrize("kind", ["none", "user"])
def test_a_job_runs_under_every_kind_of_isolation(tmp_path, monkeypatch, kind):
    from tests.e2e.conftest import Machine

    monkeypatch.setenv("TRACKSIDE_ISOLATION", kind)
    machine = Machine(tmp_path, dict(os.environ))
    job = machine.run(
        "import os; print('BASE', os.environ['SM_MODEL_DIR'], flush=True)\n"
        "open(os.environ['SM_MODEL_DIR'] + '/m', 'w').write(os.environ['SM_CURRENT_HOST'])"
    )
    assert job.history().state.status is Status.COMPLETED, job.log()
    assert job.record().isolation == kind
    assert job.model() == {"m": b"algo-1"}
    assert (job.said("BASE") == "/opt/ml/model") is (kind == "user")


def test_the_machine_s_own_name_stays(machine):
    before = socket.gethostname()
    machine.run("import socket; assert socket.gethostname() == 'algo-1'")
    assert socket.gethostname() == before
