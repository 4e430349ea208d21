"""Control groups: those of this machine's kernel, and folders laid out as another's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wait import until
from trackside.system import process_table
from trackside.system.control_group import (
    ControlGroup,
    can_join,
    clear,
    enforced,
    groups_of,
    make,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")

MEMORY_BYTES = 64 << 20


@pytest.fixture
def group(tmp_path: Path):
    name = f"trackside-test-{os.getpid()}"
    made = make(name, MEMORY_BYTES, 10)
    if not made.memory or not made.pids:
        pytest.skip("this user may make no control group here")
    yield made
    made.remove()
    clear(name)


def inside(group: ControlGroup, code: str) -> subprocess.Popen[str]:
    """A program in the group."""
    source = f"from {ControlGroup.__module__} import *\n{group!r}.join()\n{code}"
    return subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_the_kernel_enforces_the_memory_limit_of_a_group(group: ControlGroup):
    eater = inside(group, "kept = b'x' * (200 << 20); print(len(kept))")
    output, _ = eater.communicate(timeout=60)
    assert (output, eater.returncode) == ("", -9)
    assert group.num_killed > 0
    assert group.num_refused == 0


def test_and_to_its_number_of_processes(group: ControlGroup):
    code = "import os, time\nfor _ in range(30):\n    if os.fork() == 0: time.sleep(1000)\n"
    with inside(group, code) as starter:
        assert starter.wait(60) == 1
        assert group.num_refused > 0
        assert group.num_killed == 0
        group.remove()
        assert starter.stderr is not None
        assert "Resource temporarily unavailable" in starter.stderr.read()


def test_the_kernel_enforces_the_core_limit_of_a_group():
    made = make(f"trackside-test-cpu-{os.getpid()}", num_cores=1)
    if not made.cpu or not can_join(made):
        made.remove()
        pytest.skip("this user may make no control group here")
    try:
        # A tenth of a core: a busy machine may not give it a whole one.
        for name, wanted, tenth in (
            ("cpu.cfs_quota_us", "100000", "10000"),
            ("cpu.max", "100000 100000", "10000 100000"),
        ):
            path = Path(made.cpu, name)
            if path.exists():
                assert path.read_text().strip() == wanted
                path.write_text(tenth)
        burn = "import time\nwhile time.process_time() < 0.2: pass"
        inside(made, burn).communicate(timeout=60)
        counted = dict(line.split() for line in Path(made.cpu, "cpu.stat").read_text().splitlines())
        assert int(counted["nr_throttled"]) > 0
    finally:
        made.remove()


def test_a_trial_leaves_nothing_behind():
    tried = enforced()
    assert not any(map(os.path.exists, tried.folders))


def test_its_processes_are_killed_with_it(group: ControlGroup):
    sleeper = inside(group, "import time; print('here', flush=True); time.sleep(1000)")
    assert sleeper.stdout is not None
    assert sleeper.stdout.readline() == "here\n"
    group.remove()
    assert sleeper.wait(60) == -9
    sleeper.communicate()
    assert not any(map(os.path.exists, group.folders))


def test_a_group_that_was_left_behind_is_emptied_first(group: ControlGroup):
    sleeper = inside(group, "import time; print('here', flush=True); time.sleep(1000)")
    assert sleeper.stdout is not None
    sleeper.stdout.readline()
    again = make(os.path.basename(group.folders[0]), MEMORY_BYTES, 10)
    assert again == group
    assert sleeper.wait(60) == -9
    sleeper.communicate()


def test_it_is_made_below_the_own_group(group: ControlGroup):
    own = process_table.read("/proc/self/cgroup").decode()
    paths = {line.split(":", 2)[2].rstrip("/") for line in own.splitlines()}
    assert all(any(f"{path}/trackside-test-" in each for path in paths) for each in group.folders)


# Version 2, as plain files: this kernel may give its controllers to version 1


@pytest.fixture
def service(tmp_path: Path) -> Path:
    """The group of a service of systemd's that keeps its processes in one below."""
    service = tmp_path / "cgroup" / "system.slice" / "server.service"
    (service / "main").mkdir(parents=True)
    for folder in (service / "main", service, service.parent):
        (folder / "cgroup.controllers").write_text("cpu memory pids")
    # The kernel does not let a group with processes share out controllers: nothing can be written.
    (service / "main" / "cgroup.subtree_control").mkdir()
    (service / "cgroup.subtree_control").write_text("memory pids")
    (service.parent / "cgroup.subtree_control").write_text("memory pids")
    (tmp_path / "mountinfo").write_text(f"30 1 0:26 / {tmp_path}/cgroup rw - cgroup2 cgroup2 rw\n")
    return service


