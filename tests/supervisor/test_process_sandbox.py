"""Tests of the process sandbox beyond the contract: what is seen inside, and who may die."""

import json
import os
import pickle
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.wait import until
from trackside.errors import SandboxError
from trackside.supervisor.process_sandbox import ProcessSandbox, available
from trackside.supervisor.sandbox import Exited, Lost, Running, SandboxPlan
from trackside.system import process_table, processes

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
needs_namespaces = pytest.mark.skipif(
    available().kind == "none", reason=f"needs namespaces. {available().reason}"
)
NAMESPACED = [
    pytest.param("root", marks=needs_root),
    pytest.param("user", marks=needs_namespaces),
]
KINDS = [*NAMESPACED, "none"]
MakePlan = Callable[..., SandboxPlan]


@pytest.fixture
def make_plan(tmp_path: Path) -> Iterator[MakePlan]:
    """Plans for small Python programs; what they started is killed after the test."""
    plans: list[SandboxPlan] = []

    def make(program: str = "", **fields: Any) -> SandboxPlan:
        root = tmp_path / f"algo-{len(plans) + 1}"
        (root / "ml").mkdir(parents=True)
        values: dict[str, Any] = {
            "folder": root / "sandbox",
            "ml": root / "ml",
            "command": [sys.executable, "-S", "-u", "-c", textwrap.dedent(program)],
            "environment": {"PATH": os.defpath},
            "log": root / "log",
            "nonce": f"test-{os.getpid()}-{time.monotonic_ns()}",
        }
        plans.append(SandboxPlan(**{**values, **fields}))
        return plans[-1]

    yield make
    for plan in plans:
        (plan.ml / "over").touch()  # ends revived supervisors, also one that is yet to come
        ProcessSandbox().signal(plan, signal.SIGKILL)
    until(lambda: all(ProcessSandbox().poll(plan) != Running() for plan in plans))


def run(kind: str, plan: SandboxPlan) -> str:
    """The output of a program that ends well."""
    ProcessSandbox(kind).start(plan)
    assert wait(plan) == Exited(0), plan.log.read_text()
    return plan.log.read_text()


def wait(plan: SandboxPlan) -> object:
    return until(lambda: None if (seen := ProcessSandbox().poll(plan)) == Running() else seen)


def process_of(plan: SandboxPlan, which: str) -> int:
    return json.loads((plan.folder / "process.json").read_text())[which]["pid"]


def mark_of(plan: SandboxPlan) -> str:
    return json.loads((plan.folder / "intent.json").read_text())["mark"]


# What the script sees


@pytest.mark.parametrize("kind", NAMESPACED)
def test_two_sandboxes_do_not_see_each_others_folder(kind: str, make_plan: MakePlan) -> None:
    program = """
        import os, time
        open("/opt/ml/mine", "w").write(os.uname().nodename)
        while not os.path.exists("/opt/ml/go"): time.sleep(0.01)
        print(open("/opt/ml/mine").read(), sorted(os.listdir("/opt/ml")))
    """
    plans = [make_plan(program, host=host) for host in ("algo-1", "algo-2")]
    for plan in plans:
        ProcessSandbox(kind).start(plan)
    for plan in plans:
        until((plan.ml / "mine").exists)
    for plan in plans:
        (plan.ml / "go").touch()
        assert wait(plan) == Exited(0)
        assert plan.log.read_text() == f"{plan.host} ['go', 'mine']\n"


@pytest.mark.parametrize("kind", NAMESPACED)
def test_the_machine_is_left_as_it_was(kind: str, make_plan: MakePlan, tmp_path: Path) -> None:
    def machine() -> list[object]:
        hosts, folders = Path("/etc/hosts"), [sorted(os.listdir(path)) for path in ("/", "/opt")]
        return [own_mounts(), hosts.read_text(), os.uname().nodename, *folders]

    def own_mounts() -> list[str]:
        """Other tests mount small disks meanwhile."""
        found = Path("/proc/self/mountinfo").read_text().splitlines()
        ours = ("of-a-test", "/opt/ml", str(tmp_path))
        return [line for line in found if any(each in line for each in ours)]

    before = machine()
    mounts = {"/checkpoints-of-a-test/a/b": tmp_path, "/opt/of-a-test": tmp_path}
    program = """
        import os
        open("/checkpoints-of-a-test/a/b/seen", "w").write("x")
        print(sorted(os.listdir("/opt")), os.listdir("/etc") != [])
    """
    plan = make_plan(program, mounts=mounts, addresses={"algo-1": "127.0.0.1"})
    said = run(kind, plan)
    assert machine() == before
    assert said == f"{sorted({*os.listdir('/opt'), 'ml', 'of-a-test'})} True\n"
    assert (tmp_path / "seen").read_text() == "x"


