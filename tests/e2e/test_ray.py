"""Jobs on a real Ray cluster whose nodes share nothing but an S3 server, and have nothing of ours
installed.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from tests.docker_engine import PYTHON, engine_on
from tests.e2e.test_machines import WAITS, machine_processes
from tests.e2e.test_slurm import CONTAINER, Submitter
from tests.machines import Machine
from tests.ray_cluster import DOCKER, REDIS, RayCluster, disconnect, ray_cluster
from tests.wait import until
from trackside.errors import JobFailed
from trackside.placement import ray
from trackside.placement.placement import PlacementAway, Poll, Running
from trackside.placement.ray_states import MEMORY_MONITOR
from trackside.records.death import Cause, Death, MemoryKiller
from trackside.records.placed import Placed
from trackside.records.status import Secondary, Status
from trackside.settings import Settings

pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("ray")]

TRAIN = """
import json, os, socket, time

hosts, me = json.loads(os.environ["SM_HOSTS"]), os.environ["SM_CURRENT_HOST"]
port = int(os.environ["MASTER_PORT"])
if me == hosts[0]:
    with socket.create_server((socket.gethostbyname(me), port)) as server:
        connection, _ = server.accept()
        print("met", connection.recv(100).decode(), flush=True)
else:
    while True:
        try:
            connection = socket.create_connection((os.environ["MASTER_ADDR"], port))
            break
        except OSError:
            time.sleep(0.1)
    connection.sendall(me.encode())
for step in range(3):
    print(f"loss={1 / (1 + step)}", flush=True)
with open(os.path.join(os.environ["SM_MODEL_DIR"], me), "w") as file:
    file.write(open("/tmp/name").read())
"""
RESUMES = """
import os, time

folder = "/opt/ml/checkpoints"
step = max((int(name) for name in os.listdir(folder) if name.isdigit()), default=0)
print("begun on", open("/tmp/name").read(), "at step", step, flush=True)
while not os.path.exists("/tmp/go"):
    step += 1
    with open(f"{folder}/new", "w") as file:
        file.write("weights")
    os.rename(f"{folder}/new", f"{folder}/{step}")
    time.sleep(0.2)
print("done at step", step, flush=True)
"""
IGNORES = """
import os, signal, time

signal.signal(signal.SIGTERM, lambda *_: print("goes on", flush=True))
print("begun on", open("/tmp/name").read(), flush=True)
while not os.path.exists("/tmp/go"):
    time.sleep(0.1)
"""
COUNTS = """
import os, time

me, number = os.environ["SM_CURRENT_HOST"], 0
print("begun on", open("/tmp/name").read(), flush=True)
while not os.path.exists("/tmp/go"):
    number += 1
    print(me, "counts", number, flush=True)
    time.sleep(0.1)
with open(os.path.join(os.environ["SM_MODEL_DIR"], me), "w") as file:
    file.write(str(number))
"""
REMOVE = """
import ray
from ray.util import get_placement_group, placement_group_table, remove_placement_group
ray.init("auto", namespace="trackside")
for group in placement_group_table().values():
    if group["state"] == "CREATED":
        remove_placement_group(get_placement_group(group["name"]))
"""


class RaySubmitter(Submitter):
    """Beside the cluster: it is reached by Ray's client."""

    cluster: RayCluster  # type: ignore[assignment]

    def submit(self, script: str, name: str, **request: Any) -> None:
        own = {"Placement": self.cluster.name, "GraceSeconds": 20, **request.pop("needs", {})}
        super().submit(script, name, Trackside=own, **request)

    @property
    def placement(self) -> ray.RayPlacement:
        return ray.RayPlacement(self.cluster.name.partition(":")[2])

    def is_connected(self) -> bool:
        """Ray's client waits only so long for the process that the head starts for it."""
        try:
            return bool(self.placement.offers())
        except PlacementAway:
            return False

    def free_cores(self) -> float:
        return float(self.placement._call("cluster")["free"].get("CPU", 0.0))


