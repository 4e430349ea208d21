"""What every placement does alike. A new one adds a line to PLACEMENTS."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.toy_placement import ToyPlacement, free
from tests.wait import until
from trackside.placement.local import LocalPlacement
from trackside.placement.placement import (
    Exited,
    Group,
    Handle,
    HostRequest,
    Lost,
    Pending,
    Placement,
    PlacementAway,
    Running,
    Unknown,
)
from trackside.system import process_table

PLACEMENTS = [LocalPlacement, ToyPlacement]

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
HOSTS = ("algo-1", "algo-2")
Start = Callable[..., Handle]


@pytest.fixture(params=PLACEMENTS, ids=lambda make: make.name)
def placement(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Placement]:
    cluster = tmp_path / "cluster"
    cluster.mkdir()
    monkeypatch.setattr(ToyPlacement, "cluster", cluster, raising=False)
    yield request.param()
    free(cluster)


def make_group(folder: Path, environment: dict[str, str] | None = None) -> Group:
    hosts = [
        HostRequest(name=name, nonce=f"nonce of {name}", arguments=(name,), log=folder / "log")
        for name in HOSTS
    ]
    return Group(
        job="job",
        attempt=1,
        epoch=1,
        hosts=tuple(hosts),
        command=(sys.executable, "-S", "-c", SUPERVISOR, str(folder)),
        environment=environment or {},
        bundle='{"secret": "hush-4711"}',
    )


@pytest.fixture
def start(placement: Placement, tmp_path: Path):
    """Starts a group and returns when its hosts run; stops it after the test."""
    handles: list[Handle] = []

    def run(environment: dict[str, str] | None = None) -> Handle:
        handle = placement.start(make_group(tmp_path, environment))
        handles.append(handle)
        for name in HOSTS:
            until((tmp_path / f"seen.{name}").exists)
        return handle

    yield run
    for handle in handles:
        placement.stop(handle, force=True)


def wait(placement: Placement, handle: Handle) -> None:
    until(lambda: all(isinstance(poll, Exited) for poll in placement.poll(handle).values()))


def seen_by(host: str, folder: Path) -> dict[str, object]:
    return dict(json.loads((folder / f"seen.{host}").read_text()))


def test_a_group_runs_until_its_supervisors_end(
    placement: Placement, start: Start, tmp_path: Path
) -> None:
    handle = start()
    assert placement.poll(handle) == dict.fromkeys(HOSTS, Running())
    (tmp_path / "end").touch()
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
    placement: Placement, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKED", "yes")
    given = {"GIVEN": "a 'b' $c\n=d", "PWD": "/elsewhere", "LC_CTYPE": "C.UTF-8"}
    start(given)
    seen = seen_by("algo-1", tmp_path)["environment"]
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


def test_it_has_no_terminal_and_no_input(start: Start, tmp_path: Path) -> None:
    start()
    seen = seen_by("algo-2", tmp_path)
    assert seen["leads"] is True
    assert seen["stdin"] == ""


def test_where_there_is_a_log_its_output_is_appended(
    placement: Placement, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "log").write_text("before\n")
    start()
    if placement.shares_files:
        until(lambda: (tmp_path / "log").read_text() == "before\nerr\nerr\n")


def test_stop_asks_once(placement: Placement, start: Start, tmp_path: Path) -> None:
    handle = start()
    placement.stop(handle)
    wait(placement, handle)
    assert (tmp_path / "heard").read_text() == "xx"


def test_one_host_can_be_stopped_alone(placement: Placement, start: Start, tmp_path: Path) -> None:
    handle = start()
    placement.stop(handle, host="algo-2")
    until(lambda: isinstance(placement.poll(handle)["algo-2"], Exited))
    assert placement.poll(handle)["algo-1"] == Running()
    assert (tmp_path / "heard").read_text() == "x"


def test_force_does_not_ask(placement: Placement, start: Start, tmp_path: Path) -> None:
    handle = start()
    placement.stop(handle, force=True)
    wait(placement, handle)
    assert not (tmp_path / "heard").exists()


@pytest.mark.parametrize("force", [False, True])
def test_stopping_one_that_has_ended_is_silent(
    placement: Placement, start: Start, tmp_path: Path, force: bool
) -> None:
    handle = start()
    (tmp_path / "end").touch()
    wait(placement, handle)
    placement.stop(handle, force=force)
    assert all(isinstance(poll, Exited) for poll in placement.poll(handle).values())


def test_a_group_that_cannot_be_started_as_a_whole_leaves_nothing(
    placement: Placement, tmp_path: Path
) -> None:
    group = make_group(tmp_path)
    if placement.shares_files:
        last = HostRequest(name="algo-3", nonce="n", log=tmp_path / "no" / "folder")
        group = Group(
            job="job", attempt=1, epoch=1, hosts=(*group.hosts, last), command=group.command
        )
    else:
        (tmp_path / "cluster" / "broken-algo-2").touch()
    with pytest.raises(OSError, match=r"broken|No such file"):
        placement.start(group)
    mine = os.fsencode(tmp_path)

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
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ToyPlacement]:
    cluster = tmp_path / "cluster"
    cluster.mkdir()
    monkeypatch.setattr(ToyPlacement, "cluster", cluster, raising=False)
    yield ToyPlacement()
    free(cluster)


def test_a_group_waits_for_machines(toy: ToyPlacement, tmp_path: Path) -> None:
    (toy.cluster / "full").touch()
    handle = toy.start(make_group(tmp_path))
    assert toy.poll(handle) == dict.fromkeys(HOSTS, Pending("no machine is free"))
    (toy.cluster / "full").unlink()
    assert toy.poll(handle) == dict.fromkeys(HOSTS, Running())


def test_an_engine_that_is_away_is_unknown_and_starts_nothing(
    toy: ToyPlacement, tmp_path: Path
) -> None:
    handle = toy.start(make_group(tmp_path))
    (toy.cluster / "away").touch()
    unknown = Unknown("the head node does not respond")
    assert toy.poll(handle) == dict.fromkeys(HOSTS, unknown)
    with pytest.raises(PlacementAway):
        toy.start(make_group(tmp_path))


def test_a_machine_that_failed_is_lost(toy: ToyPlacement, tmp_path: Path) -> None:
    handle = toy.start(make_group(tmp_path))
    (toy.cluster / "lost").touch()
    assert toy.poll(handle)["algo-1"] == Lost("the machine was preempted")
