"""What every placement does alike. A new one adds a line to PLACEMENTS."""

import json
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.contract.toy_placement import ToyPlacement, free
from tests.kubernetes_cluster import SERVICES, Cluster
from tests.ray_cluster import RayCluster
from tests.slurm_cluster import SlurmCluster
from tests.wait import until
from trackside.placement import slurm_commands
from trackside.placement.kubernetes import KubernetesPlacement
from trackside.placement.local import LocalPlacement
from trackside.placement.placement import (
    Ended,
    Exited,
    Group,
    Handle,
    HostRequest,
    Lost,
    Pending,
    Placement,
    PlacementAway,
    Poll,
    Running,
    Unknown,
)
from trackside.placement.ray import RayPlacement
from trackside.placement.slurm import SlurmPlacement
from trackside.system import process_table

HOSTS = ("algo-1", "algo-2")


@dataclass(frozen=True)
class Site:
    """A placement where it can be tried."""

    placement: Placement
    folder: Path
    """That the hosts see as well."""
    impossible: Callable[[Group], Group]
    """The group so that it cannot be started as a whole; or the site."""


@contextmanager
def local_site(folder: Path) -> Iterator[Site]:
    def impossible(group: Group) -> Group:
        last = HostRequest(name="algo-3", nonce="n", log=folder / "no" / "folder")
        return replace(group, hosts=(*group.hosts, last))

    yield Site(LocalPlacement(), folder, impossible)


@contextmanager
def toy_site(folder: Path) -> Iterator[Site]:
    cluster = folder / "cluster"
    cluster.mkdir()

    def impossible(group: Group) -> Group:
        (cluster / "broken-algo-2").touch()
        return group

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ToyPlacement, "cluster", cluster, raising=False)
        yield Site(ToyPlacement(), folder, impossible)
        free(cluster)


@contextmanager
def slurm_site(slurm: SlurmCluster, folder: Path) -> Iterator[Site]:
    def impossible(group: Group) -> Group:
        return replace(group, hosts=5 * group.hosts)

    shared = Path(tempfile.mkdtemp(dir="/var/tmp"))  # the nodes have a folder /tmp of their own
    with pytest.MonkeyPatch.context() as patch:
        slurm.log_in(folder / "bin", patch)
        patch.setattr(slurm_commands, "_FRESH_SECONDS", 0.1)  # this controller has time
        yield Site(SlurmPlacement(), shared, impossible)
    slurm.free()
    shutil.rmtree(shared)


@contextmanager
def ray_site(nodes: RayCluster) -> Iterator[Site]:
    def impossible(group: Group) -> Group:
        return replace(group, hosts=5 * group.hosts)

    shared = Path(tempfile.mkdtemp(dir="/var/tmp"))  # the nodes have a folder /tmp of their own
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", nodes.name)
        for name, value in nodes.variables.items():
            patch.setenv(name, value)
        until(lambda: is_there(RayPlacement()), seconds=240)
        yield Site(RayPlacement(), shared, impossible)
    shutil.rmtree(shared)


def is_there(placement: Placement) -> bool:
    try:
        return bool(placement.offers())
    except PlacementAway:
        return False


@contextmanager
def kubernetes_site(cluster: Cluster, folder: Path) -> Iterator[Site]:
    def impossible(group: Group) -> Group:
        cluster.server.refused = SERVICES
        return group

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        yield Site(KubernetesPlacement(), folder, impossible)
    cluster.free()


PLACEMENTS = [
    "local",
    "toy",
    pytest.param("kubernetes", marks=pytest.mark.xdist_group("kubernetes")),
    pytest.param("slurm", marks=pytest.mark.xdist_group("slurm")),
    pytest.param("ray", marks=[pytest.mark.xdist_group("ray"), pytest.mark.nightly]),
]