@pytest.mark.parametrize("kind", NAMESPACED)
def test_other_content_of_opt_stays_in_sight(kind: str, make_plan: MakePlan) -> None:
    program = """
        import json, os
        names = [name for name in os.listdir("/opt") if os.access(f"/opt/{name}", os.R_OK)]
        print(json.dumps({name: sorted(os.listdir(f"/opt/{name}")) for name in names}))
    """
    seen = json.loads(run(kind, make_plan(program)))
    names = [name for name in os.listdir("/opt") if os.access(f"/opt/{name}", os.R_OK)]
    real = {name: sorted(os.listdir(f"/opt/{name}")) for name in names if name != "ml"}
    assert seen.pop("ml") == []
    assert seen == real


@pytest.mark.parametrize("kind", NAMESPACED)
def test_hosts_have_names_and_addresses(kind: str, make_plan: MakePlan) -> None:
    program = """
        import os, socket
        names = "algo-1", "algo-2", "localhost", socket.gethostname()
        print(os.uname().nodename, *map(socket.gethostbyname, names))
    """
    plan = make_plan(
        program, host="algo-2", addresses={"algo-1": "127.0.0.11", "algo-2": "127.0.0.12"}
    )
    assert run(kind, plan) == "algo-2 127.0.0.11 127.0.0.12 127.0.0.1 127.0.0.12\n"


@pytest.mark.parametrize("kind", NAMESPACED)
def test_a_read_only_mount_refuses_writes_and_stays_writable_outside(
    kind: str, make_plan: MakePlan, tmp_path: Path
) -> None:
    channel = tmp_path / "a channel"
    channel.mkdir()
    target = "/opt/ml/input/data/training"
    program = f"""
        import errno
        try: open("{target}/new", "w")
        except OSError as error: print(errno.errorcode[error.errno])
    """
    plan = make_plan(program, mounts={target: channel}, read_only=frozenset([target]))
    assert run(kind, plan) == "EROFS\n"
    (channel / "new").touch()


@pytest.mark.parametrize("kind", NAMESPACED)
def test_a_mount_may_cover_a_folder_that_exists(
    kind: str, make_plan: MakePlan, tmp_path: Path
) -> None:
    existing, behind = tmp_path / "existing", tmp_path / "behind"
    existing.mkdir()
    behind.mkdir()
    plan = make_plan(f"open({str(existing / 'x')!r}, 'w')", mounts={str(existing): behind})
    run(kind, plan)
    assert os.listdir(behind) == ["x"]
    assert os.listdir(existing) == []


@pytest.mark.parametrize("kind", NAMESPACED)
def test_no_process_gains_a_capability(kind: str, make_plan: MakePlan) -> None:
    def capabilities(status: str, which: str) -> int:
        line = next(line for line in status.splitlines() if line.startswith(which))
        return int(line.split()[1], 16)

    mine = capabilities(Path("/proc/self/status").read_text(), "CapPrm")
    status = run(kind, make_plan("print(open('/proc/self/status').read())"))
    for which in ("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb"):
        assert capabilities(status, which) & ~mine == 0, which


@pytest.mark.parametrize("kind", KINDS)
def test_the_script_is_the_same_user_and_starts_in_its_ml_folder(
    kind: str, make_plan: MakePlan
) -> None:
    plan = make_plan("import os; open('here', 'w'); print(os.getuid(), os.getgid())")
    assert run(kind, plan) == f"{os.getuid()} {os.getgid()}\n"
    assert (plan.ml / "here").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_no_descriptor_leaks_into_the_script(kind: str, make_plan: MakePlan) -> None:
    plan = make_plan("import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])")
    assert run(kind, plan) == "[0, 1, 2]\n"


