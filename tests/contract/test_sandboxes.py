"""What every sandbox does alike. A new one adds a line to SANDBOXES.

Commands are for /bin/sh, so that they run in any container too. `$ML` is the folder the script
sees as /opt/ml, wherever the sandbox puts it.
"""

import atexit
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.apptainer_program import SHELL as IMAGE
from tests.apptainer_program import apptainer_program
from tests.docker_engine import SHELL, docker_engine
from tests.wait import until
from trackside.supervisor.apptainer_job import ApptainerImage, ApptainerSandbox
from trackside.supervisor.container_request import ContainerPlan
from trackside.supervisor.container_sandbox import ContainerSandbox
from trackside.supervisor.process_sandbox import ProcessSandbox, available
from trackside.supervisor.sandbox import Exited, Running, Sandbox, SandboxPlan
from trackside.supervisor.user_folders import hand_over
from trackside.system.run_as import JobUser, find_user

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
needs_namespaces = pytest.mark.skipif(
    available().kind == "none", reason=f"needs namespaces. {available().reason}"
)


@dataclass(frozen=True)
class Made:
    isolation: str
    user: JobUser | None = None

    def __call__(self) -> Sandbox:
        return ProcessSandbox(self.isolation)


@dataclass(frozen=True)
class Contained:
    user: JobUser | None = None

    def __call__(self) -> Sandbox:
        plan = ContainerPlan(image=SHELL, engine=docker_engine(), network="none")
        return ContainerSandbox(plan)


