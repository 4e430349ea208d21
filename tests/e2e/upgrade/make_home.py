"""Makes a home as an older Trackside wrote it, for `test_upgrade.py`. Run once for each release:

    mkdir /tmp/old && git archive COMMIT src | tar -x -C /tmp/old
    python tests/e2e/upgrade/make_home.py /tmp/old/src tests/e2e/upgrade/home-COMMIT.tar.gz

As root on Linux. That version's own server runs real jobs, asked by boto3, in a mount namespace
where everything is below /srv: no path of this machine gets into the archive. Beside the home it
holds `expected.json`, what the test compares with. Times and ids differ from run to run.
"""

import gzip
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOP = Path("/srv")
CODE, VENV, BASE, HOME, RELEASE = (
    TOP / name for name in ("code", "venv", "python", "trackside", "release")
)
PYTHON = str(VENV / "bin" / "python")
ROLE = "arn:aws:iam::000000000000:role/SageMakerRole"
IMAGE = "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.1-cpu-py310"
BUCKET = "team-data"
METRICS = [{"Name": "train:loss", "Regex": "loss=([0-9.]+)"}]
RULE = {
    "RuleConfigurationName": "LossNotDecreasing",
    "RuleEvaluatorImage": "503895931360.dkr.ecr.us-east-1.amazonaws.com/sagemaker-debugger-rules",
    "RuleParameters": {"rule_to_invoke": "LossNotDecreasing", "num_steps": "2"},
}
HOOK = {
    "S3OutputPath": f"s3://{BUCKET}/tensors",
    "CollectionConfigurations": [
        {"CollectionName": "losses", "CollectionParameters": {"save_interval": "1"}}
    ],
}

PLAIN = """
import os
for step in range(5):
    print(f"step={step} loss={1 / (step + 1):.3f}", flush=True)
os.makedirs("/opt/ml/checkpoints", exist_ok=True)
open("/opt/ml/checkpoints/last.pt", "w").write("checkpoint")
open(os.path.join(os.environ["SM_MODEL_DIR"], "weights.bin"), "wb").write(b"weights " * 100)
"""
FAILS = """
print("before the failure", flush=True)
raise ValueError("the data has no labels")
"""
WAITS_FOR_RELEASE = f"""
import os, time
print("waiting", flush=True)
while not os.path.exists("{RELEASE}"): time.sleep(0.05)
open("/opt/ml/model/weights.bin", "wb").write(b"held")
"""
CUT = """
import os, time
if os.path.exists("/opt/ml/checkpoints/half.pt"):
    print("taken up again", flush=True)
    open("/opt/ml/model/weights.bin", "wb").write(b"whole")
else:
    open("/opt/ml/checkpoints/half.pt", "w").write("half")
    print("half way", flush=True)
    time.sleep(3600)
"""
RISES = """
import torch
model, loss_of = torch.nn.Linear(2, 1), torch.nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=3.0)
inputs, targets = torch.ones(8, 2), torch.zeros(8, 1)
for step in range(12):
    optimizer.zero_grad()
    loss = loss_of(model(inputs), targets)
    loss.backward()
    optimizer.step()
    print(f"loss={loss.item():.1f}", flush=True)
"""


def main(source: Path, archive: Path) -> None:
    """Start again in a mount namespace, and there make all that has a name below /srv."""
    inner = [sys.executable, __file__, "--inside", str(source.resolve()), str(archive.resolve())]
    subprocess.run(["unshare", "--mount", "--propagation", "private", *inner], check=True)


def inside(source: Path, archive: Path) -> None:
    _mount("-t", "tmpfs", "tmpfs", TOP)
    for path, origin in ((CODE, source), (VENV, sys.prefix), (BASE, sys.base_prefix)):
        path.mkdir()
        _mount("--bind", origin, path)
    config = TOP / "pyvenv.cfg"
    config.write_text(f"home = {BASE}/bin\ninclude-system-site-packages = false\n")
    _mount("--bind", config, VENV / "pyvenv.cfg")
    expected = made()
    written = packed(expected)
    archive.write_bytes(written)
    sys.stdout.write(f"{archive.name}: {len(written)} bytes, {len(expected['jobs'])} jobs\n")


