"""A command that runs as another user: what it is, what it sees, and what it cannot do."""

import json
import os
import re
import shutil
import signal
import stat
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.other_users import FIRST, SECOND, needs_other_users, python_for_all
from tests.wait import until
from trackside.errors import SandboxError
from trackside.supervisor.process_sandbox import ProcessSandbox, can_map
from trackside.supervisor.sandbox import Exited, Lost, Running, SandboxPlan
from trackside.supervisor.user_folders import hand_over
from trackside.system import processes
from trackside.system.run_as import JobUser, find_user

pytestmark = needs_other_users

MakePlan = Callable[..., SandboxPlan]
USER = JobUser("somebody", FIRST, FIRST, (FIRST, 12345))


@pytest.fixture
def make_plan(tmp_path: Path) -> Iterator[MakePlan]:
    """Plans for small Python programs; what they started is killed after the test."""
    plans: list[SandboxPlan] = []

    def make(program: str, *, user: JobUser = USER, **fields: Any) -> SandboxPlan:
        root = tmp_path / f"algo-{len(plans) + 1}"
        (root / "ml").mkdir(parents=True)
        hand_over(root / "ml", user)
        values: dict[str, Any] = {
            "folder": root / "sandbox",
            "ml": root / "ml",
            "command": [python_for_all(), "-S", "-u", "-c", textwrap.dedent(program)],
            "environment": {"PATH": os.defpath},
            "log": root / "log",
            "nonce": f"test-{os.getpid()}-{time.monotonic_ns()}",
        }
        plans.append(SandboxPlan(**{**values, "user": user, **fields}))
        return plans[-1]

    yield make
    for plan in plans:
        ProcessSandbox().signal(plan, signal.SIGKILL)
    until(lambda: all(ProcessSandbox().poll(plan) != Running() for plan in plans))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that every user can enter and nobody else write to."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def run(plan: SandboxPlan) -> str:
    ProcessSandbox().start(plan)
    assert wait(plan) == Exited(0), plan.log.read_text()
    return plan.log.read_text()


def wait(plan: SandboxPlan) -> object:
    return until(lambda: None if (seen := ProcessSandbox().poll(plan)) == Running() else seen)


def process_of(plan: SandboxPlan, which: str) -> int:
    return int(json.loads((plan.folder / "process.json").read_text())[which]["pid"])


# Who it is


def test_it_has_the_user_s_ids_and_no_others(make_plan: MakePlan) -> None:
    program = """
        import json, os
        print(json.dumps([os.getresuid(), os.getresgid(), sorted(os.getgroups()), os.umask(0)]))
    """
    ids = [FIRST] * 3
    assert json.loads(run(make_plan(program))) == [ids, ids, sorted([FIRST, 12345]), 0o022]


def test_it_has_no_capability_and_can_gain_none(make_plan: MakePlan) -> None:
    status = run(make_plan("print(open('/proc/self/status').read())"))
    found = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    sets = {name: int(found[name], 16) for name in found if name.startswith("Cap")}
    assert len(sets) == 5
    assert set(sets.values()) == {0}
    assert found["NoNewPrivs"] == "1"