def test_without_namespaces_the_base_folder_is_named(make_plan: MakePlan) -> None:
    plan = make_plan("import os; print(os.environ['SAGEMAKER_BASE_DIR'])")
    assert run("none", plan) == f"{plan.ml}\n"


def test_without_namespaces_a_path_outside_opt_ml_is_refused(
    make_plan: MakePlan, tmp_path: Path
) -> None:
    plan = make_plan("", mounts={"/checkpoints": tmp_path})
    with pytest.raises(SandboxError, match="'/checkpoints'"):
        ProcessSandbox("none").start(plan)
    assert ProcessSandbox().poll(plan) is None


# Which isolation


def test_available_says_what_a_sandbox_gets(make_plan: MakePlan) -> None:
    sandbox = ProcessSandbox()
    plan = make_plan("")
    assert sandbox.isolation_of(plan) is None
    sandbox.start(plan)
    assert sandbox.isolation == available() == sandbox.isolation_of(plan)
    assert available().reason.endswith(".")


def test_a_machine_without_namespaces_is_found_out_and_served(make_plan: MakePlan) -> None:
    """In a user namespace of its own, root may set the number of mount namespaces to none."""
    limit = Path("/proc/sys/user/max_mnt_namespaces")
    if os.geteuid() != 0 or not limit.exists():
        pytest.skip("needs root and a limit of namespaces")
    plan = make_plan("import os; print(os.environ['SAGEMAKER_BASE_DIR'])")
    code = f"""
        from pathlib import Path
        Path({str(limit)!r}).write_text("0")
        from trackside.supervisor.process_sandbox import ProcessSandbox
        from trackside.supervisor.sandbox import SandboxPlan
        plan = SandboxPlan(folder=Path({str(plan.folder)!r}), ml=Path({str(plan.ml)!r}),
            command={list(plan.command)!r}, log=Path({str(plan.log)!r}), nonce={plan.nonce!r})
        sandbox = ProcessSandbox()
        print(sandbox.isolation.kind)
        sandbox.start(plan)
        print(sandbox.isolation_of(plan).reason)
    """
    command = ["unshare", "--user", "--map-root-user", sys.executable, "-c", textwrap.dedent(code)]
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.defpath}
    said = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    assert wait(plan) == Exited(0)
    assert plan.log.read_text() == f"{plan.ml}\n"
    assert said.stdout.startswith("none\nNo namespaces")
    assert "root: unshare: No space left on device" in said.stdout


def test_an_unknown_isolation_names_the_known_ones() -> None:
    with pytest.raises(SandboxError, match=r"'chroot'.*'auto', 'root', 'user', 'none'"):
        ProcessSandbox("chroot")