def made() -> dict[str, Any]:
    keys = {label: _key(label, *more) for label, more in KEYS.items()}
    port = _free_port()
    server = _served(port)
    try:
        expected = _used(port, keys)
        _stop(server)
        placed = json.loads((HOME / "jobs/cut/hosts/algo-1/1/placed.json").read_bytes())
        _kill(placed["nonce"])
        RELEASE.touch()
        _until(lambda: not _processes(), 120)
    finally:
        _stop(server)
        _kill()
    return {**expected, "keys": keys}


KEYS = {
    "operator": ("--rights", "admin"),
    "alice": ("--rights", "submit", "--limit", "1"),
    "viewer": ("--rights", "read"),
}


def _used(port: int, keys: dict[str, Any]) -> dict[str, Any]:
    def client(service: str, label: str) -> Any:
        import boto3

        return boto3.client(
            service,
            endpoint_url=f"http://127.0.0.1:{port}",
            region_name="us-east-1",
            aws_access_key_id=keys[label]["id"],
            aws_secret_access_key=keys[label]["secret"],
        )

    s3 = client("s3", "operator")
    operator, alice = client("sagemaker", "operator"), client("sagemaker", "alice")
    upload = _objects(s3)
    _create(operator, s3, "cleared", PLAIN)
    _ended(operator, "cleared")
    _until(lambda: not _processes(f"{HOME}/jobs/cleared"))
    _until(lambda: operator.list_training_jobs(StatusEquals="Completed")["TrainingJobSummaries"])
    shutil.rmtree(HOME / "jobs" / "cleared")  # by hand, as before there was `trackside gc`
    _create(operator, s3, "plain", PLAIN, metrics=METRICS, **_checkpoints("plain"))
    _create(operator, s3, "fails", FAILS)
    rules = {"DebugHookConfig": HOOK, "DebugRuleConfigurations": [RULE]}
    _create(operator, s3, "watched", RISES, metrics=METRICS, **rules)
    for name, status in (("plain", "Completed"), ("fails", "Failed"), ("watched", "Completed")):
        _ended(operator, name, status)
    _until(lambda: _rule(operator)["RuleEvaluationStatus"] == "IssuesFound", 120)
    _create(operator, s3, "stopped", WAITS_FOR_RELEASE)
    _in(operator, "stopped", "Training")
    operator.stop_training_job(TrainingJobName="stopped")
    _ended(operator, "stopped", "Stopped")
    _until(lambda: not _processes(f"{HOME}/jobs/"))
    _create(
        operator, s3, "cut", CUT, RetryStrategy={"MaximumRetryAttempts": 1}, **_checkpoints("cut")
    )
    _create(alice, s3, "holder", WAITS_FOR_RELEASE)
    _until(lambda: (HOME / "buckets" / BUCKET / "cut-checkpoints" / "half.pt").exists(), 120)
    _in(alice, "holder", "Training")
    _create(alice, s3, "waits", PLAIN)
    _in(alice, "waits", "Pending")
    statuses = {
        "cleared": "Completed",
        "plain": "Completed",
        "fails": "Failed",
        "watched": "Completed",
    }
    statuses |= {
        "stopped": "Stopped",
        "holder": "Completed",
        "waits": "InProgress",
        "cut": "InProgress",
    }
    return {"jobs": statuses, "bucket": BUCKET, "upload": upload}


def _objects(s3: Any) -> dict[str, Any]:
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(
        Bucket=BUCKET,
        Key="sets/train/a b+c%20.csv",
        Body=b"1,2\n3,4\n",
        ContentType="text/csv",
        Metadata={"from": "the lab"},
    )
    s3.put_object(Bucket=BUCKET, Key="sets/ünï/data.bin", Body=bytes(range(256)))
    made = s3.create_multipart_upload(Bucket=BUCKET, Key="sets/large.bin")
    part = s3.upload_part(
        Bucket=BUCKET,
        Key="sets/large.bin",
        UploadId=made["UploadId"],
        PartNumber=1,
        Body=b"first " * 100,
    )
    return {"key": "sets/large.bin", "id": made["UploadId"], "etag": part["ETag"]}


