"""An object store that goes away, for a while and for good: the job goes on, nothing is lost."""

import os
from typing import Any

from tests.e2e.conftest import Job, Machine, unpacked
from tests.fault_proxy import Fault
from tests.wait import until
from trackside.records.death import Cause, Death
from trackside.records.status import Status
from trackside.supervisor.publish import upload_kept

WRITES = """
import os, time
print("READY", flush=True)
while not os.path.exists(os.environ["GO"]): time.sleep(0.05)
for number in range(5):
    open(f"/opt/ml/checkpoints/{number}.pt", "w").write("checkpoint " * 100)
    print("step", number, flush=True)
    time.sleep(0.2)
open("/opt/ml/model/m.bin", "wb").write(b"m" * 100_000)
"""


def submit(machine: Machine, bucket: str, **request: Any) -> Job:
    return machine.submit(
        WRITES,
        OutputDataConfig={"S3OutputPath": f"s3://{bucket}/out"},
        CheckpointConfig={"S3Uri": f"s3://{bucket}/checkpoints"},
        **request,
    )


def test_a_store_that_comes_back_gets_everything(away, faulty, bucket, s3_server):
    job = submit(away, bucket)
    job.wait_for_line("READY")
    faulty.inject(Fault(pattern="^PUT|^POST|^GET|^HEAD", times=10_000, status=503))
    away.go.touch()
    job.wait_for_line("step 4")
    assert not job.history().state.is_final
    until(lambda: any(request.fault for request in faulty.requests))
    faulty.clear()
    history = job.wait()
    assert history.state.status is Status.COMPLETED, history.failure_reason
    assert unpacked(job.stored(f"s3://{bucket}/out/{job.name}/output/model.tar.gz"))
    listed = s3_server.client().list_objects_v2(Bucket=bucket, Prefix="checkpoints/")["Contents"]
    assert [entry["Key"] for entry in listed] == [f"checkpoints/{n}.pt" for n in range(5)]
    assert sum(line.startswith("step") for line in job.lines()) == 5


def test_a_store_that_is_away_when_a_job_begins_delays_it(away, faulty, bucket, s3_server):
    s3_server.client().put_object(Bucket=bucket, Key="data/a.csv", Body=b"1,2")
    faulty.inject(Fault(pattern=r"GET .*a\.csv", times=10_000, status=503))
    source = {"S3Uri": f"s3://{bucket}/data/"}
    job = away.submit(
        "print(open('/opt/ml/input/data/training/a.csv').read())",
        InputDataConfig=[{"ChannelName": "training", "DataSource": {"S3DataSource": source}}],
        OutputDataConfig={"S3OutputPath": f"s3://{bucket}/out"},
    )
    until(lambda: job.history().message.startswith("Waiting for the object store"))
    faulty.clear()
    history = job.wait()
    assert history.state.status is Status.COMPLETED, history.failure_reason
    assert "1,2" in job.lines()


def test_a_store_gone_for_good_fails_the_job_and_keeps_its_output(
    away, faulty, bucket, monkeypatch
):
    monkeypatch.setenv("TRACKSIDE_UPLOAD_DEADLINE", "3")
    machine = Machine(away.folder, dict(os.environ))
    job = submit(machine, bucket)
    job.wait_for_line("READY")
    faulty.inject(Fault(times=10_000, status=403))
    machine.go.touch()
    history = job.wait()
    assert history.state.status is Status.FAILED
    assert f"trackside upload {job.name}" in (history.failure_reason or "")
    assert str(job.folder.root) in (history.failure_reason or "")
    assert history.death == Death(cause=Cause.STORE)
    assert (job.host().ml / "model" / "m.bin").stat().st_size == 100_000
    faulty.clear()
    sent = [artifact.uri for artifact in upload_kept(job.folder, machine.settings)]
    assert f"s3://{bucket}/out/{job.name}/output/model.tar.gz" in sent
    assert job.model() == {"m.bin": b"m" * 100_000}
    assert job.stored(f"s3://{bucket}/checkpoints/4.pt") == b"checkpoint " * 100
    assert job.history().state.status is Status.FAILED
    assert job.history().notes[-1]["what"] == "uploaded"
