"""Tests of the container sandbox beyond the contract: what it is given, and who may die."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import trackside
from tests.docker_engine import (
    ADDRESS,
    FOLDER,
    PYTHON,
    SHELL,
    docker,
    docker_engine,
    engine_problem,
    own_engine,
)
from tests.other_users import FIRST, needs_other_users, python_for_all
from tests.wait import until
from trackside.containers.engine_client import Engine
from trackside.errors import SandboxError
from trackside.supervisor.container_request import ContainerPlan
from trackside.supervisor.container_sandbox import ContainerSandbox
from trackside.supervisor.sandbox import Exited, Lost, Running, SandboxPlan

MakePlan = Callable[..., SandboxPlan]
WAIT_FOR_GO = "while [ ! -e /opt/ml/go ]; do sleep 0.01; done\n"


@pytest.fixture
def engine() -> str:
    return docker_engine()


@pytest.fixture
def make_plan(tmp_path: Path) -> Iterator[MakePlan]:
    """Plans for shell scripts; their containers are removed after the test."""
    plans: list[SandboxPlan] = []

    def make(script: str = "", **fields: Any) -> SandboxPlan:
        root = tmp_path / f"algo-{len(plans) + 1}"
        (root / "ml").mkdir(parents=True)
        values: dict[str, Any] = {
            "folder": root / "sandbox",
            "ml": root / "ml",
            "command": ["/bin/sh", "-c", textwrap.dedent(script)],
            "log": root / "log",
            "nonce": f"test-{os.getpid()}-{time.monotonic_ns()}",
        }
        plans.append(SandboxPlan(**{**values, **fields}))
        return plans[-1]

    yield make
    for plan in plans:
        (plan.ml / "go").touch()
        (plan.ml / "over").touch()  # ends revived supervisors
    for container in ours(plans) if not engine_problem() else []:
        Engine(ADDRESS).remove(container)  # its init may be doing the same


def ours(plans: list[SandboxPlan], address: str = ADDRESS) -> list[str]:
    found = docker("ps", "-a", "--format", '{{.ID}} {{.Label "trackside.nonce"}}', address=address)
    lines = [line.split(" ", 1) for line in found.splitlines()]
    nonces = [plan.nonce for plan in plans]
    return [number for number, label in lines if any(label.startswith(each) for each in nonces)]


def made(image: str = SHELL, **fields: Any) -> ContainerSandbox:
    values: dict[str, Any] = {"image": image, "engine": ADDRESS, "network": "none"}
    return ContainerSandbox(ContainerPlan(**{**values, **fields}))


def wait(sandbox: ContainerSandbox, plan: SandboxPlan) -> object:
    return until(lambda: None if (seen := sandbox.poll(plan)) == Running() else seen)


def run(sandbox: ContainerSandbox, plan: SandboxPlan) -> object:
    sandbox.start(plan)
    return wait(sandbox, plan)


def kill_init(plan: SandboxPlan) -> None:
    """SIGKILL, and wait until it is gone."""
    init = json.loads((plan.folder / "process.json").read_text())["init"]
    os.kill(init["pid"], signal.SIGKILL)
    until(lambda: not is_alive(init))


def is_alive(process: dict[str, int]) -> bool:
    return Path(f"/proc/{process['pid']}").exists()


# What runs


@pytest.fixture(scope="module")
def with_entrypoint() -> Iterator[str]:
    docker_engine()
    name = f"trackside-test/entry-{os.getpid()}"
    entrypoint = 'ENTRYPOINT ["/bin/sh", "-c", "echo own $0 $1"]'
    docker("import", "--change", entrypoint, str(FOLDER / "shell.tar"), name)
    yield name
    docker("rmi", name)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "own train\n"),
        ({"arguments": ["a", "b"]}, "own a b\n"),
        ({"entrypoint": ["/bin/sh", "-c", "echo mine $0"]}, "mine /bin/sh\n"),
        ({"entrypoint": ["/bin/sh", "-c", "echo mine $0"], "arguments": ["c"]}, "mine c\n"),
    ],
)
def test_without_a_command_an_image_runs_as_sagemaker_runs_it(
    with_entrypoint: str, make_plan: MakePlan, given: dict[str, Any], said: str
) -> None:
    plan = make_plan(command=[])
    assert run(made(with_entrypoint, **given), plan) == Exited(0)
    assert plan.log.read_text() == said


def test_code_that_an_image_brings_is_not_hidden(
    engine: str, make_plan: MakePlan, tmp_path: Path
) -> None:
    (tmp_path / "train.sh").write_text("cat /opt/ml/input/a; echo b > /opt/ml/model/b")
    archive = str(shutil.copy(FOLDER / "shell.tar", tmp_path))
    with tarfile.open(archive, "a") as tar:
        tar.add(tmp_path / "train.sh", "opt/ml/code/train.sh")
    name = f"trackside-test/code-{os.getpid()}"
    docker("import", archive, name)
    try:
        plan = make_plan(command=["/bin/sh", "/opt/ml/code/train.sh"])
        for folder in ("input", "model", "code"):
            (plan.ml / folder).mkdir()
        (plan.ml / "input" / "a").write_text("a\n")
        assert run(made(name, brings_code=True), plan) == Exited(0)
        assert plan.log.read_text() == "a\n"
        assert (plan.ml / "model" / "b").read_text() == "b\n"
    finally:
        docker("rmi", "--force", name)


def test_an_image_with_nothing_to_run_says_so(engine: str, make_plan: MakePlan) -> None:
    plan = make_plan(command=[])
    assert run(made(), plan) == Exited(127)
    assert "'train' cannot be started" in plan.log.read_text()


def test_rights_are_few(engine: str, make_plan: MakePlan) -> None:
    plan = make_plan("cat /proc/self/status; [ -e /var/run/docker.sock ]; echo $?")
    assert run(made(), plan) == Exited(0)
    said = plan.log.read_text()
    status = dict(line.split(":\t", 1) for line in said.splitlines() if ":\t" in line)
    assert status["NoNewPrivs"] == "1"
    mknod, net_raw, sys_admin = 1 << 27, 1 << 13, 1 << 21
    assert int(status["CapBnd"], 16) & (mknod | net_raw | sys_admin) == 0
    assert said.split()[-1] == "1"


def test_another_user_has_no_capability(engine: str, make_plan: MakePlan) -> None:
    plan = make_plan("cat /proc/self/status; id -u")
    assert run(made(user="1234:1234"), plan) == Exited(0)
    said = plan.log.read_text()
    assert "CapBnd:\t0000000000000000" in said
    assert said.endswith("1234\n")


def test_a_read_only_root_still_has_tmp_and_opt_ml(engine: str, make_plan: MakePlan) -> None:
    plan = make_plan("echo a > /tmp/a && echo b > /opt/ml/b && echo c > /c")
    state = run(made(has_read_only_root=True), plan)
    assert isinstance(state, Exited)
    assert state.code != 0
    assert (plan.ml / "b").exists()
    assert "Read-only file system" in plan.log.read_text()


def test_limits_are_the_engines(engine: str, make_plan: MakePlan) -> None:
    plan = make_plan(WAIT_FOR_GO)
    sandbox = made(cores=0.5, memory_bytes=64 << 20, shared_memory_bytes=8 << 20)
    sandbox.start(plan)
    container = ours([plan])[0]
    limits = json.loads(docker("inspect", container))[0]["HostConfig"]
    assert limits["NanoCpus"] == 500_000_000
    assert limits["Memory"] == limits["MemorySwap"] == 64 << 20
    assert limits["ShmSize"] == 8 << 20
    (plan.ml / "go").touch()
    assert wait(sandbox, plan) == Exited(0)


def test_out_of_memory_is_distinguished(engine: str, make_plan: MakePlan) -> None:
    program = "x = bytearray(300 << 20)"
    plan = make_plan(command=["python3", "-c", program], environment={"PATH": os.defpath})
    state = run(made(PYTHON, memory_bytes=64 << 20), plan)
    assert state == Exited(-signal.SIGKILL, out_of_memory=True)


def test_a_python_without_handlers_dies_by_sigterm(engine: str, make_plan: MakePlan) -> None:
    """The first process of a container would ignore it."""
    program = "import time; print('up', flush=True); time.sleep(1000)"
    plan = make_plan(command=["python3", "-c", program], environment={"PATH": os.defpath})
    sandbox = made(PYTHON)
    sandbox.start(plan)
    until(lambda: plan.log.read_text() == "up\n")
    sandbox.signal(plan, signal.SIGTERM)
    assert wait(sandbox, plan) == Exited(-signal.SIGTERM)


def test_a_command_can_read_its_own_log(engine: str, make_plan: MakePlan) -> None:
    plan = make_plan(
        "echo one; while ! cat <&$FD > /tmp/seen || ! [ -s /tmp/seen ]; do sleep 0.01; done\n"
        "cat /tmp/seen",
        log_variable="FD",
    )
    assert run(made(), plan) == Exited(0)
    assert plan.log.read_text() == "one\none\n"


def test_hosts_of_a_network_find_each_other(
    engine: str, make_plan: MakePlan, tmp_path: Path
) -> None:
    lock = str(tmp_path / "network.lock")
    network = f"trackside-test-{os.getpid()}-{time.monotonic_ns()}"
    server = """
        import socket
        with socket.create_server(("", 7777)) as server:
            connection, _ = server.accept()
            print(connection.recv(100).decode(), flush=True)
    """
    client = """
        import socket, time
        while True:
            try:
                connection = socket.create_connection(("algo-1", 7777))
                break
            except OSError:
                time.sleep(0.05)
        connection.sendall(socket.gethostname().encode())
    """
    sandboxes = []
    for host, program in (("algo-1", server), ("algo-2", client)):
        plan = make_plan(
            command=["python3", "-c", textwrap.dedent(program)],
            environment={"PATH": os.defpath},
            host=host,
        )
        box = made(PYTHON, network=network, network_lock=lock, aliases=[host])
        sandboxes.append((box, plan))
    starts = [threading.Thread(target=box.start, args=[plan]) for box, plan in sandboxes]
    for start in starts:
        start.start()
    for start in starts:
        start.join()
    for sandbox, plan in sandboxes:
        assert wait(sandbox, plan) == Exited(0), plan.log.read_text()
    assert sandboxes[0][1].log.read_text() == "algo-2\n"
    until(lambda: network not in docker("network", "ls", "--format", "{{.Name}}"))


# What is left


def test_nothing_is_left_behind(engine: str, make_plan: MakePlan, tmp_path: Path) -> None:
    volumes = set(docker("volume", "ls", "--quiet").split())
    plan = make_plan("mkdir /opt/ml/a; echo b > /opt/ml/a/b")
    sandbox = made()
    assert run(sandbox, plan) == Exited(0)
    init = json.loads((plan.folder / "process.json").read_text())["init"]
    until(lambda: not is_alive(init))
    assert ours([plan]) == []
    assert set(docker("volume", "ls", "--quiet").split()) <= volumes
    assert not (plan.folder / "output").exists()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    (plan.ml / "a" / "b").unlink()  # it is ours


def test_sigkill_after_the_end_removes_what_a_killed_init_left(
    engine: str, make_plan: MakePlan
) -> None:
    plan = make_plan(WAIT_FOR_GO)
    sandbox = made()
    sandbox.start(plan)
    kill_init(plan)
    (plan.folder / "exit.json").write_text('{"code": 0, "out_of_memory": false}')  # its last act
    sandbox.signal(plan, signal.SIGKILL)
    assert ours([plan]) == []
    assert not (plan.folder / "output").exists()


# What is refused


def test_a_missing_image_is_one_sentence(engine: str, make_plan: MakePlan) -> None:
    plan, sandbox = make_plan("true"), made("no/such-image:1")
    with pytest.raises(SandboxError, match="no image 'no/such-image:1' .* `docker pull no/such"):
        sandbox.start(plan)
    assert sandbox.poll(plan) is None
    assert ours([plan]) == []
    assert run(made(), plan) == Exited(0)  # once it is there


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("unix:///no/such/docker.sock", "No such file.*systemctl start docker.*DOCKER_HOST"),
        ("tcp://192.0.2.1:2375", "not on this machine.*unix://"),
    ],
)
def test_a_missing_engine_is_one_sentence(make_plan: MakePlan, address: str, said: str) -> None:
    plan = make_plan("true")
    sandbox = made(engine=address)
    with pytest.raises(SandboxError, match=said):
        sandbox.start(plan)
    assert sandbox.poll(plan) is None


def test_an_image_without_a_shell_is_explained(engine: str, make_plan: MakePlan) -> None:
    name = f"trackside-test/no-shell-{os.getpid()}"
    empty = subprocess.run(["tar", "-c", "-T", "/dev/null"], capture_output=True, check=True)
    command = ["docker", "--host", ADDRESS, "import", "-", name]
    subprocess.run(command, input=empty.stdout, check=True, capture_output=True)
    try:
        plan = make_plan("true")
        assert run(made(name), plan) == Exited(127)
        assert "has no /bin/sh" in plan.log.read_text()
    finally:
        docker("rmi", "--force", name)


# Whose files they are

AS_ANOTHER = """
    import os, signal, sys, time
    from pathlib import Path
    from trackside.supervisor.container_request import ContainerPlan
    from trackside.supervisor.container_sandbox import ContainerSandbox
    from trackside.supervisor.sandbox import Running, SandboxPlan
    root = Path({root!r})
    script = "mkdir /opt/ml/a; echo b > /opt/ml/a/b; while :; do sleep 0.01; done"
    plan = SandboxPlan(
        folder=root / "sandbox", ml=root, log=root / "log", nonce={nonce!r},
        command=["/bin/sh", "-c", script],
    )
    container = ContainerPlan(image={image!r}, engine={engine!r}, network="none")
    sandbox = ContainerSandbox(container)
    sandbox.start(plan)
    while not Path(root, "a", "b").exists():
        time.sleep(0.01)
    sandbox.signal(plan, signal.SIGTERM)
    while (state := sandbox.poll(plan)) == Running():
        time.sleep(0.01)
    while Path(root, "sandbox", "output").exists():  # init removes it last
        time.sleep(0.01)
    Path(root, "a", "b").unlink()
    print(state.code, os.getuid(), Path(root, "a").stat().st_uid)
