"""Faults between machines (cases 19 to 22): on a real Ray and a real Slurm, each with a head and
three nodes in namespaces of this machine, which share nothing but an S3 server."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pytest
from tests.e2e.test_machines import machine_processes
from tests.e2e.test_ray import RaySubmitter
from tests.e2e.test_slurm import Submitter
from tests.machines import Machine, namespaces_problem
from tests.ray_cluster import RayCluster, ray_cluster, ray_problem
from tests.slurm_cluster import SlurmCluster, slurm_cluster, slurm_problem

from benchmarks.drill.case import Case, NotShown, Result, check, held
from benchmarks.drill.ground import Ground
from benchmarks.drill.numbered_lines import MARK, count_lines
from trackside.errors import TracksideError
from trackside.records.death import Cause

_NODES = ("n1", "n2", "n3")
_HOSTS = ("algo-1", "algo-2")
_JOB = "drill"
_CUT_SECONDS = (30.0, 300.0)
_LOOK_SECONDS = 5.0
_LEASE_SECONDS = 20.0
_TRAINS = f"""
import os, signal, sys, time
host, folder = os.environ["SM_CURRENT_HOST"], "/opt/ml/checkpoints"
def save(*_):
    print("GRACE", host, flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
step = max((int(name) for name in os.listdir(folder) if name.isdigit()), default=-1) + 1
print("FROM", step, host, open("/tmp/name").read(), flush=True)
while not os.path.exists("/tmp/go"):
    print(f"{MARK}-{{host}}", step, flush=True)
    if host == "algo-1":
        with open(f"{{folder}}/new", "w") as file: file.write("x" * 10_000)
        os.rename(f"{{folder}}/new", f"{{folder}}/{{step}}")
    step += 1
    time.sleep(0.1)
with open(f"/opt/ml/model/{{host}}", "w") as file:
    file.write(open("/tmp/name").read())
print("DONE", step, host, flush=True)
"""


@dataclass(frozen=True)
class Site:
    """A cluster with a job of two hosts on it."""

    name: str
    cluster: RayCluster | SlurmCluster
    submitter: Submitter
    kill_head: Callable[[], None]
    start_head: Callable[[], None]
    ground: Ground

    def submit(self) -> None:
        own = {"Placement": self.placement, "GraceSeconds": 20}
        request = {
            "CheckpointConfig": {"S3Uri": f"s3://{self.submitter.bucket}/checkpoints"},
            "RetryStrategy": {"MaximumRetryAttempts": 2},
        }
        if isinstance(self.submitter, RaySubmitter):
            self.submitter.submit(_TRAINS, _JOB, **request)
        else:
            self.submitter.submit(_TRAINS, _JOB, Trackside=own, **request)
        self.until(lambda: self.saved > 5, "checkpoints are stored")
        self.until(lambda: len(self.began) == len(_HOSTS), "both hosts train")

    @property
    def placement(self) -> str:
        return self.cluster.name if isinstance(self.cluster, RayCluster) else "slurm"

    @property
    def log(self) -> str:
        return self.submitter.log(_JOB)

    @property
    def began(self) -> list[tuple[int, str, Machine]]:
        """Step, host and machine of each start of a script."""
        words = [line.split() for line in self.log.splitlines() if line.startswith("FROM ")]
        return [(int(step), host, self.cluster.network[on]) for _, step, host, on in words]

    def machine_of(self, host: str) -> Machine:
        return [machine for _, name, machine in self.began if name == host][-1]

    @property
    def saved(self) -> int:
        """The newest checkpoint in storage."""
        client, bucket = self.cluster.network.client, self.submitter.bucket
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix="checkpoints/"
        )
        keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
        names = [key.rpartition("/")[2] for key in keys]
        return max((int(name) for name in names if name.isdigit()), default=-1)

    @property
    def attempt(self) -> int:
        self.submitter.jobs.reconcile(_JOB)
        return self.submitter.attempt(_JOB)

    def until(self, condition: Callable[[], object], what: str) -> None:
        self.ground.until(condition, f"{self.name}: {what}", seconds=300)

    def look(self) -> str:
        """The status, or why it cannot be known."""
        try:
            self.submitter.jobs.reconcile(_JOB)
            return str(self.submitter.jobs.describe(_JOB)["TrainingJobStatus"])
        except TracksideError as error:
            return error.code

    def end(self) -> None:
        self.submitter.release()
        history = self.submitter.wait(_JOB)
        seen = f"{self.name}: {history.state.secondary.value}, {history.failure_reason}"
        check(history.state.secondary.value == "Completed", seen)

    def check_lines(self) -> int:
        """Of one attempt: none is lost or doubled. How many there were."""
        total = 0
        for host in _HOSTS:
            [expected] = [
                int(line.split()[1])
                for line in self.log.splitlines()
                if line.startswith("DONE ") and line.endswith(host)
            ]
            count = count_lines(self.log.encode(), expected, f"{MARK}-{host}")
            check(count.is_exact, f"{self.name} {host}: {count}")
            total += expected
        return total

    def check_same_attempt(self) -> None:
        check(self.attempt == 1, f"{self.name}: {self.attempt} attempts")

    @property
    def causes(self) -> list[Cause]:
        return [each.cause for each in self.submitter.jobs.record(_JOB).history.earlier_deaths]


@contextmanager
def _ray(ground: Ground) -> Iterator[Site]:
    if problem := namespaces_problem() or ray_problem():
        raise NotShown(problem)
    with ray_cluster(*_NODES) as cluster, _settings(ground, cluster) as patch:
        for name, value in cluster.variables.items():
            patch.setenv(name, value)
        submitter = RaySubmitter(cluster)  # type: ignore[arg-type]
        ground.until(submitter.is_connected, "Ray answers", seconds=240)
        yield Site("Ray", cluster, submitter, cluster.kill_head, cluster.start_head, ground)


@contextmanager
def _slurm(ground: Ground) -> Iterator[Site]:
    if problem := namespaces_problem() or slurm_problem():
        raise NotShown(problem)
    with slurm_cluster(*_NODES) as cluster, _settings(ground, cluster) as patch:
        cluster.log_in(ground.folder / "bin", patch)
        idle = {"idle"}
        ground.until(lambda: {*cluster.states().values()} == idle, "Slurm's nodes are up")

        def kill() -> None:
            cluster.head.run("pkill", "-KILL", "slurmctld")

        yield Site("Slurm", cluster, Submitter(cluster), kill, cluster.start_controller, ground)


@contextmanager
def _settings(ground: Ground, cluster: RayCluster | SlurmCluster) -> Iterator[pytest.MonkeyPatch]:
    """The submitter is this process, beside the cluster."""
    for node in cluster.nodes:
        (node.disk / "name").write_text(node.name)
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith(("AWS_", "S3_", "TRACKSIDE_")):
                patch.delenv(name)
        home = ground.home / type(cluster).__name__
        home.mkdir(mode=0o700)
        patch.setenv("TRACKSIDE_HOME", str(home))
        patch.setenv("TRACKSIDE_LEASE", f"{_LEASE_SECONDS:g}")
        patch.setenv("TRACKSIDE_HEARTBEAT", "1")
        for name, value in cluster.network.variables.items():
            patch.setenv(name, value)
        yield patch


def _on_both(ground: Ground, show: Callable[[Site], str], missing: str = "") -> Result:
    figures = []
    for make in (_ray, _slurm):
        with make(ground) as site:
            site.submit()
            figures.append(f"{site.name}: {show(site)}")
    return Result(held("").verdict, "; ".join(figures), missing)


def _cut_apart(site: Site) -> str:
    """The submitter's own cable: it reaches neither engine nor store nor hosts."""
    looks: list[str] = []
    for seconds in _CUT_SECONDS:
        over = threading.Event()
        looking = threading.Thread(target=_look_until, args=(over, site, looks), daemon=True)
        site.cluster.network.switch("test", "down")
        try:
            looking.start()
            time.sleep(seconds)
        finally:
            site.cluster.network.switch("test", "up")
            over.set()
        looking.join()
        site.until(lambda: site.look() == "InProgress", "it is reached again")
    wrong = sorted({*looks} - {"InProgress", "store_unreachable"})
    check(not wrong, f"{site.name}: looks said {wrong}")
    site.end()
    site.check_same_attempt()
    times = " and ".join(f"{seconds:.0f} s" for seconds in _CUT_SECONDS)
    return f"cut off for {times}, {len(looks)} looks, 1 attempt, {site.check_lines():,} lines exact"


def _look_until(over: threading.Event, site: Site, looks: list[str]) -> None:
    """A look takes long while the store does not answer."""
    while not over.is_set():
        looks.append(site.look())
        over.wait(_LOOK_SECONDS)


def _old_host_returns(site: Site) -> str:
    old = site.machine_of("algo-1")
    old.cut()
    try:
        site.until(lambda: site.attempt == 2, "another group is placed")
        site.until(lambda: len(site.began) == 4, "it trains")
    finally:
        old.restore()
    site.until(lambda: "another group of hosts" in _said_on(old), "the old host is refused")
    new = {host: site.machine_of(host).name for host in _HOSTS}
    site.end()
    check(site.attempt == 2, f"{site.name}: {site.attempt} attempts")
    model = {name: text.decode() for name, text in site.submitter.model(_JOB).items()}
    check(model == new, f"{site.name}: the model is of {model}, and {new} trained last")
    site.until(lambda: not machine_processes(old), "the old host has ended")
    return "the old lead is refused and ends, the model is the new group's"


def _said_on(machine: Machine) -> str:
    """By supervisors there."""
    found = [*machine.disk.glob("trackside-0/*/log"), *machine.disk.glob("trackside-*.log")]
    return "\n".join(path.read_text(errors="replace") for path in found)


def _host_dies(site: Site) -> str:
    lost, stays = site.machine_of("algo-2"), site.machine_of("algo-1").name
    lost.kill()
    site.until(lambda: len(site.began) == 4, "all hosts start again")
    check(site.attempt == 2, f"{site.name}: {site.attempt} attempts")
    graces = site.log.count("GRACE algo-1")
    check(graces == 1, f"{site.name}: algo-1 on {stays} was asked {graces} times to end with grace")
    steps = {step for step, _, _ in site.began[2:]}
    check(len(steps) == 1 and min(steps) > 5, f"{site.name}: hosts began at steps {steps}")
    site.end()
    check(site.causes == [Cause.NODE_LOST], f"{site.name}: causes {site.causes}")
    return f"1 of 2 machines lost, 1 restart of both from step {min(steps)}"


def _head_dies(site: Site) -> str:
    site.kill_head()
    looks = [site.look() for _ in range(3)]
    check({*looks} == {"InProgress"}, f"{site.name}: looks without a head said {looks}")
    before = site.saved
    site.until(lambda: site.saved > before + 5, "training goes on without a head")
    site.start_head()
    site.end()
    site.check_same_attempt()
    return f"head killed and back, 1 attempt, {site.check_lines():,} lines exact"


CASES = (
    Case(
        19,
        "controller and host cut apart",
        partial(_on_both, show=_cut_apart, missing="2 hours were not tried"),
        seconds=900,
        nightly=True,
    ),
    Case(
        20,
        "old host comes back",
        partial(_on_both, show=_old_host_returns),
        seconds=300,
        nightly=True,
    ),
    Case(21, "a machine dies", partial(_on_both, show=_host_dies), seconds=300, nightly=True),
    Case(22, "engine's head dies", partial(_on_both, show=_head_dies), seconds=240, nightly=True),
)