@needs_root
@needs_namespaces
@pytest.mark.timeout(900)
def test_an_unprivileged_user_passes_these_tests_and_the_contract(tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    interpreter = python_for(nobody.pw_uid)
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        tests = Path(__file__).parents[1]
        options = ["-v", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
        done = subprocess.run(
            [interpreter, "-m", "pytest", *options, f"--basetemp={folder}/t"]
            + [__file__, str(tests / "contract" / "test_sandboxes.py")],
            cwd=tests.parent,
            env={"PYTHONPATH": os.pathsep.join(sys.path), "HOME": folder, "PATH": os.defpath},
            user=nobody.pw_uid,
            group=nobody.pw_gid,
            extra_groups=[],
            stdout=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 0, done.stdout
    results = [line for line in done.stdout.splitlines() if "user]" in line]
    assert len(results) > 20
    assert [line for line in results if "PASSED" not in line] == []


def python_for(uid: int) -> str:
    """An interpreter that this user may execute: a virtual environment may lie in root's home."""
    for found in (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin")):
        if found is None:
            continue
        check = "import sys; sys.exit(sys.version_info < (3, 11))"
        try:
            if subprocess.run([found, "-c", check], user=uid, cwd="/", check=False).returncode == 0:
                return found
        except PermissionError:
            continue
    pytest.skip("no Python 3.11 that an unprivileged user may execute")


# Starting exactly once


def test_an_intent_without_a_process_can_be_started(make_plan: MakePlan) -> None:
    """The starter was killed between the intent and init."""
    plan = make_plan("print('ran')")
    sandbox = ProcessSandbox()
    broken = SandboxPlan(
        folder=plan.folder,
        ml=plan.ml,
        mounts={str(plan.log): plan.ml},  # a folder cannot be mounted on a file
        command=plan.command,
        log=plan.log,
        nonce=plan.nonce,
    )
    plan.log.touch()
    with pytest.raises(SandboxError):
        sandbox.start(broken)
    assert (plan.folder / "intent.json").exists()
    assert sandbox.poll(plan) is None
    sandbox.start(plan)
    assert wait(plan) == Exited(0)
    assert plan.log.read_text() == "ran\n"


@pytest.mark.parametrize("pause_ms", range(0, 30, 3))
def test_a_starter_killed_at_any_moment_leaves_one_script_or_none(
    make_plan: MakePlan, pause_ms: int
) -> None:
    plan = make_plan("import time; print('ran'); time.sleep(1000)")
    code = f"""
        import sys
        from pathlib import Path
        from trackside.supervisor.process_sandbox import ProcessSandbox
        from trackside.supervisor.sandbox import SandboxPlan
        plan = SandboxPlan(folder=Path({str(plan.folder)!r}), ml=Path({str(plan.ml)!r}),
            command={list(plan.command)!r}, log=Path({str(plan.log)!r}), nonce={plan.nonce!r})
        print("ready", flush=True)
        sys.stdin.read(1)
        ProcessSandbox().start(plan)
    """
    starter = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert starter.stdin is not None
    assert starter.stdout is not None
    with starter:
        starter.stdout.readline()
        starter.stdin.write(b"x")
        starter.stdin.flush()
        time.sleep(pause_ms / 1000)
        starter.kill()
    ProcessSandbox().start(plan)
    assert ProcessSandbox().poll(plan) == Running()
    until(lambda: plan.log.read_text().endswith("\n"))
    assert plan.log.read_text() == "ran\n"
    assert len(processes.carriers(mark_of(plan))) == 1


def test_many_starters_at_once_start_one_script(make_plan: MakePlan) -> None:
    plan = make_plan("import time; print('ran'); time.sleep(1000)")
    threads = [threading.Thread(target=ProcessSandbox().start, args=[plan]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: plan.log.read_text().endswith("\n"))
    assert plan.log.read_text() == "ran\n"
    assert len(processes.carriers(mark_of(plan))) == 1


def test_what_an_earlier_boot_intended_is_lost_and_not_started(make_plan: MakePlan) -> None:
    plan = make_plan("print('ran')")
    plan.folder.mkdir()
    intent = {"nonce": plan.nonce, "mark": plan.nonce, "boot_id": "earlier", "declared_at": 0}
    (plan.folder / "intent.json").write_text(json.dumps(intent))
    ProcessSandbox().start(plan)
    assert isinstance(ProcessSandbox().poll(plan), Lost)
    assert not plan.log.exists()


def test_a_folder_belongs_to_one_nonce(make_plan: MakePlan, tmp_path: Path) -> None:
    plan = make_plan("")
    plan.folder.mkdir()
    intent = {"nonce": "another-one", "mark": "x", "boot_id": process_table.boot_id()}
    (plan.folder / "intent.json").write_text(json.dumps(intent))
    with pytest.raises(SandboxError, match="'another-one'"):
        ProcessSandbox().start(plan)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"nonce": "short"}, "'short'"),
        ({"nonce": "with blank and ="}, "'with blank and ='"),
        ({"command": []}, "no command"),
        ({"mounts": {"relative/path": Path("/tmp")}}, "'relative/path'"),
        ({"mounts": {"/opt/ml/input/data/x": Path("/no/such")}}, "'/no/such'"),
    ],
)
def test_a_wrong_plan_is_refused_by_name(
    make_plan: MakePlan, fields: dict[str, Any], named: str
) -> None:
    plan = make_plan("", **fields)
    with pytest.raises(SandboxError, match=named):
        ProcessSandbox().start(plan)
    assert ProcessSandbox().poll(plan) is None


# Who may die

KEEP_RUNNING = """
    import os, time
    while not os.path.exists("go"): time.sleep(0.01)
    raise SystemExit(42)
"""
SUPERVISOR = """
    import sys, time
    from pathlib import Path
    from trackside.supervisor.process_sandbox import ProcessSandbox
    from trackside.supervisor.sandbox import SandboxPlan
    plan = SandboxPlan(folder=Path({folder!r}), ml=Path({ml!r}), command={command!r},
        log=Path({log!r}), nonce={nonce!r}, revive={revive!r})
    ProcessSandbox({kind!r}).start(plan)
    time.sleep(1000)
"""
REVIVED = """
    import os, sys, time
    seen = os.getpid(), os.getsid(0), os.path.exists("/opt/ml"), os.environ["KEPT"]
    with open(sys.argv[1] + "/revived", "a") as file:
        print(*seen, file=file)
    while not os.path.exists(sys.argv[1] + "/over"): time.sleep(0.05)
"""


def start_supervisor(kind: str, plan: SandboxPlan) -> subprocess.Popen[bytes]:
    """In a process of its own, so that it can be killed."""
    revive = [sys.executable, "-S", "-c", textwrap.dedent(REVIVED), str(plan.ml)]
    code = SUPERVISOR.format(
        folder=str(plan.folder),
        ml=str(plan.ml),
        log=str(plan.log),
        command=list(plan.command),
        nonce=plan.nonce,
        revive=revive,
        kind=kind,
    )
    supervisor = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={"PYTHONPATH": os.pathsep.join(sys.path), "KEPT": "yes"},
    )
    until((plan.folder / "process.json").exists)
    return supervisor