"""


def run_as_another(folder: Path, engine: str) -> "subprocess.CompletedProcess[str]":
    values = {"root": str(folder), "nonce": "as-another-user", "image": SHELL, "engine": engine}
    return subprocess.run(
        [python_for_all(), "-c", textwrap.dedent(AS_ANOTHER).format(**values)],
        user=FIRST,
        group=FIRST,
        extra_groups=[],
        env={"PYTHONPATH": str(Path(trackside.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def anothers_folder() -> Iterator[Path]:
    """Where another user may make files; pytest's are closed to all."""
    folder = Path(tempfile.mkdtemp(prefix="trackside-container-"))
    os.chown(folder, FIRST, FIRST)
    yield folder
    shutil.rmtree(folder)


@needs_other_users
def test_files_of_the_container_belong_to_who_started_it(
    engine: str, anothers_folder: Path
) -> None:
    relay = Relay(anothers_folder)
    relay.path.chmod(0o666)
    done = run_as_another(anothers_folder, relay.address)
    assert done.stdout.split() == ["-15", str(FIRST), str(FIRST)], done.stderr


@needs_other_users
def test_who_may_not_use_the_engine_is_reported_how_to(engine: str, anothers_folder: Path) -> None:
    relay = Relay(anothers_folder)
    relay.path.chmod(0o600)
    done = run_as_another(anothers_folder, relay.address)
    assert "EngineGone: You may not use the Docker engine" in done.stderr
    assert "usermod -aG docker" in done.stderr


