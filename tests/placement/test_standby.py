"""Tests of `placement/standby.py`: what a forked supervisor has of its maker, and what not."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wait import until
from trackside.system import process_table
from trackside.system.processes import identify

# What a program of the name `-m stand_in` sees; it ends when the file `end` appears.
STAND_IN = """
import json, os, sys, threading, time
def main(arguments):
    folder = arguments[0]
    numbers = os.listdir("/proc/self/fd")[:-1]
    descriptors = [os.readlink(f"/proc/self/fd/{each}") for each in numbers]
    leads = os.getsid(0) == os.getpid()
    seen = dict(arguments=arguments, environment=dict(os.environ), leads=leads,
                stdin=sys.stdin.read(), path=sys.path, descriptors=descriptors)
    with open(folder + "/new", "w") as file:
        json.dump(seen, file)
    os.rename(folder + "/new", folder + "/seen")
    print("err", file=sys.stderr, flush=True)
    def last():
        while not os.path.exists(folder + "/end"):
            time.sleep(0.01)
        print("a thread saw the end", file=sys.stderr)
    threading.Thread(target=last).start()
    return 0
"""
MAKER = """
import json, os, sys
from pathlib import Path
from trackside.placement import standby
from trackside.placement.local import LocalPlacement
from trackside.placement.placement import Group, HostRequest
folder = Path(sys.argv[1])
{before}
standby.prepare("stand_in")
command = [sys.executable, "-P", "-m", "{module}", str(folder), "algo-1"]
def start(given):
    host = HostRequest(name="algo-1", nonce="n", log=folder / "log")
    group = Group(job="job", attempt=1, epoch=1, hosts=(host,), command=tuple(command),
                  environment=given)
    return LocalPlacement().start(group)["hosts"]["algo-1"]
{then}
"""
START = """
given = {"GIVEN": "a=b\\udcff", "PYTHONPATH": str(folder / "packages")}
handle = start(given)
print(json.dumps(handle), flush=True)
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[Path]:
    package = tmp_path / "packages" / "stand_in"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "program.py").write_text(STAND_IN)
    (package / "__main__.py").write_text(
        "import sys\nfrom stand_in.program import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    yield tmp_path
    (tmp_path / "end").touch()


def make(folder: Path, then: str, *, before: str = "", module: str = "stand_in") -> str:
    """What a process says that prepares a standby."""
    code = MAKER.format(before=before, then=then, module=module)
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(folder / "packages"), "LEAKED": "yes"},
    )
    return done.stdout


def seen_by(folder: Path) -> dict[str, object]:
    return until(lambda: json.loads((folder / "seen").read_text()))


def test_it_is_a_supervisor_like_any_other(stand_in: Path):
    before = "kept = open(folder / 'of-the-maker', 'w'); os.set_inheritable(kept.fileno(), True)"
    handle = json.loads(make(stand_in, START, before=before))
    seen = seen_by(stand_in)
    assert seen["arguments"] == [str(stand_in), "algo-1"]
    packages = str(stand_in / "packages")
    assert seen["environment"] == {"GIVEN": "a=b\udcff", "PYTHONPATH": packages}
    assert seen["leads"] is True
    assert seen["stdin"] == ""
    assert "" not in seen["path"]  # type: ignore[operator]  # -P
    assert set(seen["descriptors"]) == {"/dev/null", str(stand_in / "log")}  # type: ignore[call-overload]
    identity = identify(handle["pid"])
    assert identity is not None
    assert identity.started == handle["started"]
    assert b"standby.prepare" in process_table.read(f"/proc/{handle['pid']}/cmdline")
    (stand_in / "end").touch()
    until(lambda: "a thread saw the end" in (stand_in / "log").read_text())
    assert (stand_in / "log").read_text().startswith("err\n")


def test_who_reads_the_makers_output_does_not_wait_for_it(stand_in: Path):
    make(stand_in, START)  # returns at the end of its output, with the supervisor alive
    seen_by(stand_in)


@pytest.mark.parametrize(
    "then", ["", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "1 / 0"]
)
def test_without_a_job_it_leaves_with_its_maker(stand_in: Path, then: str):
    report = "print(os.read(standby.take()._reply, 32).decode(), flush=True)"
    code = MAKER.format(before="", then=f"{report}\n{then}", module="stand_in")
    done = subprocess.run(
        [sys.executable, "-c", code, str(stand_in)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(stand_in / "packages")},
    )
    pid = int(done.stdout)
    until(lambda: identify(pid) is None)
    assert not (stand_in / "seen").exists()


def test_a_process_with_threads_is_not_forked(stand_in: Path):
    before = (
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"
    )
    handle = json.loads(make(stand_in, START, before=before).splitlines()[-1])
    seen_by(stand_in)
    assert b"stand_in" in process_table.read(f"/proc/{handle['pid']}/cmdline")
    assert b"prepare" not in process_table.read(f"/proc/{handle['pid']}/cmdline")


def test_another_command_is_a_program_of_its_own(stand_in: Path):
    other = stand_in / "packages" / "other"
    other.mkdir()
    (other / "__main__.py").write_text("print('other')")
    make(stand_in, START, module="other")
    until(lambda: (stand_in / "log").read_text() == "other\n")
    assert not (stand_in / "seen").exists()


def test_a_maker_whose_streams_are_closed_can_be_forked(stand_in: Path):
    maker = stand_in / "maker.py"
    maker.write_text(
        MAKER.format(
            before="",
            then=START.replace("print(json.dumps(handle), flush=True)", ""),
            module="stand_in",
        )
    )
    done = subprocess.run(
        ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", sys.executable, str(maker), str(stand_in)],
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(stand_in / "packages")},
    )
    assert done.returncode == 0
    assert set(seen_by(stand_in)["descriptors"]) == {"/dev/null", str(stand_in / "log")}  # type: ignore[call-overload]