@pytest.mark.parametrize("kind", KINDS)
def test_the_script_goes_on_without_its_supervisor_which_is_revived(
    kind: str, make_plan: MakePlan
) -> None:
    plan = make_plan(KEEP_RUNNING)
    with start_supervisor(kind, plan) as supervisor:
        supervisor.kill()
    until((plan.ml / "revived").exists)
    pid, session, sees_opt_ml, kept = until(lambda: (plan.ml / "revived").read_text()).split()
    assert ProcessSandbox().poll(plan) == Running()
    assert session == pid, "in a session of its own"
    assert sees_opt_ml == str(os.path.exists("/opt/ml")), "outside the sandbox"
    assert kept == "yes"
    (plan.ml / "go").touch()
    assert wait(plan) == Exited(42)
    init = process_of(plan, "init")
    until(lambda: process_table.started(init) is None)
    assert process_table.started(int(pid)) is not None, "the sweep spares it"
    assert len((plan.ml / "revived").read_text().splitlines()) == 1


def test_killing_the_script_spares_a_revived_supervisor(make_plan: MakePlan) -> None:
    plan = make_plan(KEEP_RUNNING)
    with start_supervisor("none", plan) as supervisor:
        supervisor.kill()
    until((plan.ml / "revived").exists)
    pid = int(until(lambda: (plan.ml / "revived").read_text()).split()[0])
    ProcessSandbox().signal(plan, signal.SIGKILL)
    assert wait(plan) == Exited(-signal.SIGKILL)
    assert process_table.started(pid) is not None


def test_a_supervisor_that_takes_over_is_watched_in_its_turn(make_plan: MakePlan) -> None:
    plan = make_plan(KEEP_RUNNING)
    with start_supervisor("none", plan) as first, start_supervisor("none", plan) as second:
        until(lambda: (plan.folder / "supervisor").read_text().split()[0] == str(second.pid))
        first.kill()
        first.wait()
        time.sleep(0.5)  # init sees its end at once
        assert not (plan.ml / "revived").exists()
        second.kill()
    until((plan.ml / "revived").exists)


