"""What must hold for a simulated job, after each line of its journal and each step, whatever
happens to it."""

import json
from collections import Counter

from benchmarks.drill.simulated_job import Job, Supervisor
from benchmarks.drill.simulated_machine import Script, require
from trackside.coordination.coordination import Why
from trackside.records.journal import RETRY, History
from trackside.records.status import State, Status

_MOST_LINES = 400


class Invariants:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._machine = job.machine
        self._final: State | None = None
        self._stopping_in: int | None = None
        self._latest = 0.0
        self._noted_seconds: dict[int, float] = {}
        self._left_at: dict[int, float] = {}
        self._machine.on_line = self.after_line
        job.on_order = self._after_order
        job.on_watched = self._after_watching
        job.on_overdue = self._after_overdue

    def after_line(self, history: History, line: bytes) -> None:
        state, attempt = history.state, history.attempt
        if self._final is not None:
            require(state == self._final, f"{self._final.secondary} became {state.secondary}")
        if state.is_final:
            self._final = state
        require(history.version < _MOST_LINES, "the journal grows without end")
        require(history.num_damaged == 0, "a line was written that no reader accepts")
        written = json.loads(line)["time"]
        require(written >= self._latest, "the journal's times run backwards")
        self._latest = written
        starts = [transition.start for transition in history.transitions]
        require(starts == sorted(starts), "the transitions' times run backwards")
        most = self._job.request.max_attempts
        require(attempt <= most, f"attempt {attempt} of {most}")
        self._check_stop(history)
        self._note_attempts(history)

    def _check_stop(self, history: History) -> None:
        if self._stopping_in is not None:
            status = history.state.status
            require(status is not Status.COMPLETED, "a stop is lost: the job is Completed")
            require(status is not Status.IN_PROGRESS, "a stop is lost: the job goes on")
            require(history.attempt == self._stopping_in, "a stop is lost: the job starts again")
        if history.state.status is Status.STOPPING:
            self._stopping_in = history.attempt

    def _note_attempts(self, history: History) -> None:
        now = self._machine.true_seconds
        for note in history.notes:
            if note["what"] == RETRY:
                number = note["attempt"]
                self._noted_seconds.setdefault(number, self._countable_seconds(number))
        for number in range(1, history.attempt):
            self._left_at.setdefault(number, now)
        counted, ran = history.earlier_seconds, self._ran_seconds()
        require(counted <= ran + 1e-3, f"{counted:.1f} s count of {ran:.1f} s that it ran")

    # The time limit, by the true time

    def _after_order(self, attempt: int, why: Why) -> None:
        if why is Why.MAX_RUNTIME:
            limit = self._job.request.max_runtime_seconds
            ran = self._ran_seconds()
            require(ran >= limit - 1e-3, f"MaxRuntime after {ran:.1f} s of {limit:.1f} s")

    def _after_watching(self, attempt: int) -> None:
        limit = self._job.request.max_runtime_seconds
        ran = sum(self._noted_seconds.values()) + self._countable_seconds(attempt)
        require(ran <= limit + 1e-3, f"no MaxRuntime after {ran:.1f} s of {limit:.1f} s")

    def _ran_seconds(self) -> float:
        now, met = self._machine.true_seconds, self._job.met_at.items()
        return sum(self._left_at.get(number, now) - moment for number, moment in met)

    def _countable_seconds(self, attempt: int) -> float:
        """How long it has run; a reboot may cost what was not noted yet, nothing else does."""
        meeting = self._machine.disk.meetings.get(attempt)
        if meeting is None:
            return 0.0
        now = self._machine.now
        return now.seconds - meeting.clock if meeting.boot_id == now.boot_id else meeting.ran

    # Processes

    def _after_overdue(self, script: Script) -> None:
        require(script.asked_at is not None, "a stop or an order to end did not reach the script")

    def after_step(self) -> None:
        job = self._job
        publishers = [each for each in job.publishers if each.is_alive]
        require(len(publishers) <= 1, "two live publishers of the final names")
        for (host, attempt), count in job.num_started.items():
            require(count == 1, f"the script of {host} was started {count} times in {attempt}")
        hosts = Counter(host for host, _ in self._live_scripts())
        require(all(count == 1 for count in hosts.values()), f"two scripts of one host: {hosts}")

    def _live_scripts(self) -> list[tuple[str, int]]:
        return [key for key, script in self._machine.disk.scripts.items() if script.is_alive]

    def _live_supervisors(self) -> list[str]:
        found = [each for each in self._machine.processes if isinstance(each, Supervisor)]
        return [each.host for each in found if each.is_alive]

    def is_over(self) -> bool:
        """Nothing is left to do."""
        is_final = self._machine.journal.read().state.is_final
        left = self._live_scripts() or self._live_supervisors()
        return is_final and not left and not self._machine.disk.has_ending_note

    def at_end(self) -> None:
        machine, job = self._machine, self._job
        history = machine.journal.read()
        require(history.state.is_final, f"no path to an end: {history.state.secondary} for ever")
        require(not self._live_scripts(), f"scripts left after the end: {self._live_scripts()}")
        left = self._live_supervisors()
        require(not left, f"supervisors left after the end: {left}")
        require(not machine.disk.has_ending_note, "the last upload was never done")
        if job.num_stops:
            require(
                history.state.status is not Status.IN_PROGRESS, "a stop was answered and not obeyed"
            )
        if history.state.status is Status.COMPLETED:
            require(job.request.exit_code == 0, "Completed, though its script failed")
            require(history.attempt in machine.disk.published, "Completed, nothing published")