def made_submitter(cluster: RayCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[RaySubmitter]:
    for node in cluster.nodes:
        (node.disk / "name").write_text(node.name)
        for left in ("go", "asked"):
            (node.disk / left).unlink(missing_ok=True)
    monkeypatch.setenv("TRACKSIDE_LEASE", "20")
    monkeypatch.setenv("TRACKSIDE_HEARTBEAT", "1")
    for name, value in {**cluster.network.variables, **cluster.variables}.items():
        monkeypatch.setenv(name, value)
    submitter = RaySubmitter(cluster)  # type: ignore[arg-type]
    until(submitter.is_connected, seconds=240)
    yield submitter
    for node in cluster.nodes:
        for log in sorted(node.disk.glob("trackside-0/*.*/log")):
            sys.stderr.write(f"== {node.name} {log.parent.name}\n{log.read_text()[-3000:]}\n")


@pytest.fixture
def submitter(ray_nodes: RayCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[RaySubmitter]:
    yield from map(with_free_nodes, made_submitter(ray_nodes, monkeypatch))


def with_free_nodes(submitter: RaySubmitter) -> RaySubmitter:
    """Actors give the nodes of a job back some time after its end."""
    until(lambda: submitter.free_cores() == 8)
    return submitter


def test_two_nodes_train_and_nothing_is_left(submitter: RaySubmitter):
    metrics = [{"Name": "loss", "Regex": "loss=([0-9.]+)"}]
    algorithm = {"TrainingInputMode": "File", "MetricDefinitions": metrics}
    submitter.submit(TRAIN, "trains", AlgorithmSpecification=algorithm)
    assert submitter.wait("trains").state.status is Status.COMPLETED
    model = submitter.model("trains")
    assert sorted(model.values()) == [b"head", b"n1"], "each host is on a node of its own"
    log = submitter.log("trains")
    assert log.count("loss=0.5") == 2
    assert "met algo-2" in log
    [last] = submitter.jobs.describe("trains")["FinalMetricDataList"]
    assert last["MetricName"] == "loss"
    until(lambda: submitter.free_cores() == 8)
    for node in submitter.cluster.nodes:
        until(partial(is_free, node))


def is_free(node: Machine) -> bool:
    return not machine_processes(node) and not [*node.disk.glob("trackside-0/*.*")]


@pytest.mark.nightly
def test_why_it_waits_is_said_in_rays_words_and_a_stop_withdraws_it(submitter: RaySubmitter):
    submitter.submit(WAITS, "first", hosts=1, needs={"Cores": 3})
    submitter.wait_for("begun", 1, "first")
    submitter.submit(WAITS, "second", needs={"Cores": 3})
    until(lambda: "2 × {3 CPU} STRICT_SPREAD is NO_RESOURCES" in submitter.message("second"))
    assert "free: 5 CPU" in submitter.message("second")
    submitter.jobs.stop("second")
    assert submitter.wait("second").state.secondary is Secondary.STOPPED
    submitter.jobs.stop("first")
    assert submitter.wait("first").state.secondary is Secondary.STOPPED
    assert "asked to stop" in submitter.log("first")
    until(lambda: submitter.free_cores() == 8)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (
            {"hosts": 3},
            r"3 hosts are asked for.* 2 nodes, each with 4 CPU, 8 GB, and no autoscaler",
        ),
        ({"needs": {"Cores": 64}}, r"each with 64 CPU \(STRICT_SPREAD\)"),
        ({"needs": {"PlacementOptions": {"accelerator": "A100"}}}, "each with 1 CPU, A100"),
    ],
)
def test_what_the_cluster_can_never_give_fails_at_once(
    submitter: RaySubmitter, request_: dict[str, Any], words: str
):
    with pytest.raises(JobFailed, match=words):
        submitter.submit(WAITS, "never", **request_)
    assert submitter.death("never") == Death(cause=Cause.REQUEST)


