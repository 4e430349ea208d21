"""Several hosts on one machine: they start together, find each other and end together."""

import json
import os
import signal

import pytest

from tests.e2e.conftest import Job
from tests.wait import until
from trackside.records.host_processes import supervisor_lives
from trackside.records.status import Status

TWO = {"InstanceCount": 2, "InstanceType": "local"}


def test_hosts_have_their_own_folders_and_know_each_other(machine):
    script = """
import json, os, socket
host = os.environ["SM_CURRENT_HOST"]
others = json.loads(os.environ["SM_HOSTS"])
print("SEES", json.dumps([host, others, [socket.gethostbyname(o) for o in others]]), flush=True)
open(f"/opt/ml/model/{host}.txt", "w").write(host)
open("/opt/ml/output/data/same.txt", "w").write(host)
"""
    job = machine.run(script, ResourceConfig=TWO)
    assert job.history().state.status is Status.COMPLETED, job.history().failure_reason
    for host in ("algo-1", "algo-2"):
        [line] = [line for line in job.log(host).splitlines() if line.startswith("SEES")]
        name, others, addresses = json.loads(line.removeprefix("SEES "))
        assert (name, others) == (host, ["algo-1", "algo-2"])
        assert len(set(addresses)) == 2
    assert job.model() == {"algo-1.txt": b"algo-1", "algo-2.txt": b"algo-2"}
    assert sorted(job.output_data().values()) == [b"algo-1", b"algo-2"]


def test_the_first_failure_ends_the_job_and_names_the_host(machine):
    script = """
import os, sys, time
if os.environ["SM_CURRENT_HOST"] == "algo-2":
    sys.exit("algo-2 has had enough")
time.sleep(600)
"""
    job = machine.run(script, ResourceConfig=TWO)
    history = job.history()
    assert history.state.status is Status.FAILED
    assert "algo-2" in history.failure_reason
    assert "had enough" in history.failure_reason
    assert job.record("algo-1").failure == ""


def test_stop_reaches_every_host(machine):
    script = """
import os, signal, sys, time
def save(*_):
    open(f"/opt/ml/model/{os.environ['SM_CURRENT_HOST']}", "w").write("saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("READY", flush=True)
time.sleep(600)
"""
    job = machine.submit(script, ResourceConfig=TWO)
    until(lambda: "READY" in job.log("algo-1") and "READY" in job.log("algo-2"))
    machine.jobs.stop(job.name)
    assert job.wait().state.status is Status.STOPPED
    assert set(job.model()) == {"algo-1", "algo-2"}


DDP = """
import json, os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
first = None
for step in range(60):
    inputs = torch.randn(32, 4)
    loss = ((model(inputs) - inputs.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    first = first or loss.item()
weights = model.module.weight.detach().flatten()
gathered = [torch.zeros_like(weights) for _ in range(world)]
dist.all_gather(gathered, weights)
same = all(torch.equal(weights, other) for other in gathered)
print("TRAINED", json.dumps([rank, world, first, loss.item(), same]), flush=True)
if rank == 0:
    torch.save(model.module.state_dict(), "/opt/ml/model/model.pt")
dist.destroy_process_group()
"""


@pytest.mark.nightly
def test_a_two_host_ddp_run_trains_over_gloo(machine):
    """In CI test_page_data.py checks the same of the same script, with a hook."""
    job = machine.submit(
        DDP,
        ResourceConfig=TWO,
        hyperparameters={"sagemaker_torch_distributed_enabled": "true"},
    )
    check_ddp(job)


def check_ddp(job: Job) -> None:
    """Waits for it."""
    state = job.wait().state
    logs = [job.log(host)[-2000:] for host in ("algo-1", "algo-2")]
    assert state.status is Status.COMPLETED, logs
    ranks = set()
    for host in ("algo-1", "algo-2"):
        [line] = [line for line in job.log(host).splitlines() if line.startswith("TRAINED")]
        rank, world, first, last, same = json.loads(line.removeprefix("TRAINED "))
        ranks.add(rank)
        assert world == 2
        assert last < first / 5
        assert same
    assert ranks == {0, 1}
    assert list(job.model()) == ["model.pt"]


def test_a_sharded_channel_gives_each_host_its_part(machine):
    bucket = machine.settings.layout.buckets / "data-bucket" / "parts"
    bucket.mkdir(parents=True)
    for number in range(5):
        (bucket / f"{number}.txt").write_text(str(number))
    channel = {
        "ChannelName": "training",
        "DataSource": {
            "S3DataSource": {
                "S3Uri": "s3://data-bucket/parts/",
                "S3DataDistributionType": "ShardedByS3Key",
            }
        },
    }
    script = "import os; print('HAS', sorted(os.listdir('/opt/ml/input/data/training')))"
    job = machine.run(script, ResourceConfig=TWO, InputDataConfig=[channel])
    found = []
    for host in ("algo-1", "algo-2"):
        [line] = [line for line in job.log(host).splitlines() if line.startswith("HAS")]
        found.append(set(eval(line.removeprefix("HAS "))))
    assert len(found[0] | found[1]) == 5
    assert not found[0] & found[1]


SLOW_SECOND = """
import os, time
while not os.path.exists(os.environ["GO"]):
    print("at work", flush=True)
    time.sleep(0.05)
print("DONE", flush=True)
"""


def test_the_supervisor_of_a_second_host_may_die_again_and_again(machine):
    job = machine.submit(SLOW_SECOND, ResourceConfig=TWO)
    place = job.host("algo-2")
    until(lambda: "at work" in job.log("algo-2"))
    for _ in range(4):  # its init starts it again, later each time
        until(lambda: supervisor_lives(place), seconds=60)
        os.kill(job.supervisor_pid("algo-2"), signal.SIGKILL)
        until(lambda: not supervisor_lives(place))
    until(lambda: supervisor_lives(place), seconds=60)
    assert not job.history().state.is_final
    machine.go.touch()
    history = job.wait()
    assert history.state.status is Status.COMPLETED, history.failure_reason
    assert history.attempt == 1
    assert job.log("algo-2").count("DONE") == 1


def test_a_lost_host_starts_the_next_attempt_with_nobody_looking(machine):
    job = machine.submit(SLOW_SECOND, ResourceConfig=TWO, RetryStrategy={"MaximumRetryAttempts": 1})
    until(lambda: "at work" in job.log("algo-1") and "at work" in job.log("algo-2"))
    os.kill(job.supervisor_pid("algo-2"), signal.SIGSTOP)  # so that it revives nothing
    for which in ("init", "command"):
        os.kill(job.sandbox_process(which, "algo-2"), signal.SIGKILL)
    os.kill(job.supervisor_pid("algo-2"), signal.SIGKILL)
    until(lambda: "at work" in job.log("algo-2", attempt=2), seconds=90)
    machine.go.touch()
    until(lambda: job.history().state.is_final, seconds=90)
    history = job.history()
    assert history.state.status is Status.COMPLETED, history.failure_reason
    assert history.attempt == 2