# Who may die

NOISE = """
    i=0
    while [ $i -lt 400 ]; do
        head -c 30000 /dev/zero; echo "line $i"; i=$((i + 1))
    done
    exit 5
"""
NOISE_BYTES = b"".join(b"\0" * 30_000 + f"line {i}\n".encode() for i in range(400))


def test_no_byte_is_lost_when_init_is_killed_again_and_again(
    engine: str, make_plan: MakePlan
) -> None:
    plan, sandbox = make_plan(NOISE), made()
    sandbox.start(plan)
    for least in (3_000_000, 6_000_000):
        wait_for_size(plan.log, least)
        kill_init(plan)
        until(lambda: sandbox.poll(plan) == Running() and has_live_init(plan))
    assert wait(sandbox, plan) == Exited(5)
    assert plan.log.read_bytes() == NOISE_BYTES


def wait_for_size(path: Path, least: int) -> None:
    until(lambda: path.stat().st_size >= least)


def has_live_init(plan: SandboxPlan) -> bool:
    return is_alive(json.loads((plan.folder / "process.json").read_text())["init"])


def test_who_comes_next_finds_the_container_without_any_process_of_before(
    engine: str, make_plan: MakePlan
) -> None:
    plan = make_plan("echo one; " + WAIT_FOR_GO + "echo two; exit 6")
    first = made()
    first.start(plan)
    until(lambda: plan.log.read_text() == "one\n")
    kill_init(plan)
    first._let_go()  # as its process' end would
    (plan.ml / "go").touch()
    second = made()
    second.start(plan)
    assert wait(second, plan) == Exited(6)
    assert plan.log.read_text().startswith("one\n")