def test_what_the_script_does_is_the_cause_there_too(submitter: RaySubmitter):
    submitter.submit("raise ValueError('a pumpkin')", "raises", hosts=1)
    assert "a pumpkin" in (submitter.wait("raises").failure_reason or "")
    assert submitter.death("raises") == Death(cause=Cause.CODE, host="algo-1")


def test_the_time_limit_is_kept_without_the_submitter(submitter: RaySubmitter):
    submitter.submit(WAITS, "limited", hosts=1, StoppingCondition={"MaxRuntimeInSeconds": 2})
    assert submitter.wait("limited").state.secondary is Secondary.MAX_RUNTIME_EXCEEDED
    assert submitter.death("limited") == Death(cause=Cause.TIME_LIMIT)
    assert submitter.model("limited") == {"algo-1": b"weights"}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ("import os; os.kill(os.getpid(), 9)", Cause.SIGNAL),
        ("raise OSError(28, 'No space left on device', '/opt/ml/model/m')", Cause.DISK),
    ],
)
def test_how_a_script_dies_on_a_node(submitter: RaySubmitter, how: str, cause: Cause):
    submitter.submit(how, f"dies-{cause}", hosts=1)
    assert submitter.wait(f"dies-{cause}").state.status is Status.FAILED
    assert submitter.death(f"dies-{cause}") == Death(cause=cause, host="algo-1")


@pytest.mark.nightly
@pytest.mark.parametrize(
    "victim", ["ray::Host", "trackside.supervisor --group", "trackside.placement.keep_host"]
)
def test_whatever_is_killed_on_the_nodes_the_job_goes_on(submitter: RaySubmitter, victim: str):
    name = f"killed-{sum(map(ord, victim))}"
    submitter.submit(WAITS, name)
    submitter.wait_for("begun", 2, name)
    for node in submitter.cluster.nodes:
        submitter.cluster.kill(node, victim)
    submitter.jobs.reconcile(name)
    submitter.release()
    assert submitter.wait(name).state.status is Status.COMPLETED
    assert submitter.attempt(name) == 1
    assert submitter.log(name).count("begun") == 2
    until(lambda: submitter.free_cores() == 8)


@pytest.mark.nightly
def test_a_job_whose_submitter_dies_while_it_waits_runs_to_its_end(submitter: RaySubmitter):
    submitter.submit(WAITS, "before", hosts=1, needs={"Cores": 3})
    submitter.wait_for("begun", 1, "before")
    submitter.submit(WAITS, "orphan", needs={"Cores": 3})
    until(lambda: "NO_RESOURCES" in submitter.message("orphan"))
    disconnect()
    submitter.release()
    client = submitter.cluster.network.client
    key = "out/orphan/output/model.tar.gz"
    until(
        lambda: client.list_objects_v2(Bucket=submitter.bucket, Prefix=key)["KeyCount"], seconds=240
    )
    until(lambda: submitter.free_cores() == 8, seconds=120)
    assert submitter.wait("orphan").state.status is Status.COMPLETED
    assert submitter.attempt("orphan") == 1


@pytest.mark.nightly
def test_a_placement_group_that_somebody_removes_is_the_end_of_the_job(submitter: RaySubmitter):
    submitter.submit(WAITS, "removed", hosts=1)
    submitter.wait_for("begun", 1, "removed")
    submitter.cluster.run_on_head("-c", REMOVE)
    assert submitter.wait("removed").state.secondary is Secondary.STOPPED
    assert "asked to stop" in submitter.log("removed")


def test_what_there_is(submitter: RaySubmitter):
    first, second = submitter.placement.offers()
    assert first.startswith("Ray 2.")
    assert "free: 8 CPU" in first
    assert second == "2 nodes, each with 4 CPU, 8 GB"