def test_a_supervisor_that_dies_with_the_script_is_revived_to_finish_the_job(
    make_plan: MakePlan,
) -> None:
    plan = make_plan(KEEP_RUNNING)
    with start_supervisor("none", plan) as supervisor:
        supervisor.kill()
    until((plan.ml / "revived").exists)
    revived = until(lambda: (plan.ml / "revived").read_text()).split()[0]
    os.kill(int(revived), signal.SIGKILL)
    (plan.ml / "go").touch()  # too soon for the pause between two revivals
    assert wait(plan) == Exited(42)
    until(lambda: len((plan.ml / "revived").read_text().splitlines()) == 2)


WANDER = """
    import os, subprocess, time
    quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.Popen(["sleep", "1000"], start_new_session=True, {environment} **quiet)
    open("ready", "w")
    time.sleep(1000)
"""


@pytest.mark.parametrize("kind", KINDS)
def test_without_its_init_the_script_is_lost_and_nothing_lives_on(
    kind: str, make_plan: MakePlan
) -> None:
    # Only the mount tells whose process it is that has cleared its environment.
    plan = make_plan(WANDER.format(environment="" if kind == "none" else "env={},"))
    ProcessSandbox(kind).start(plan)
    until((plan.ml / "ready").exists)
    init = process_of(plan, "init")
    below = process_table.descendants(init)
    assert len(below) == 2
    os.kill(init, signal.SIGKILL)
    lost = wait(plan)
    assert isinstance(lost, Lost)
    assert str(init) in lost.reason
    until(lambda: not any(process_table.started(pid) == below[pid] for pid in below))
    ProcessSandbox(kind).start(plan)
    assert isinstance(ProcessSandbox().poll(plan), Lost), "it is not started again"


def test_sigkill_needs_no_help_from_init(make_plan: MakePlan) -> None:
    """Without namespaces, what has cleared its environment is known by its ancestors alone."""
    plan = make_plan(WANDER.format(environment="env={},"))
    ProcessSandbox("none").start(plan)
    until((plan.ml / "ready").exists)
    init = process_of(plan, "init")
    below = process_table.descendants(init)
    assert len(below) == 2
    os.kill(init, signal.SIGSTOP)
    try:
        ProcessSandbox().signal(plan, signal.SIGKILL)
        until(lambda: not any(process_table.started(pid) == below[pid] for pid in below))
        assert ProcessSandbox().poll(plan) == Running(), "its end is not recorded yet"
    finally:
        os.kill(init, signal.SIGCONT)
    assert wait(plan) == Exited(-signal.SIGKILL)