def test_an_end_that_nobody_saw_is_reported_with_what_may_be_missing(
    engine: str, make_plan: MakePlan
) -> None:
    plan = make_plan(WAIT_FOR_GO + "exit 7")
    first = made()
    first.start(plan)
    kill_init(plan)
    first._let_go()
    (plan.ml / "go").touch()
    until(lambda: docker("inspect", "-f", "{{.State.Status}}", ours([plan])[0]) == "exited")
    assert wait(made(), plan) == Exited(7)
    assert "may be missing" in plan.log.read_text()


def test_a_container_that_somebody_removed_is_lost(engine: str, make_plan: MakePlan) -> None:
    plan, sandbox = make_plan(WAIT_FOR_GO), made()
    sandbox.start(plan)
    kill_init(plan)
    docker("rm", "--force", ours([plan])[0])
    assert wait(sandbox, plan) == Lost("The container was removed while the script ran.")


def test_a_dead_supervisor_is_started_again(engine: str, make_plan: MakePlan) -> None:
    plan = make_plan(WAIT_FOR_GO)
    lives = f"echo > '{plan.ml}/revived'; while [ ! -e '{plan.ml}/over' ]; do sleep 0.1; done"
    revive = ["/bin/sh", "-c", lives]
    program = f"""
        import os
        from pathlib import Path
        from trackside.supervisor.container_request import ContainerPlan
        from trackside.supervisor.container_sandbox import ContainerSandbox
        from trackside.supervisor.sandbox import SandboxPlan
        plan = SandboxPlan(
            folder=Path({str(plan.folder)!r}), ml=Path({str(plan.ml)!r}),
            log=Path({str(plan.log)!r}), command={list(plan.command)!r},
            nonce={plan.nonce!r}, revive={revive!r},
        )
        ContainerSandbox(ContainerPlan(image={SHELL!r}, engine={ADDRESS!r})).start(plan)
        os.kill(os.getpid(), 9)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    until((plan.ml / "revived").exists)
    (plan.ml / "go").touch()
    assert wait(made(), plan) == Exited(0)


class Relay:
    """A socket beside the engine's that passes requests on; but who first asks for what is named by
    `kills` is killed, before the engine has heard it or after."""

    def __init__(self, folder: Path, *, kills: bytes = b"", after: bool = False) -> None:
        self.path = folder / "s"
        self.address = f"unix://{self.path}"
        self._kills = kills
        self._is_after = after
        self.num_killed = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            client, _ = self._listener.accept()
            threading.Thread(target=self._answer, args=[client], daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client:
            request = client.recv(1 << 20)
            target = request.split(b" ", 2)[1]
            is_last = bool(self._kills) and self._kills in target and not self.num_killed
            if is_last and not self._is_after:
                return self._kill(client)
            answer = self._ask(request)
            if is_last:
                return self._kill(client)
            client.sendall(answer)

    def _ask(self, request: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX) as engine:
            engine.connect(ADDRESS.removeprefix("unix://"))
            engine.sendall(request)
            return b"".join(iter(lambda: engine.recv(1 << 16), b""))

    def _kill(self, client: socket.socket) -> None:
        self.num_killed += 1
        credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        os.kill(int.from_bytes(credentials[:4], sys.byteorder), signal.SIGKILL)


@pytest.mark.parametrize("after", [False, True])
def test_a_container_whose_init_dies_at_its_start_is_started_once(
    engine: str, make_plan: MakePlan, tmp_path: Path, after: bool
) -> None:
    relay = Relay(tmp_path, kills=b"/start", after=after)
    plan = make_plan("echo once >> /opt/ml/runs")
    sandbox = made(engine=relay.address)
    sandbox.start(plan)
    assert relay.num_killed == 1
    assert wait(sandbox, plan) == Exited(0)
    assert (plan.ml / "runs").read_text() == "once\n"


def test_a_container_whose_init_dies_when_it_is_created_can_be_started_or_removed(
    engine: str, make_plan: MakePlan, tmp_path: Path
) -> None:
    for number, ends in enumerate((True, False)):
        (tmp_path / str(number)).mkdir()
        relay = Relay(tmp_path / str(number), kills=b"/containers/create", after=True)
        plan = make_plan("echo once >> /opt/ml/runs")
        sandbox = made(engine=relay.address)
        with pytest.raises(SandboxError, match="ended before it started"):
            sandbox.start(plan)
        assert sandbox.poll(plan) is None
        assert len(ours([plan])) == 1
        if ends:
            assert run(sandbox, plan) == Exited(0)
            assert (plan.ml / "runs").read_text() == "once\n"
        else:
            sandbox.signal(plan, signal.SIGKILL)
            assert ours([plan]) == []


def test_a_script_outlives_the_engine(make_plan: MakePlan) -> None:
    with own_engine() as engine:
        plan = make_plan(
            "trap 'echo told; exit 8' TERM; echo up; " + WAIT_FOR_GO + "echo on; touch /opt/ml/on\n"
            "while :; do sleep 0.01; done"
        )
        sandbox = made(engine=engine.address)
        sandbox.start(plan)
        until(lambda: plan.log.read_text() == "up\n")
        engine.kill()
        (plan.ml / "go").touch()
        until((plan.ml / "on").exists)
        until(lambda: plan.log.read_text() == "up\non\n")
        assert sandbox.poll(plan) == Running()
        engine.start()
        sandbox.signal(plan, signal.SIGTERM)
        assert wait(sandbox, plan) == Exited(8)
        assert plan.log.read_text().endswith("told\n")
        until(lambda: ours([plan], engine.address) == [])


def test_a_script_can_be_stopped_while_the_engine_is_dead(make_plan: MakePlan) -> None:
    with own_engine() as engine:
        plan = make_plan("trap 'echo told; exit 8' TERM; echo up\nwhile :; do sleep 0.01; done")
        sandbox = made(engine=engine.address)
        sandbox.start(plan)
        until(lambda: plan.log.read_text() == "up\n")
        engine.kill()
        sandbox.signal(plan, signal.SIGTERM)
        until(lambda: plan.log.read_text().endswith("told\n"))
        engine.start()
        assert wait(sandbox, plan) == Exited(8)
        until(lambda: ours([plan], engine.address) == [])