# Says that it is ready, and what it sees; ends by SIGTERM, or when the file `end` appears.
SUPERVISOR = """
import json, os, signal, sys, time
folder, host = sys.argv[1], sys.argv[-1]
signal.signal(signal.SIGTERM, lambda *_: (open(folder + "/heard", "a").write("x"), sys.exit(3)))
leads = os.getsid(0) == os.getpid()
seen = dict(environment=dict(os.environ), leads=leads, stdin=sys.stdin.read())
open(folder + "/new." + host, "w").write(json.dumps(seen))
os.rename(folder + "/new." + host, folder + "/seen." + host)
print("out"); print("err", file=sys.stderr, flush=True)
while not os.path.exists(folder + "/end"):
    time.sleep(0.01)
"""
Start = Callable[..., Handle]


@pytest.fixture(params=PLACEMENTS)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    if request.param == "slurm":
        made = slurm_site(request.getfixturevalue("slurm"), tmp_path)
    elif request.param == "ray":
        made = ray_site(request.getfixturevalue("ray_nodes"))
    elif request.param == "kubernetes":
        made = kubernetes_site(request.getfixturevalue("kubernetes"), tmp_path)
    else:
        made = {"local": local_site, "toy": toy_site}[request.param](tmp_path)
    with made as found:
        yield found


@pytest.fixture
def placement(site: Site) -> Placement:
    return site.placement


@pytest.fixture
def folder(site: Site) -> Path:
    return site.folder


def make_group(site: Site, environment: dict[str, str] | None = None) -> Group:
    is_here = site.placement.shares_files
    hosts = [
        HostRequest(
            name=name,
            nonce=f"{uuid.uuid4()} of {name}",
            arguments=(name,) if is_here else ("--group", name),
            log=site.folder / "log" if is_here else None,
        )
        for name in HOSTS
    ]
    return Group(
        job="job",
        attempt=1,
        epoch=1,
        hosts=tuple(hosts),
        command=(sys.executable, "-S", "-c", SUPERVISOR, str(site.folder)),
        environment=environment or {},
        image="example.com/training:1",
        bundle='{"secret": "hush-4711"}',
    )


@pytest.fixture
def start(site: Site) -> Iterator[Start]:
    """Starts a group and returns when its hosts run; stops it after the test."""
    handles: list[Handle] = []

    def run(environment: dict[str, str] | None = None) -> Handle:
        handle = site.placement.start(make_group(site, environment))
        handles.append(handle)
        for name in HOSTS:
            until((site.folder / f"seen.{name}").exists)
        return handle

    yield run
    for handle in handles:
        site.placement.stop(handle, force=True)


def is_over(poll: Poll) -> bool:
    return isinstance(poll, Exited | Ended)


def wait(placement: Placement, handle: Handle) -> None:
    until(lambda: all(map(is_over, placement.poll(handle).values())))


def seen_by(host: str, folder: Path) -> dict[str, object]:
    return dict(json.loads((folder / f"seen.{host}").read_text()))


def test_a_group_runs_until_its_supervisors_end(
    placement: Placement, start: Start, folder: Path
) -> None:
    handle = start()
    assert placement.poll(handle) == dict.fromkeys(HOSTS, Running())
    (folder / "end").touch()
    wait(placement, handle)


def test_a_handle_still_finds_it_after_a_restart_of_ours(
    placement: Placement, start: Start
) -> None:
    handle = json.loads(json.dumps(start()))
    restarted = type(placement)()
    assert restarted.poll(handle) == dict.fromkeys(HOSTS, Running())
    restarted.stop(handle)
    wait(restarted, handle)


def test_every_host_has_an_address(placement: Placement, start: Start) -> None:
    handle = start()
    addresses = placement.addresses(handle)
    assert addresses.keys() == set(HOSTS)
    assert len(set(addresses.values())) == len(HOSTS)
    assert isinstance(placement.interface(handle), str)


