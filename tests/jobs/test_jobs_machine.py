"""Any order of submits, stops, deaths, silences and looks leads each job to one end.

The journal, the folders, the locks and the reconciler are the real ones; only the processes are
played, by a placement whose supervisors die and fall silent on command.
"""

import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.jobs.conftest import make_spec
from trackside.jobs.reconcile import MAX_REVIVALS, Reconciler
from trackside.jobs.start_supervisor import Launcher
from trackside.jobs.submit import Submission
from trackside.placement.placement import (
    Exited,
    Group,
    Handle,
    Placement,
    Poll,
    Running,
    Unknown,
)
from trackside.records.journal import History, Journal
from trackside.records.layout import Home
from trackside.records.status import Secondary, Status

HOSTS = ("algo-1", "algo-2")
WAY = (
    Secondary.STARTING,
    Secondary.DOWNLOADING,
    Secondary.TRAINING,
    Secondary.UPLOADING,
    Secondary.COMPLETED,
)


class PlayedPlacement(Placement):
    """Supervisors that exist as numbers."""

    name: ClassVar[str] = "played"
    shares_files: ClassVar[bool] = True

    def __init__(self) -> None:
        self.alive: dict[int, str] = {}
        self.num_started = dict.fromkeys(HOSTS, 0)
        self.is_silent = False

    def start(self, group: Group) -> Handle:
        return {host.name: self._start(host.name) for host in group.hosts}

    def _start(self, host: str) -> int:
        number = sum(self.num_started.values())
        self.num_started[host] += 1
        self.alive[number] = host
        return number

    def poll(self, handle: Handle) -> dict[str, Poll]:
        return {host: self._poll(number) for host, number in handle.items()}

    def _poll(self, number: int) -> Poll:
        if self.is_silent:
            return Unknown("no answer")
        return Running() if number in self.alive else Exited(None)

    def addresses(self, handle: Handle) -> dict[str, str]:
        return dict.fromkeys(handle, "127.0.0.1")

    def interface(self, handle: Handle) -> str:
        return "lo"

    def stop(self, handle: Handle, *, host: str | None = None, force: bool = False) -> None:
        for name, number in handle.items():
            if host in (None, name):
                self.alive.pop(number, None)


class JobMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="trackside-machine-"))
        self.home = Home(self.root)
        self.placement = PlayedPlacement()
        self.reconciler = Reconciler(
            self.home, Launcher([], {}, placement_of=lambda name: self.placement)
        )
        self.journal = Journal(self.home.job("job-1").journal)
        self.num_deaths = dict.fromkeys(HOSTS, 0)
        self.ended: History | None = None

    def teardown(self) -> None:
        if self.ended is None:
            self.settle()
            assert self.journal.read().state.is_final
        shutil.rmtree(self.root)

    @initialize()
    def submit(self) -> None:
        spec = make_spec(num_hosts=len(HOSTS), OutputDataConfig={"S3OutputPath": f"{self.root}/o"})
        Submission(spec, self.home, self.reconciler.launcher).submit()

    @rule()
    def look(self) -> None:
        self.reconciler.reconcile("job-1")

    @rule()
    def stop(self) -> None:
        before = self.journal.read()
        after = self.journal.try_move(Secondary.STOPPING)
        assert after.state.is_final == before.state.is_final
        assert after.state.status is not Status.IN_PROGRESS

    @rule()
    def fall_silent(self) -> None:
        self.placement.is_silent = True

    @rule()
    def answer_again(self) -> None:
        self.placement.is_silent = False

    @precondition(lambda self: self.placement.alive)
    @rule()
    def die(self) -> None:
        _, host = self.placement.alive.popitem()
        self.num_deaths[host] += 1

    @precondition(lambda self: "algo-1" in self.placement.alive.values())
    @rule()
    def lead_on(self) -> None:
        """The lead makes the next move, as a supervisor that has just read the journal would."""
        state = self.journal.read().state
        if state.status is Status.STOPPING:
            self.journal.try_move(Secondary.STOPPED)
        elif not state.is_final:
            self.journal.try_move(WAY[WAY.index(state.secondary) + 1])

    @invariant()
    def at_most_one_supervisor_runs_for_each_host(self) -> None:
        running = sorted(self.placement.alive.values())
        assert running == sorted(set(running))

    @invariant()
    def an_end_is_an_end(self) -> None:
        if not self.journal.path.exists():
            return
        history = self.journal.read()
        assert self.ended is None or history == self.ended
        if history.state.is_final:
            self.ended = history
            if history.state.status is Status.FAILED:
                assert max(self.num_deaths.values()) > MAX_REVIVALS

    @invariant()
    def nobody_is_started_without_a_death_before(self) -> None:
        for host in HOSTS:
            assert self.placement.num_started[host] <= 1 + self.num_deaths[host]
            assert self.placement.num_started[host] <= 1 + MAX_REVIVALS

    def settle(self) -> None:
        """From any state: one look, and living supervisors bring the job to its end."""
        self.placement.is_silent = False
        self.look()
        for _ in WAY:
            if "algo-1" in self.placement.alive.values():
                self.lead_on()


TestJobs = JobMachine.TestCase
TestJobs.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