def test_the_script_dies_with_its_init_before_any_poll(make_plan: MakePlan) -> None:
    plan = make_plan(KEEP_RUNNING)
    ProcessSandbox().start(plan)
    command = process_of(plan, "command")
    os.kill(process_of(plan, "init"), signal.SIGKILL)
    until(lambda: process_table.started(command) is None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_init_itself_cannot_be_terminated(make_plan: MakePlan, number: int) -> None:
    plan = make_plan(KEEP_RUNNING)
    ProcessSandbox().start(plan)
    os.kill(process_of(plan, "init"), number)
    (plan.ml / "go").touch()
    assert wait(plan) == Exited(42)


def test_a_recycled_pid_is_not_signalled(make_plan: MakePlan) -> None:
    """As after a reboot: the record's pids belong to somebody else by now."""
    plan = make_plan("")
    stranger = subprocess.Popen(["sleep", "1000"], process_group=0)
    try:
        identity = processes.identify(stranger.pid)
        assert identity is not None
        plan.folder.mkdir()
        old = [(identity.started - 1, identity.boot_id), (identity.started, "an earlier boot")]
        for since, boot in old:
            process = {"pid": stranger.pid, "started": since}
            record = {"mark": plan.nonce, "boot_id": boot, "init": process, "command": process}
            (plan.folder / "supervisor").write_text(f"{stranger.pid} {since}")
            (plan.folder / "intent.json").write_text(json.dumps({**record, "nonce": plan.nonce}))
            (plan.folder / "process.json").write_text(json.dumps(record))
            for number in (signal.SIGTERM, signal.SIGKILL):
                ProcessSandbox().signal(plan, number)
            assert isinstance(ProcessSandbox().poll(plan), Lost)
        time.sleep(0.1)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may signal everybody")
def test_a_process_of_another_user_is_no_error() -> None:
    other = processes.identify(1)
    assert other is not None
    assert not processes.send_signal(other, signal.SIGTERM)
    assert not processes.send_signal(other, signal.SIGTERM, group=True)


def test_jobs_of_one_nonce_in_two_folders_do_not_kill_each_other(make_plan: MakePlan) -> None:
    plans = [make_plan(KEEP_RUNNING, nonce="the-same-job.algo-1.1") for _ in range(2)]
    for plan in plans:
        ProcessSandbox().start(plan)
    ProcessSandbox().signal(plans[0], signal.SIGKILL)
    assert wait(plans[0]) == Exited(-signal.SIGKILL)
    (plans[1].ml / "go").touch()
    assert wait(plans[1]) == Exited(42)


def test_the_end_is_recorded_with_its_times(make_plan: MakePlan) -> None:
    before, began = time.time(), time.monotonic()
    plan = make_plan("import time; time.sleep(0.1)")
    run("none", plan)
    end = json.loads((plan.folder / "exit.json").read_text())
    assert before <= end["started_at"] <= end["ended_at"] <= time.time()
    assert 0 < end["seconds"] <= time.monotonic() - began


@needs_root
def test_a_script_killed_for_want_of_memory_reports_it(make_plan: MakePlan) -> None:
    group = Path("/sys/fs/cgroup/memory") / f"trackside-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(64 << 20))
    except OSError as error:
        pytest.skip(f"needs a memory cgroup to write to: {error}")
    plan = make_plan("import ctypes; x = b'x' * (200 << 20)")
    try:
        code = f"open({str(group / 'cgroup.procs')!r}, 'w').write('0')\n"
        code += textwrap.dedent(SUPERVISOR).format(
            folder=str(plan.folder), ml=str(plan.ml), log=str(plan.log), nonce=plan.nonce,
            command=list(plan.command), revive=[], kind="none",
        )  # fmt: skip
        code = code.replace("time.sleep(1000)", "")
        environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)
        assert wait(plan) == Exited(-signal.SIGKILL, out_of_memory=True)
    finally:
        init = process_of(plan, "init")
        until(lambda: process_table.started(init) is None)
        until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def test_a_sandbox_is_recognized_in_ps(make_plan: MakePlan) -> None:
    plan = make_plan(KEEP_RUNNING)
    ProcessSandbox().start(plan)
    said = process_table.read(f"/proc/{process_of(plan, 'init')}/cmdline").split(b"\0")
    assert mark_of(plan).encode() in said


def test_init_starts_without_what_is_slow() -> None:
    """Every job waits for these imports; json alone takes longer than all of them."""
    code = """
        import sys
        sys.argv[1:] = []
        for name in ("trackside", "trackside.supervisor"):
            sys.modules[name] = type(sys)(name)
            sys.modules[name].__path__ = [f"{root}/{name.replace('.', '/')}"]
        import trackside.supervisor.sandbox_init
        print(*sys.modules)
    """
    root = str(Path(process_table.__file__).parents[2])
    program = f"root = {root!r}\n" + textwrap.dedent(code)
    said = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], stdout=subprocess.PIPE, text=True, check=True
    )
    slow = {"json", "re", "enum", "typing", "dataclasses", "signal", "subprocess", "collections"}
    assert slow & set(said.stdout.split()) == set()


# What a script has submitted

KEEPS_A_JOB = """
    import os, subprocess, sys, time
    def start(*words, **how):
        # The words make it look like a supervisor: a shell has them as $0, $1.
        loop = "while [ ! -e over ]; do sleep 0.05; done"
        how = {"start_new_session": True, "cwd": FOLDER, **how}
        return subprocess.Popen(["/bin/sh", "-c", loop, *words], **how).pid
    print(*STARTS, flush=True)
"""
KEEPER = "start('-m', 'trackside.supervisor')"
PLAIN = "start('sh', 'trackside.supervisor')"
HIDDEN = "start('-m', 'trackside.supervisor', user=65533)"


def starting(plan: SandboxPlan, starts: list[str], then: str = "") -> SandboxPlan:
    """A program that starts these, and says their pids."""
    program = textwrap.dedent(KEEPS_A_JOB).replace("STARTS", f"[{', '.join(starts)}]")
    program = program.replace("FOLDER", repr(str(plan.ml))) + then
    return replace(plan, command=[sys.executable, "-S", "-u", "-c", program])