def test_the_command_line_runs_on_the_cluster_whose_node_it_is_on(submitter: RaySubmitter):
    head, variables = submitter.cluster.head, submitter.cluster.variables
    (head.disk / "train.py").write_text('print("on", open("/tmp/name").read())\n')
    words = ["run", "train.py", "--on", "ray", "--instances", "2", "--ray", "strategy=PACK"]
    output = f"s3://{submitter.bucket}/out"
    done = head.run(
        "python",
        *("-m", "trackside.cli", *words, "--output", output, "--name", "typed", "--wait"),
        variables=variables,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("on head") + done.stdout.count("on n1") == 2
    listed = head.run("python", "-m", "trackside.cli", "jobs", "--json", variables=variables)
    [row] = json.loads(listed.stdout)
    assert row["status"] == "Completed"
    wrong = {**variables, "RAY_AUTH_TOKEN": "another-0123456789abcdef012345"}
    seen = head.run("python", "-m", "trackside.cli", "placements", "ray", variables=wrong)
    assert "not here" in seen.stdout, seen.stdout + seen.stderr
    assert "token" in seen.stdout.lower()


@pytest.fixture(scope="module")
def docker_on_nodes(ray_nodes: RayCluster) -> Iterator[None]:
    """Each node has an engine of its own."""
    with ExitStack() as stack:
        for node in ray_nodes.nodes:
            assert stack.enter_context(engine_on(node, PYTHON)) == DOCKER
        yield


@pytest.fixture
def contained(submitter: RaySubmitter, docker_on_nodes: None) -> RaySubmitter:
    return submitter


@pytest.mark.nightly
def test_an_image_is_run_by_the_docker_of_each_node(contained: RaySubmitter):
    image = {"TrainingImage": PYTHON, "TrainingInputMode": "File"}
    contained.submit(
        CONTAINER, "contained", AlgorithmSpecification=image, needs={"Sandbox": "docker"}
    )
    over = contained.wait("contained")
    assert over.state.status is Status.COMPLETED, over.failure_reason
    assert contained.model("contained") == {
        "algo-1": b"algo-2 of the image",
        "algo-2": b"algo-1 of the image",
    }


@pytest.mark.nightly
def test_an_image_that_a_node_does_not_have(contained: RaySubmitter):
    image = {"TrainingImage": "trackside-test/nosuch", "TrainingInputMode": "File"}
    needs = {"Sandbox": "docker"}
    contained.submit(CONTAINER, "nosuch", hosts=1, AlgorithmSpecification=image, needs=needs)
    assert "trackside-test/nosuch" in (contained.wait("nosuch").failure_reason or "")
    assert contained.death("nosuch") == Death(cause=Cause.IMAGE, host="algo-1")


# Faults of machines


@pytest.fixture(scope="module")
def large() -> Iterator[RayCluster]:
    """Its head takes no jobs, and one node is spare."""
    with ray_cluster("n1", "n2", "n3") as found:
        yield found


@pytest.fixture
def faulty(large: RayCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[RaySubmitter]:
    yield from made_submitter(large, monkeypatch)


def nodes_of(submitter: RaySubmitter, name: str) -> list[str]:
    """The machines of the hosts, in their order, in the attempt that has begun last."""
    lines = [line for line in submitter.log(name).splitlines() if "begun on" in line]
    return [line.split("begun on ")[1].split()[0] for line in lines]


@pytest.mark.nightly
def test_a_node_that_dies_is_replaced_with_its_group_and_training_goes_on(faulty: RaySubmitter):
    checkpoint = {"S3Uri": f"s3://{faulty.bucket}/checkpoints"}
    retries = {"MaximumRetryAttempts": 2}
    faulty.submit(RESUMES, "lost", hosts=1, CheckpointConfig=checkpoint, RetryStrategy=retries)
    faulty.wait_for("begun", 1, "lost")
    client = faulty.cluster.network.client

    def saved() -> int:
        found = client.list_objects_v2(Bucket=faulty.bucket, Prefix="checkpoints/")
        names = [each["Key"].rpartition("/")[2] for each in found.get("Contents", ())]
        return max((int(name) for name in names if name.isdigit()), default=0)

    until(lambda: saved() > 5, seconds=120)
    [name] = nodes_of(faulty, "lost")
    faulty.cluster.network[name].kill()
    try:
        faulty.wait_for("begun", 2, "lost")
        faulty.release()
        assert faulty.wait("lost").state.status is Status.COMPLETED
    finally:
        faulty.cluster.boot(name)
    assert faulty.attempt("lost") == 2
    steps = [int(line.split()[-1]) for line in faulty.log("lost").splitlines() if "step" in line]
    assert steps[0] == 0
    assert steps[1] > 5, "it went on from the checkpoint"
    assert causes(faulty, "lost") == [Cause.NODE_LOST]


def causes(submitter: RaySubmitter, name: str) -> list[Cause]:
    """Of the attempts that were followed by another."""
    return [each.cause for each in submitter.jobs.record(name).history.earlier_deaths]


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["drain-node", "sigterm"])
def test_a_node_that_is_drained_is_left_with_grace_and_the_job_goes_on(
    faulty: RaySubmitter, how: str
):
    faulty.submit(WAITS, "drained")
    faulty.wait_for("begun", 2, "drained")
    _, second = nodes_of(faulty, "drained")
    if how == "drain-node":
        faulty.cluster.drain(second)
    else:  # as Kubernetes ends a pod
        faulty.cluster.network[second].run("pkill", "-TERM", "-f", "ray.scripts.scripts start")
    try:
        faulty.wait_for("begun", 4, "drained")
        assert second not in nodes_of(faulty, "drained")[2:], "Ray gives no drained node"
        faulty.release()
        history = faulty.wait("drained")
        assert history.state.status is Status.COMPLETED
    finally:
        faulty.cluster.network[second].kill()
        faulty.cluster.boot(second)
    death = Death(cause=Cause.PREEMPTED, host="algo-2")
    assert [*history.earlier_deaths] == [death], "without a RetryStrategy"
    assert faulty.log("drained").count("asked to stop") == 2, "all scripts end with grace"
    assert faulty.model("drained") == {"algo-1": b"weights", "algo-2": b"weights"}


@pytest.mark.nightly
def test_a_node_that_is_taken_before_its_script_has_ended_was_preempted(faulty: RaySubmitter):
    faulty.submit(IGNORES, "taken", hosts=1, RetryStrategy={"MaximumRetryAttempts": 1})
    faulty.wait_for("begun", 1, "taken")
    [name] = nodes_of(faulty, "taken")
    faulty.cluster.drain(name, seconds=1)
    faulty.wait_for("goes on", 1, "taken")
    faulty.cluster.network[name].kill()
    try:
        faulty.wait_for("begun", 2, "taken")
        faulty.release()
        assert faulty.wait("taken").state.status is Status.COMPLETED
    finally:
        faulty.cluster.boot(name)
    assert causes(faulty, "taken") == [Cause.PREEMPTED]


@pytest.mark.nightly
def test_a_cluster_that_was_made_anew_does_not_know_the_group(faulty: RaySubmitter):
    """As when all of it is restarted, and its head has no storage."""
    faulty.submit(WAITS, "forgotten", hosts=1, RetryStrategy={"MaximumRetryAttempts": 1})
    faulty.wait_for("begun", 1, "forgotten")
    faulty.cluster.kill_head()
    for node in faulty.cluster.nodes:
        node.kill()
    faulty.cluster.start_head()
    for node in faulty.cluster.nodes:
        faulty.cluster.boot(node.name)
    faulty.wait_for("begun", 2, "forgotten")
    faulty.release()
    assert faulty.wait("forgotten").state.status is Status.COMPLETED
    assert causes(faulty, "forgotten") == [Cause.ENGINE_GONE]


@pytest.mark.nightly
def test_a_node_that_returns_after_it_was_given_up_publishes_nothing(faulty: RaySubmitter):
    faulty.submit(WAITS, "cut", RetryStrategy={"MaximumRetryAttempts": 2})
    faulty.wait_for("begun", 2, "cut")
    lead, *_ = nodes_of(faulty, "cut")
    faulty.cluster.network[lead].cut()
    try:
        until(lambda: faulty.attempt("cut") >= 2, seconds=300)
        faulty.wait_for("begun", 4, "cut")
    finally:
        faulty.cluster.network[lead].restore()
    faulty.release()
    assert faulty.wait("cut").state.status is Status.COMPLETED
    assert faulty.model("cut") == {"algo-1": b"weights", "algo-2": b"weights"}
    until(lambda: not machine_processes(faulty.cluster.network[lead]), seconds=240)


@pytest.mark.nightly
def test_a_head_that_is_killed_changes_nothing(faulty: RaySubmitter):
    """Without storage: its nodes leave the cluster, and no actor is left."""
    faulty.submit(WAITS, "headless")
    faulty.wait_for("begun", 2, "headless")
    faulty.cluster.kill_head()
    for _ in range(3):
        faulty.jobs.reconcile("headless")
    faulty.cluster.start_head()
    faulty.jobs.reconcile("headless")
    faulty.release()
    assert faulty.wait("headless").state.status is Status.COMPLETED
    assert faulty.attempt("headless") == 1
    assert faulty.log("headless").count("begun") == 2


# A head with storage


@pytest.fixture(scope="module")
def stored() -> Iterator[RayCluster]:
    """Its head takes no jobs, and has its state in Redis."""
    with ray_cluster("n1", "n2", storage=REDIS) as found:
        yield found


@pytest.fixture
def lasting(stored: RayCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[RaySubmitter]:
    yield from map(with_free_nodes, made_submitter(stored, monkeypatch))


def actors_of(cluster: RayCluster) -> list[str]:
    """The processes of the actors that look after hosts."""
    return [node.run("pgrep", "-f", "ray::Host").stdout for node in cluster.nodes]


def counted(submitter: RaySubmitter, name: str) -> dict[str, list[int]]:
    """By host, the numbers in the log."""
    found: dict[str, list[int]] = {}
    for line in submitter.log(name).splitlines():
        if " counts " in line:
            host, _, number = line.split()[-3:]
            found.setdefault(host, []).append(int(number))
    return found


def each_is(kind: type[Poll], submitter: RaySubmitter, name: str) -> bool:
    """What Ray says of each host."""
    return {*map(type, polled(submitter, name).values())} == {kind}


@pytest.mark.nightly
def test_a_head_that_comes_back_with_its_storage_has_the_same_job(lasting: RaySubmitter):
    lasting.submit(COUNTS, "counts")
    until(lambda: len(counted(lasting, "counts")) == 2, seconds=240)
    until(partial(each_is, Running, lasting, "counts"), seconds=120)
    actors = actors_of(lasting.cluster)
    assert all(actors)
    lasting.cluster.kill_head()
    try:
        before = counted(lasting, "counts")
        until(lambda: grown(before, counted(lasting, "counts")), seconds=120)
    finally:
        lasting.cluster.start_head()
    until(partial(each_is, Running, lasting, "counts"), seconds=240)
    assert actors_of(lasting.cluster) == actors, "the nodes have stayed in the cluster"
    before = counted(lasting, "counts")
    until(lambda: grown(before, counted(lasting, "counts")), seconds=120)
    lasting.release()
    assert lasting.wait("counts").state.status is Status.COMPLETED
    assert lasting.attempt("counts") == 1
    assert lasting.log("counts").count("begun") == 2
    model = {host: int(last) for host, last in lasting.model("counts").items()}
    every = {host: [*range(1, last + 1)] for host, last in model.items()}
    assert counted(lasting, "counts") == every, "each line of each host, once and in order"
    is_all_given_back(lasting)


def grown(before: dict[str, list[int]], now: dict[str, list[int]]) -> bool:
    return all(len(now[host]) > len(before[host]) for host in before)


def is_all_given_back(submitter: RaySubmitter) -> None:
    until(lambda: submitter.is_connected() and submitter.free_cores() == 8, seconds=240)
    for node in submitter.cluster.nodes:
        until(partial(is_free, node), seconds=120)


@pytest.mark.nightly
def test_a_stop_while_a_head_with_storage_is_away(lasting: RaySubmitter):
    """It goes through the store; what the job held is given back when the head is there again, also
    if nobody asks."""
    lasting.submit(WAITS, "stops")
    lasting.wait_for("begun", 2, "stops")
    lasting.cluster.kill_head()
    try:
        lasting.jobs.stop("stops")
        assert lasting.wait("stops").state.secondary is Secondary.STOPPED
        assert lasting.log("stops").count("asked to stop") == 2
        assert lasting.death("stops") is None
    finally:
        lasting.cluster.start_head()
    is_all_given_back(lasting)
    assert lasting.attempt("stops") == 1
    assert lasting.log("stops").count("begun") == 2


# Memory


GREEDY = """
import os, time

kept = [b"x" * (64 << 20) for _ in range(GIGABYTES * 16)]
print("holds it", flush=True)
while not os.path.exists("/tmp/go"):
    time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def little() -> Iterator[RayCluster]:
    """Its node has 3 GB, and Ray's memory monitor kills from 1.35 GB on."""
    with ray_cluster("n1", memory=3 << 30) as found:
        yield found


@pytest.fixture
def tight(little: RayCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[RaySubmitter]:
    yield from made_submitter(little, monkeypatch)


def greedy(gigabytes: int) -> str:
    return GREEDY.replace("GIGABYTES", str(gigabytes))


@pytest.mark.nightly
def test_a_memory_monitor_that_kills_the_actor_does_not_end_the_training(tight: RaySubmitter):
    tight.submit(greedy(2), "holds", hosts=1)
    tight.wait_for("holds it", 1, "holds")
    until(lambda: MEMORY_MONITOR in str(polled(tight, "holds")), seconds=120)
    tight.submit(WAITS, "second", hosts=1)
    until(lambda: deaths_so_far(tight, "second"), seconds=240)
    first, *_ = deaths_so_far(tight, "second")  # before its actor could start anything
    assert (first.cause, first.memory) == (Cause.OUT_OF_MEMORY, MemoryKiller.ENGINE)
    tight.release()
    tight.wait("second")  # Ray may let another attempt of it begin, or none
    assert tight.wait("holds").state.status is Status.COMPLETED
    assert tight.attempt("holds") == 1
    assert tight.log("holds").count("holds it") == 1
    until(lambda: not polled(tight, "holds") or tight.free_cores() == 4, seconds=120)


def deaths_so_far(submitter: RaySubmitter, name: str) -> list[Death]:
    submitter.jobs.reconcile(name)
    history = submitter.jobs.record(name).history
    return [*history.earlier_deaths, *filter(None, [history.death])]


def polled(submitter: RaySubmitter, name: str) -> dict[str, Poll]:
    placed = Placed.read(Settings.load().layout.job(name))
    assert placed is not None
    return submitter.placement.poll(placed.started[0].handle)


@pytest.mark.nightly
def test_a_kill_for_lack_of_memory_on_the_node_is_the_kernels(tight: RaySubmitter):
    tight.submit(greedy(4), "greedy", hosts=1)
    assert tight.wait("greedy").state.status is Status.FAILED
    killed = Death(cause=Cause.OUT_OF_MEMORY, host="algo-1", memory=MemoryKiller.KERNEL)
    assert tight.death("greedy") == killed


@pytest.mark.nightly
def test_a_script_is_kept_to_the_memory_that_its_job_asks_for(submitter: RaySubmitter):
    submitter.submit(greedy(2), "beyond", hosts=1, needs={"MemoryGB": 1})
    assert "limit of 1 GB" in (submitter.wait("beyond").failure_reason or "")
    killed = Death(cause=Cause.OUT_OF_MEMORY, host="algo-1", memory=MemoryKiller.LIMIT)
    assert submitter.death("beyond") == killed