def test_where_files_are_shared_the_environment_is_exactly_the_one_given(
    placement: Placement, start: Start, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKED", "yes")
    given = {"GIVEN": "a 'b' $c\n=d", "PWD": "/elsewhere", "LC_CTYPE": "C.UTF-8"}
    start(given)
    seen = seen_by("algo-1", folder)["environment"]
    assert isinstance(seen, dict)
    assert "LEAKED" not in seen
    if placement.shares_files:
        assert seen == given
    else:
        assert "GIVEN" not in seen, "a host elsewhere has an environment of its own"


def test_secrets_are_on_no_command_line(placement: Placement, start: Start) -> None:
    start()
    running = [process_table.read(f"/proc/{pid}/cmdline") for pid in process_table.pids()]
    assert not any(b"hush-4711" in line for line in running)


def test_it_has_no_terminal_and_no_input(placement: Placement, start: Start, folder: Path) -> None:
    start()
    seen = seen_by("algo-2", folder)
    if placement.shares_files:
        assert seen["leads"] is True, "it has the session of a terminal"
    assert seen["stdin"] == ""


def test_where_there_is_a_log_its_output_is_appended(
    placement: Placement, start: Start, folder: Path
) -> None:
    (folder / "log").write_text("before\n")
    start()
    if placement.shares_files:
        until(lambda: (folder / "log").read_text() == "before\nerr\nerr\n")


def test_stop_asks_once(placement: Placement, start: Start, folder: Path) -> None:
    handle = start()
    placement.stop(handle)
    wait(placement, handle)
    assert (folder / "heard").read_text() == "xx"


def test_one_host_can_be_stopped_alone(placement: Placement, start: Start, folder: Path) -> None:
    handle = start()
    placement.stop(handle, host="algo-2")
    until(lambda: is_over(placement.poll(handle)["algo-2"]))
    assert placement.poll(handle)["algo-1"] == Running()
    assert (folder / "heard").read_text() == "x"


def test_force_does_not_ask(placement: Placement, start: Start, folder: Path) -> None:
    handle = start()
    placement.stop(handle, force=True)
    wait(placement, handle)
    assert not (folder / "heard").exists()


@pytest.mark.parametrize("force", [False, True])
def test_stopping_one_that_has_ended_is_silent(
    placement: Placement, start: Start, folder: Path, force: bool
) -> None:
    handle = start()
    (folder / "end").touch()
    wait(placement, handle)
    placement.stop(handle, force=force)
    assert all(map(is_over, placement.poll(handle).values()))


def test_a_group_that_cannot_be_started_as_a_whole_leaves_nothing(site: Site) -> None:
    group = site.impossible(make_group(site))
    with pytest.raises((OSError, ValueError), match=r"broken|No such file|10 hosts are asked for"):
        site.placement.start(group)
    mine = os.fsencode(site.folder)

    def is_running() -> bool:
        lines = [process_table.read(f"/proc/{pid}/cmdline") for pid in process_table.pids()]
        return any(mine in line and b"-S" in line for line in lines)

    until(lambda: not is_running())


def test_a_handle_of_another_kind_is_unknown_and_not_dead(placement: Placement) -> None:
    assert placement.poll({"actor": "abc"}) == {}, "a host that is missing counts as unknown"
    placement.stop({"actor": "abc"})
    placement.stop({"actor": "abc"}, force=True)


# What only placements can say that have machines of their own


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[Site]:
    with toy_site(tmp_path) as found:
        yield found


@pytest.fixture
def cluster(toy: Site) -> Path:
    return toy.folder / "cluster"


def test_a_group_waits_for_machines(toy: Site, cluster: Path) -> None:
    (cluster / "full").touch()
    handle = toy.placement.start(make_group(toy))
    assert toy.placement.poll(handle) == dict.fromkeys(HOSTS, Pending("no machine is free"))
    (cluster / "full").unlink()
    assert toy.placement.poll(handle) == dict.fromkeys(HOSTS, Running())


def test_an_engine_that_is_away_is_unknown_and_starts_nothing(toy: Site, cluster: Path) -> None:
    handle = toy.placement.start(make_group(toy))
    (cluster / "away").touch()
    unknown = Unknown("the head node does not respond")
    assert toy.placement.poll(handle) == dict.fromkeys(HOSTS, unknown)
    with pytest.raises(PlacementAway):
        toy.placement.start(make_group(toy))


def test_a_machine_that_failed_is_lost(toy: Site, cluster: Path) -> None:
    handle = toy.placement.start(make_group(toy))
    (cluster / "lost").touch()
    assert toy.placement.poll(handle)["algo-1"] == Lost("the machine was preempted")