@dataclass(frozen=True)
class InImage:
    user: JobUser | None = None

    def __call__(self) -> Sandbox:
        program = apptainer_program()
        folder = Path(tempfile.mkdtemp(prefix="trackside-apptainer-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        for name in ("home", "work"):
            (folder / name).mkdir()
        image = ApptainerImage(
            program=program,
            name="shell",
            file=str(IMAGE),
            home=folder / "home",
            work=folder / "work",
            environ=os.environ,
        )
        return ApptainerSandbox(image)


SANDBOXES = [
    pytest.param(Made("root"), id="process-root", marks=needs_root),
    pytest.param(Made("root", find_user("65533")), id="process-as-another", marks=needs_root),
    pytest.param(Made("user"), id="process-user", marks=needs_namespaces),
    pytest.param(Made("none"), id="process-none"),
    pytest.param(Contained(), id="container"),
    pytest.param(Contained(find_user("65533")), id="container-as-another", marks=needs_root),
    pytest.param(InImage(), id="apptainer"),
]
FIND_ML = 'ML="${SAGEMAKER_BASE_DIR:-/opt/ml}"\n'

MakePlan = Callable[..., SandboxPlan]


@pytest.fixture(params=SANDBOXES)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return request.param()


@pytest.fixture
def make_plan(tmp_path: Path, sandbox: Sandbox, request: pytest.FixtureRequest):
    """Plans for shell scripts; what they started is killed after the test."""
    plans: list[SandboxPlan] = []
    user: JobUser | None = request.node.callspec.params["sandbox"].user

    def make(script: str, *, environment: dict[str, str] | None = None, **fields) -> SandboxPlan:
        root = tmp_path / f"host {len(plans)}"
        (root / "ml").mkdir(parents=True)
        plan = SandboxPlan(
            folder=root / "sandbox",
            ml=root / "ml",
            command=["/bin/sh", "-c", FIND_ML + script],
            environment={"PATH": os.defpath} | (environment or {}),
            log=root / "algo-1.log",
            user=user,
            nonce=f"contract-{os.getpid()}-{time.monotonic_ns()}",
            **fields,
        )
        if user is not None:
            for folder in (plan.ml, *plan.mounts.values()):
                hand_over(folder, user)
        plans.append(plan)
        return plan

    yield make
    for plan in plans:
        sandbox.signal(plan, signal.SIGKILL)


def run(sandbox: Sandbox, plan: SandboxPlan) -> Exited:
    sandbox.start(plan)
    return wait(sandbox, plan)


def wait(sandbox: Sandbox, plan: SandboxPlan) -> Exited:
    state = until(lambda: None if (seen := sandbox.poll(plan)) == Running() else seen)
    assert isinstance(state, Exited), state
    return state


def test_there_is_nothing_to_poll_before_start(sandbox: Sandbox, make_plan: MakePlan) -> None:
    assert sandbox.poll(make_plan("true")) is None


@pytest.mark.parametrize("code", [0, 1, 77, 255])
def test_the_exit_code_reaches_poll(sandbox: Sandbox, make_plan: MakePlan, code: int) -> None:
    assert run(sandbox, make_plan(f"exit {code}")) == Exited(code)


def test_death_by_signal_is_a_negative_code(sandbox: Sandbox, make_plan: MakePlan) -> None:
    assert run(sandbox, make_plan("kill -KILL $$")) == Exited(-signal.SIGKILL)


def test_a_command_that_does_not_exist_ends_as_in_a_shell(
    sandbox: Sandbox, make_plan: MakePlan, tmp_path: Path
) -> None:
    plan = make_plan("")
    missing = SandboxPlan(
        folder=plan.folder,
        ml=plan.ml,
        command=["/no/such/program"],
        log=plan.log,
        user=plan.user,
        nonce=plan.nonce,
    )
    assert run(sandbox, missing) == Exited(127)
    assert "/no/such/program" in plan.log.read_text()


def test_starting_again_does_nothing(sandbox: Sandbox, make_plan: MakePlan) -> None:
    plan = make_plan('echo once >> "$ML/runs"; while [ ! -e "$ML/go" ]; do sleep 0.01; done')
    for _ in range(3):
        sandbox.start(plan)
    (plan.ml / "go").touch()
    assert wait(sandbox, plan) == Exited(0)
    sandbox.start(plan)
    assert sandbox.poll(plan) == Exited(0)
    assert (plan.ml / "runs").read_text() == "once\n"


def test_another_sandbox_object_finds_it_by_the_folder(
    request: pytest.FixtureRequest, sandbox: Sandbox, make_plan: MakePlan
) -> None:
    plan = make_plan('while [ ! -e "$ML/go" ]; do sleep 0.01; done; exit 5')
    sandbox.start(plan)
    other = request.node.callspec.params["sandbox"]()
    assert other.poll(plan) == Running()
    (plan.ml / "go").touch()
    assert wait(other, plan) == Exited(5)


def test_both_streams_are_appended_to_the_log_in_order(
    sandbox: Sandbox, make_plan: MakePlan
) -> None:
    plan = make_plan("echo one; echo two >&2; printf three")
    plan.log.write_text("zero\n")
    run(sandbox, plan)
    assert plan.log.read_text() == "zero\none\ntwo\nthree"


def test_the_log_keeps_every_byte(sandbox: Sandbox, make_plan: MakePlan) -> None:
    plan = make_plan(
        r"printf 'nul \000 bad utf-8 \377\376 progress\r'; head -c 10000000 /dev/zero | tr '\0' x"
    )
    run(sandbox, plan)
    assert plan.log.read_bytes() == b"nul \0 bad utf-8 \xff\xfe progress\r" + b"x" * 10_000_000


def test_the_environment_is_the_plans(
    sandbox: Sandbox, make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKED", "yes")
    plan = make_plan('echo "$GIVEN,${LEAKED-no}"', environment={"GIVEN": "a 'b' ü\n$c`id`"})
    run(sandbox, plan)
    assert plan.log.read_text() == "a 'b' ü\n$c`id`,no\n"


def test_stdin_is_empty(sandbox: Sandbox, make_plan: MakePlan) -> None:
    plan = make_plan("cat; echo end")
    assert run(sandbox, plan) == Exited(0)
    assert plan.log.read_text() == "end\n"


def test_a_mount_shows_the_folder_behind_it(
    sandbox: Sandbox, make_plan: MakePlan, tmp_path: Path
) -> None:
    channel = tmp_path / "my data"
    channel.mkdir()
    (channel / "a.csv").write_text("1,2\n")
    plan = make_plan(
        'cat "$ML/input/data/training/a.csv"; echo 3 > "$ML/input/data/training/b.csv"',
        mounts={"/opt/ml/input/data/training": channel},
    )
    assert run(sandbox, plan) == Exited(0)
    assert plan.log.read_text() == "1,2\n"
    assert (channel / "b.csv").read_text() == "3\n"


def test_sigterm_reaches_the_whole_group_once(sandbox: Sandbox, make_plan: MakePlan) -> None:
    plan = make_plan(
        """
        say() { echo "$1" >> "$ML/heard"; }
        ( trap 'say child; exit 0' TERM; echo >> "$ML/ready"; while :; do sleep 0.01; done ) &
        trap 'say parent; wait; exit 9' TERM; echo >> "$ML/ready"; while :; do sleep 0.01; done
        """
    )
    sandbox.start(plan)
    until(lambda: (plan.ml / "ready").exists() and (plan.ml / "ready").read_text() == "\n\n")
    sandbox.signal(plan, signal.SIGTERM)
    assert wait(sandbox, plan) == Exited(9)
    assert sorted((plan.ml / "heard").read_text().split()) == ["child", "parent"]


def test_a_script_that_ignores_sigterm_dies_by_sigkill(
    sandbox: Sandbox, make_plan: MakePlan
) -> None:
    plan = make_plan('trap "" TERM; echo > "$ML/ready"; while :; do sleep 0.01; done')
    sandbox.start(plan)
    until((plan.ml / "ready").exists)
    sandbox.signal(plan, signal.SIGTERM)
    assert sandbox.poll(plan) == Running()
    sandbox.signal(plan, signal.SIGKILL)
    assert wait(sandbox, plan) == Exited(-signal.SIGKILL)


# A child in a session of its own that has cleared its environment and let go of the log.
WANDERER = (
    'setsid env -i /bin/sh -c \'while :; do echo >> "$0/beats"; sleep 0.01; done\' "$ML"'
    " </dev/null >/dev/null 2>&1 &\n"
    'while [ ! -e "$ML/beats" ]; do sleep 0.01; done\n'
)


def check_that_nothing_beats(plan: SandboxPlan) -> None:
    beats = (plan.ml / "beats").stat().st_size
    time.sleep(0.2)
    assert (plan.ml / "beats").stat().st_size == beats


def test_nothing_the_script_started_lives_on_after_its_exit(
    sandbox: Sandbox, make_plan: MakePlan
) -> None:
    plan = make_plan(WANDERER + "exit 4")
    assert run(sandbox, plan) == Exited(4)
    check_that_nothing_beats(plan)


def test_nothing_the_script_started_lives_on_after_sigkill(
    sandbox: Sandbox, make_plan: MakePlan
) -> None:
    plan = make_plan(WANDERER + "sleep 1000")
    sandbox.start(plan)
    until((plan.ml / "beats").exists)
    sandbox.signal(plan, signal.SIGKILL)
    assert wait(sandbox, plan) == Exited(-signal.SIGKILL)
    check_that_nothing_beats(plan)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signalling_what_is_not_there_is_silent(
    sandbox: Sandbox, make_plan: MakePlan, number: int
) -> None:
    plan = make_plan("exit 6")
    sandbox.signal(plan, number)
    assert sandbox.poll(plan) is None
    assert run(sandbox, plan) == Exited(6)
    sandbox.signal(plan, number)
    assert sandbox.poll(plan) == Exited(6)
