"""What every placement does alike. A new one adds a line to PLACEMENTS."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.wait import until
from trackside.placement.local import LocalPlacement
from trackside.placement.placement import Exited, Handle, Placement, Running, Unknown

PLACEMENTS = [LocalPlacement]

# Says that it is ready, and what it sees; ends by SIGTERM, or when the file `end` appears.
SUPERVISOR = """
import json, os, signal, sys, time
folder = sys.argv[1]
signal.signal(signal.SIGTERM, lambda *_: (open(folder + "/heard", "a").write("x"), sys.exit(3)))
leads = os.getsid(0) == os.getpid()
seen = dict(environment=dict(os.environ), leads=leads, stdin=sys.stdin.read())
open(folder + "/new", "w").write(json.dumps(seen))
os.rename(folder + "/new", folder + "/seen")
print("out"); print("err", file=sys.stderr, flush=True)
while not os.path.exists(folder + "/end"):
    time.sleep(0.01)
"""
Start = Callable[..., Handle]


@pytest.fixture(params=PLACEMENTS, ids=lambda make: make.name)
def placement(request: pytest.FixtureRequest) -> Placement:
    return request.param()


@pytest.fixture
def start(placement: Placement, tmp_path: Path):
    """Starts a supervisor and returns when it runs; stops it after the test."""
    handles: list[Handle] = []

    def run(environment: dict[str, str] | None = None) -> Handle:
        command = [sys.executable, "-S", "-c", SUPERVISOR, str(tmp_path)]
        handle = placement.start(
            command, environment or {}, nonce="nonce-of-this-attempt", log=tmp_path / "log"
        )
        handles.append(handle)
        until((tmp_path / "seen").exists)
        return handle

    yield run
    for handle in handles:
        placement.stop(handle, force=True)


def wait(placement: Placement, handle: Handle) -> None:
    until(lambda: isinstance(placement.poll(handle), Exited))


def test_a_supervisor_runs_until_it_ends(
    placement: Placement, start: Start, tmp_path: Path
) -> None:
    handle = start()
    assert placement.poll(handle) == Running()
    (tmp_path / "end").touch()
    wait(placement, handle)


def test_a_handle_still_finds_it_after_a_restart_of_ours(
    placement: Placement, start: Start, tmp_path: Path
) -> None:
    handle = json.loads(json.dumps(start()))
    assert handle["nonce"] == "nonce-of-this-attempt"
    restarted = type(placement)()
    assert restarted.poll(handle) == Running()
    restarted.stop(handle)
    wait(restarted, handle)


def test_the_environment_is_exactly_the_one_given(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKED", "yes")
    given = {"GIVEN": "a 'b' $c\n=d", "PWD": "/elsewhere", "LC_CTYPE": "C.UTF-8"}
    start(given)
    assert json.loads((tmp_path / "seen").read_text())["environment"] == given


def test_it_has_no_terminal_and_no_input(start: Start, tmp_path: Path) -> None:
    start()
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen["leads"] is True
    assert seen["stdin"] == ""


def test_its_output_is_appended_to_the_log(start: Start, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\n")
    start()
    lines = until(lambda: read if len(read := (tmp_path / "log").read_text().split()) > 1 else None)
    assert lines == ["before", "err"], "stdout is buffered until the end"


def test_stop_asks_once(placement: Placement, start: Start, tmp_path: Path) -> None:
    handle = start()
    placement.stop(handle)
    wait(placement, handle)
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
    assert isinstance(placement.poll(handle), Exited)


def test_a_handle_of_another_kind_is_unknown_and_not_dead(placement: Placement) -> None:
    assert isinstance(placement.poll({"actor": "abc"}), Unknown)
    placement.stop({"actor": "abc"})