def whole_line(text: str) -> str:
    return text.strip() if text.endswith("\n") else ""


def are_alive(pids: str) -> list[bool]:
    return [process_table.started(int(pid)) is not None for pid in pids.split()]


@pytest.mark.skipif(not process_table.PRESENT, reason="needs /proc")
@pytest.mark.parametrize("kind", KINDS)
def test_the_end_spares_jobs_of_the_script_and_nothing_else(kind: str, make_plan: MakePlan) -> None:
    said = run(kind, starting(make_plan(), [KEEPER, PLAIN]))
    assert are_alive(said) == [True, False]


@pytest.mark.skipif(not process_table.PRESENT, reason="needs /proc")
@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_spares_jobs_of_the_script_and_nothing_else(kind: str, make_plan: MakePlan) -> None:
    plan = starting(make_plan(), [KEEPER, PLAIN], "time.sleep(600)")
    ProcessSandbox(kind).start(plan)
    said = until(lambda: whole_line(plan.log.read_text()))
    ProcessSandbox().signal(plan, signal.SIGKILL)
    assert wait(plan) == Exited(-signal.SIGKILL)
    assert are_alive(said) == [True, False]


@pytest.mark.skipif(not process_table.PRESENT, reason="needs /proc")
@pytest.mark.parametrize("kind", NAMESPACED)
def test_the_end_of_a_killed_init_spares_jobs_of_the_script(kind: str, make_plan: MakePlan) -> None:
    plan = starting(make_plan(), [KEEPER, PLAIN], "time.sleep(600)")
    ProcessSandbox(kind).start(plan)
    said = until(lambda: whole_line(plan.log.read_text()))
    os.kill(process_of(plan, "init"), signal.SIGKILL)
    assert isinstance(wait(plan), Lost)
    assert are_alive(said) == [True, False]


@needs_root
@pytest.mark.parametrize("kind", ["root", "none"])
def test_another_user_cannot_hide_as_a_job(kind: str, make_plan: MakePlan) -> None:
    said = run(kind, starting(make_plan(), [KEEPER, HIDDEN]))
    assert are_alive(said) == [True, False]


@pytest.mark.parametrize("kind", NAMESPACED)
def test_a_sandbox_in_a_sandbox_keeps_its_folders_when_the_other_ones_are_gone(
    kind: str, make_plan: MakePlan, tmp_path: Path
) -> None:
    """Of the same targets, one of them below /opt/ml."""
    targets = "/opt/ml/checkpoints", "/opt/ml/model/a", "/opt/of-a-test"
    mounts = [
        {target: tmp_path / str(number) / target[1:] for target in targets} for number in "12"
    ]
    for folder in [*mounts[0].values(), *mounts[1].values()]:
        folder.mkdir(parents=True)
    program = """
        import os, time
        while not os.path.exists("/opt/ml/go"): time.sleep(0.01)
        for place in ("/opt/ml", "/opt/ml/model", "/opt/ml/checkpoints", "/opt/of-a-test"):
            open(place + "/result", "w").close()
    """
    inner = make_plan(program, mounts=mounts[1])
    (inner.ml / "model").mkdir()
    outer = make_plan(
        f"""
        import pickle, sys
        sys.path[:0] = {[path for path in sys.path if path]!r}
        from trackside.supervisor.process_sandbox import ProcessSandbox
        ProcessSandbox({kind!r}).start(pickle.loads({pickle.dumps(inner)!r}))
        """,
        mounts=mounts[0],
    )
    (outer.ml / "model").mkdir()
    run(kind, outer)
    for folder in (outer.ml, tmp_path / "1", outer.folder / "stage"):
        shutil.rmtree(folder)
    outer.ml.mkdir()  # another one; for `make_plan`
    (inner.ml / "go").touch()
    assert wait(inner) == Exited(0), inner.log.read_text()
    for folder in (inner.ml, inner.ml / "model", mounts[1][targets[0]], mounts[1][targets[2]]):
        assert (folder / "result").exists(), folder