def made_for(service: Path, own: str, num_cores: int | None = None) -> ControlGroup:
    proc = service.parents[2] / "proc"
    proc.mkdir(exist_ok=True)
    (proc / "cgroup").write_text(f"0::/system.slice/{own}\n")
    (proc / "mountinfo").write_text((service.parents[2] / "mountinfo").read_text())
    return make("rule", 1000, 7, num_cores, proc=str(proc))


def test_a_group_that_may_share_out_its_controllers_gets_one_below(service: Path):
    made = made_for(service, "server.service")
    folder = service / "rule"
    assert made == ControlGroup(str(folder), str(folder))
    assert made.folders == [str(folder)]
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "memory.max": "1000",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": "7",
    }
    (folder / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    (folder / "pids.events").write_text("max 5\n")
    assert (made.num_killed, made.num_refused) == (2, 5)


def test_cores_are_time_in_each_tenth_of_a_second(service: Path):
    (service / "cgroup.subtree_control").write_text("cpu memory pids")
    made = made_for(service, "server.service", num_cores=3)
    assert made.cpu == made.memory == str(service / "rule")
    assert (service / "rule" / "cpu.max").read_text() == "300000 100000"


def test_nothing_is_made_above_the_own_group_unless_that_was_handed_over(service: Path):
    assert made_for(service, "server.service/main") == ControlGroup()
    try:
        os.setxattr(service, "user.delegate", b"1")
    except OSError:
        pytest.skip("this file system keeps no attributes")
    assert made_for(service, "server.service/main").folders == [str(service / "rule")]
    assert not (service.parent / "rule").exists()


def test_a_machine_without_any_gives_none(tmp_path: Path):
    assert make("rule", 1000, 7, 2, proc=str(tmp_path)) == ControlGroup()


SLEEPS = "import subprocess\nsubprocess.run(['/bin/sh', '-c', 'sleep 1000; :', *{words!r}])"
SUPERVISOR = ("-m", "trackside.supervisor")


def test_a_job_in_a_group_that_is_removed_moves_to_ours(group: ControlGroup):
    with inside(group, SLEEPS.format(words=SUPERVISOR)) as starter:
        folder = Path(group.folders[0])
        until(lambda: len((folder / "cgroup.procs").read_text().split()) == 3)
        shell, sleep = process_table.descendants(starter.pid)
        group.remove(spares_jobs=True)
        assert starter.wait(60) == -9
        assert not any(map(os.path.exists, group.folders))
        ours = groups_of(os.getpid())
        for pid in (shell, sleep):
            assert groups_of(pid) == ours
            os.kill(pid, 9)


@pytest.mark.parametrize(
    "words", [pytest.param(SUPERVISOR, id="a-job"), pytest.param((), id="another-program")]
)
def test_a_process_leaves_the_group_of_the_job_that_it_was_started_from(
    group: ControlGroup, words: tuple[str, ...]
):
    """If what is around the group keeps a job: then it is the init of that job's sandbox."""
    prefix = Path(group.folders[0]).name
    code = f"from trackside.system.control_group import *\n{group!r}.join()\n"
    code += f"before = groups_of(os.getpid())\nleave('no-{prefix}')\n"
    code += f"assert groups_of(os.getpid()) == before\nleave({prefix!r})\n"
    code += "print(groups_of(os.getpid()) == groups_of(os.getppid()))"
    command = ["/bin/sh", "-c", '"$PYTHON" -c "$CODE"; :', *words]
    environment = {**os.environ, "PYTHON": sys.executable, "CODE": code}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"{bool(words)}\n", done.stderr