def test_a_setuid_program_does_not_make_it_root(make_plan: MakePlan, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    shutil.copy2(shutil.which("id") or "", folder / "id")
    (folder / "id").chmod(0o4755)
    plan = make_plan(
        "import os; os.execv('/bin-of-a-test/id', ['id', '-u'])",
        mounts={"/bin-of-a-test": folder},
    )
    assert run(plan) == f"{FIRST}\n"


def test_it_has_no_descriptor_but_its_streams(make_plan: MakePlan) -> None:
    program = """
        import os
        print(sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1])
    """
    assert run(make_plan(program)) == "[0, 1, 2]\n"


def test_its_streams_can_be_opened_by_name(make_plan: MakePlan) -> None:
    program = """
        for name in ("/dev/stdout", "/dev/stderr"):
            with open(name, "a") as stream: stream.write(name + "\\n")
    """
    assert run(make_plan(program)) == "/dev/stdout\n/dev/stderr\n"


# What it sees


def test_it_sees_no_processes_but_its_own(make_plan: MakePlan) -> None:
    program = """
        import os
        pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
        print(pids, os.getpid(), os.getppid(), os.getpgrp())
    """
    assert run(make_plan(program)) == "[1, 2] 2 1 2\n"


def test_the_first_process_of_its_own_tells_it_nothing_and_cannot_be_ended(
    make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "hush")
    program = """
        import os, signal
        for name in ("environ", "mem", "maps", "root", "cwd", "fd"):
            path = f"/proc/1/{name}"
            try:
                (os.listdir if name in ("root", "cwd", "fd") else open)(path)
                print("read", path)
            except PermissionError:
                pass
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGSEGV, signal.SIGKILL):
            os.kill(1, number)
        print("lives")
    """
    assert run(make_plan(program)) == "lives\n"


def test_two_jobs_of_one_user_cannot_reach_each_other(make_plan: MakePlan) -> None:
    waits = """
        import os, time
        open("/opt/ml/mine", "w").write("mine")
        shared = open("/dev/shm/shared-of-a-test", "w")
        while not os.path.exists("/opt/ml/go"): time.sleep(0.01)
    """
    first = make_plan(waits)
    ProcessSandbox().start(first)
    until((first.ml / "mine").exists)
    target = process_of(first, "command")
    looks = f"""
        import os
        for path in ("/proc/{target}/root/opt/ml/mine", "/proc/{target}/environ",
                     "/dev/shm/shared-of-a-test", {str(first.ml / "mine")!r}):
            try: print("read", open(path).read())
            except OSError as error: print(type(error).__name__)
        try: os.kill({target}, 9)
        except OSError as error: print(type(error).__name__)
    """
    said = run(make_plan(looks)).split()
    assert said == ["FileNotFoundError"] * 3 + ["PermissionError", "ProcessLookupError"]
    assert ProcessSandbox().poll(first) == Running()
    assert not Path("/dev/shm/shared-of-a-test").exists()
    (first.ml / "go").touch()
    assert wait(first) == Exited(0)


def test_the_way_to_its_folder_is_closed_and_the_folder_its_own(make_plan: MakePlan) -> None:
    plan = make_plan(
        """
        import os
        open("/opt/ml/new", "w").write("x")
        os.mkdir("/opt/ml/folder")
        """
    )
    plan.folder.parent.chmod(0o700)
    run(plan)
    assert (plan.ml / "new").stat().st_uid == FIRST
    assert stat.S_IMODE((plan.ml / "new").stat().st_mode) == 0o644


def test_a_file_elsewhere_cannot_be_given_a_second_name_here(
    make_plan: MakePlan, tmp_path: Path
) -> None:
    """Whatever the system's own protection of links says: the mount is another."""
    plan = make_plan(
        """
        import errno, os
        for path in ("/etc/passwd", "/etc/shadow"):
            try: os.link(path, "/opt/ml/linked")
            except OSError as error: print(errno.errorcode[error.errno])
        """
    )
    assert run(plan) == "EXDEV\nEXDEV\n"


def test_folders_that_are_missing_are_made_in_sight_of_it_alone(
    make_plan: MakePlan, tmp_path: Path, open_folder: Path
) -> None:
    (tmp_path / "data").mkdir()
    hand_over(tmp_path / "data", USER)
    places = [str(open_folder / "a" / "b"), "/of-a-test/a", "/opt/of-a-test"]
    program = f"""
        for number, place in enumerate({places}):
            open(f"{{place}}/{{number}}", "w").close()
    """
    mounts = dict.fromkeys(places, tmp_path / "data")
    run(make_plan(program, mounts=mounts))
    assert sorted(os.listdir(tmp_path / "data")) == ["0", "1", "2"]
    assert os.listdir(open_folder) == []
    assert not Path("/of-a-test").exists()


def test_a_mount_may_hide_the_way_to_all_others(make_plan: MakePlan, tmp_path: Path) -> None:
    """Such as a /tmp of its own, while the job's folders are below the real one."""
    top = Path("/", *tmp_path.parts[1:2])
    (tmp_path / "own").mkdir()
    hand_over(tmp_path / "own", USER)
    program = f"""
        import os, socket
        open("{top}/new", "w").close()
        print(sorted(os.listdir("{top}")), socket.gethostbyname("algo-1"), os.listdir("/opt/ml"))
    """
    plan = make_plan(
        program, mounts={str(top): tmp_path / "own"}, addresses={"algo-1": "127.0.0.11"}
    )
    assert run(plan) == "['new'] 127.0.0.11 []\n"
    assert os.listdir(tmp_path / "own") == ["new"]


# What is refused


@pytest.mark.parametrize("kind", ["user", "none"])
def test_no_other_isolation_runs_it_as_ourselves_instead(make_plan: MakePlan, kind: str) -> None:
    plan = make_plan("open('/opt/ml/ran', 'w')")
    with pytest.raises(SandboxError, match=rf"'somebody', and the isolation '{kind}' cannot"):
        ProcessSandbox(kind).start(plan)
    assert os.listdir(plan.ml) == []


@pytest.mark.parametrize("target", ["/proc", "/proc/self", "/sys/fs", "/dev/shm/x", "/opt/../dev"])
def test_what_is_the_kernel_s_can_be_no_folder_of_the_job(
    make_plan: MakePlan, tmp_path: Path, target: str
) -> None:
    plan = make_plan("", mounts={target: tmp_path})
    with pytest.raises(SandboxError, match="is the kernel's"):
        ProcessSandbox().start(plan)


def test_a_program_that_is_closed_to_the_user_ends_as_in_a_shell(
    make_plan: MakePlan, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    plan = make_plan("", command=[str(program)])
    ProcessSandbox().start(plan)
    assert wait(plan) == Exited(126)
    assert "cannot be started: Permission denied" in plan.log.read_text()


# A folder of ours as the user's own


def test_a_bucket_is_read_in_place(make_plan: MakePlan, tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    (bucket / "deep").mkdir(parents=True)
    (bucket / "deep" / "a.csv").write_text("1,2\n")
    for path, mode in ((bucket, 0o700), (bucket / "deep", 0o700), (bucket / "deep/a.csv", 0o600)):
        path.chmod(mode)
    if not can_map(bucket, USER):
        pytest.skip("this kernel or disk has no ID-mapped mounts")
    target = "/opt/ml/input/data/train"
    program = f"""
        import errno
        print(open("{target}/deep/a.csv").read(), end="")
        try: open("{target}/new", "w")
        except OSError as error: print(errno.errorcode[error.errno])
    """
    shown = frozenset([target])
    plan = make_plan(program, mounts={target: bucket}, read_only=shown, mapped=shown)
    assert run(plan) == "1,2\nEROFS\n"
    assert (bucket / "deep" / "a.csv").stat().st_uid == 0


def test_where_no_owner_can_be_mapped_that_is_known_before(tmp_path: Path) -> None:
    assert not can_map(Path("/proc"), USER)
    assert not can_map(tmp_path / "nothing", USER)


# Who may die


def test_death_by_a_signal_is_distinguished_from_an_exit_code(make_plan: MakePlan) -> None:
    plan = make_plan("import os, signal; os.kill(os.getpid(), signal.SIGUSR1)")
    ProcessSandbox().start(plan)
    assert wait(plan) == Exited(-signal.SIGUSR1)
    plan = make_plan("import sys; sys.exit(138)")
    ProcessSandbox().start(plan)
    assert wait(plan) == Exited(138)


@pytest.mark.parametrize("which", ["init", "first"])
def test_nothing_of_it_outlives_init_or_its_own_first_process(
    make_plan: MakePlan, which: str
) -> None:
    program = """
        import os, time
        if os.fork() == 0:
            os.setsid()
        open(f"/opt/ml/{os.getpid()}", "w")
        while True: time.sleep(1000)
    """
    plan = make_plan(program)
    ProcessSandbox().start(plan)
    until(lambda: len(os.listdir(plan.ml)) == 2)
    mark = json.loads((plan.folder / "process.json").read_text())["mark"]
    # The fork of Python that is first in the PID namespace carries the mark by its mounts.
    assert len(processes.carriers(mark)) == 3
    init, command = process_of(plan, "init"), process_of(plan, "command")
    first = int(re.findall(r"PPid:\s+(\d+)", Path(f"/proc/{command}/status").read_text())[0])
    os.kill(init if which == "init" else first, signal.SIGKILL)
    ended = wait(plan)
    assert isinstance(ended, Lost) if which == "init" else ended == Exited(-signal.SIGKILL)
    until(lambda: processes.carriers(mark) == [])


def test_users_are_kept_apart_from_each_other(make_plan: MakePlan) -> None:
    first = make_plan("open('/opt/ml/mine', 'w').write('mine')")
    run(first)
    second = make_plan(f"open({str(first.ml / 'mine')!r})", user=find_user(str(SECOND)))
    ProcessSandbox().start(second)
    assert wait(second) == Exited(1)
    assert "PermissionError" in second.log.read_text()