def _create(client: Any, s3: Any, name: str, script: str, metrics: Any = (), **more: Any) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        info = tarfile.TarInfo("train.py")
        info.size = len(script.encode())
        tar.addfile(info, io.BytesIO(script.encode()))
    s3.put_object(Bucket=BUCKET, Key=f"code/{name}.tar.gz", Body=packed.getvalue())
    client.create_training_job(
        TrainingJobName=name,
        RoleArn=ROLE,
        AlgorithmSpecification={
            "TrainingImage": IMAGE,
            "TrainingInputMode": "File",
            "MetricDefinitions": list(metrics),
        },
        HyperParameters={
            "sagemaker_program": '"train.py"',
            "sagemaker_submit_directory": f'"s3://{BUCKET}/code/{name}.tar.gz"',
        },
        OutputDataConfig={"S3OutputPath": f"s3://{BUCKET}/out"},
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 86400},
        Tags=[{"Key": "team", "Value": "vision"}],
        **more,
    )


def _checkpoints(name: str) -> dict[str, Any]:
    return {"CheckpointConfig": {"S3Uri": f"s3://{BUCKET}/{name}-checkpoints"}}


def _rule(client: Any) -> Any:
    reported = client.describe_training_job(TrainingJobName="watched")
    return reported["DebugRuleEvaluationStatuses"][0]


def _in(client: Any, name: str, secondary: str) -> None:
    _until(
        lambda: client.describe_training_job(TrainingJobName=name)["SecondaryStatus"] == secondary,
        120,
    )


def _ended(client: Any, name: str, status: str = "Completed") -> None:
    def is_over() -> bool:
        reported = client.describe_training_job(TrainingJobName=name)
        if reported["TrainingJobStatus"] in {"Completed", "Failed", "Stopped"} - {status}:
            raise RuntimeError(f"{name} ended otherwise: {reported}")
        return bool(reported["TrainingJobStatus"] == status)

    _until(is_over, 180)


def packed(expected: dict[str, Any]) -> bytes:
    """In the order of names, without who owned it; attributes have what S3 knows of objects."""
    (TOP / "expected.json").write_text(json.dumps(expected, indent=1))
    how = ("--format=posix", "--xattrs", "--sort=name", "--owner=0", "--group=0", "--numeric-owner")
    what = ("expected.json", HOME.name)
    made = subprocess.run(["tar", "-C", TOP, *how, "-c", *what], check=True, capture_output=True)
    return gzip.compress(made.stdout, 9, mtime=0)


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGTERM)
    server.wait(60)


def _kill(mark: str = f"TRACKSIDE_HOME={HOME}") -> None:
    """As a power cut does: nobody has a last word."""

    def are_gone() -> bool:
        found = _processes(mark)
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        return not found

    _until(are_gone)


def _processes(mark: str = f"TRACKSIDE_HOME={HOME}") -> list[int]:
    """Those with this among their arguments or variables; without one, all that we started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
        except OSError:
            continue
        if mark.encode() in words:
            found.append(int(path.name))
    return found


def _served(port: int) -> subprocess.Popen[bytes]:
    command = [PYTHON, "-m", "trackside.cli", "server", "--listen", f"127.0.0.1:{port}", "--quiet"]
    server = subprocess.Popen(command, env=_environment(), cwd=TOP, stdout=subprocess.DEVNULL)

    def answers() -> bool:
        if server.poll() is not None:
            raise RuntimeError("the server did not start")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    _until(answers, 60)
    return server


def _key(label: str, *more: str) -> dict[str, str]:
    reported: dict[str, str] = json.loads(_trackside("keys", "create", label, "--json", *more))
    return reported


def _trackside(*words: str) -> str:
    command = [PYTHON, "-m", "trackside.cli", *words]
    return subprocess.run(
        command, env=_environment(), cwd=TOP, check=True, capture_output=True, text=True
    ).stdout


def _environment() -> dict[str, str]:
    return {
        "PATH": f"{VENV}/bin:/usr/bin:/bin",
        "HOME": str(TOP),
        "PYTHONPATH": str(CODE),
        "TRACKSIDE_HOME": str(HOME),
        "TRACKSIDE_CAPACITY": "cores=8,memory_gb=64",
    }


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _mount(*words: Any) -> None:
    subprocess.run(["mount", *map(str, words)], check=True)


def _until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"still waiting after {seconds} s")
        time.sleep(0.1)


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        inside(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
