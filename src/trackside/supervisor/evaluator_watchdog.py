"""Keeps the job's rule evaluator alive while the lead's supervisor lives: starts and restarts it.

The evaluator is a process in its own session: nothing here waits for it, except that the job's
folders are removed a little later while it still reads them.
"""

import logging
import subprocess
import time

from trackside.records import evaluator_process
from trackside.records.spec import JobSpec
from trackside.supervisor.context import Context
from trackside.system.job_environment import GIVEN
from trackside.system.processes import NONCE_VARIABLE

logger = logging.getLogger(__name__)

REVIVE_PAUSES_SECONDS = (0.0, 0.0, 2.0, 10.0, 30.0)
"""Pauses before each restart; the last one for all further ones."""
READ_SECONDS = 60.0
"""How long the end of a job waits for rules to read its folders. They continue with storage."""
_LOOK_SECONDS = 0.05


class EvaluatorWatchdog:
    """For hosts that do not lead, and jobs without rules, all methods do nothing."""

    def __init__(self, context: Context, *, is_lead: bool) -> None:
        self._context = context
        self._spec = context.spec
        self._rules = context.folder.rules
        self._is_lead = is_lead
        self._process: subprocess.Popen[bytes] | None = None
        self._num_starts = 0
        self._started_at = 0.0
        self._pulse = evaluator_process.Pulse()
        self._is_disk_full = False

    def follow(self, spec: JobSpec) -> None:
        """Rules may be added to a job while it runs."""
        self._spec = spec

    def tick(self) -> None:
        """Keep one running until it is done. Its errors never fail the job."""
        if not self.is_on:
            return
        pauses = REVIVE_PAUSES_SECONDS
        pause = pauses[min(self._num_starts, len(pauses) - 1)]
        try:
            if self._lives():
                return self._end_frozen()
            if evaluator_process.is_done(self._rules, self._spec):
                return
            if time.monotonic() - self._started_at >= pause or not self._num_starts:
                self._start()
        except (OSError, ValueError) as error:
            if not self._is_disk_full:
                logger.warning("the job's rules are not evaluated: %s", error)
            self._is_disk_full = True

    def wake(self) -> None:
        """Have it look at the job now, which has changed."""
        if self.is_on:
            evaluator_process.wake(self._rules)

    def see_out(self) -> None:
        """The job has ended: wait a limited time until the rules have read its data."""
        self.wake()
        deadline = time.monotonic() + READ_SECONDS
        while self.is_on and not self._is_disk_full and time.monotonic() < deadline:
            if evaluator_process.has_judged(self._rules, self._spec):
                return
            self.tick()
            time.sleep(_LOOK_SECONDS)

    @property
    def is_on(self) -> bool:
        """Whether the job needs an evaluator."""
        return self._is_lead and evaluator_process.is_wanted(self._spec)

    def _lives(self) -> bool:
        """Also one that has not written its record yet, and one of an earlier supervisor."""
        if self._process is None:
            return evaluator_process.may_live(self._rules)
        return self._process.poll() is None or evaluator_process.is_alive(self._rules)

    def _end_frozen(self) -> None:
        """So that the next tick starts another."""
        if self._pulse.is_frozen(self._rules):
            logger.warning("the evaluator of the rules is frozen and is replaced")
            evaluator_process.kill(self._rules)

    def _start(self) -> None:
        context = self._context
        nonce = evaluator_process.intend(self._rules)
        if nonce is None:
            logger.error("the evaluator of the rules is given up; its log is %s", self._rules.log)
            evaluator_process.give_up(self._rules, self._spec)
            return
        if self._process is not None and self._process.returncode:
            logger.warning("the evaluator of the rules died; starting it again")
        self._num_starts += 1
        self._started_at = time.monotonic()
        apart = (NONCE_VARIABLE, GIVEN)  # the script's
        inherited = {k: v for k, v in context.environ.items() if k not in apart}
        with self._rules.log.open("ab") as log:
            self._process = subprocess.Popen(
                evaluator_process.command(context.folder, nonce),
                env={**inherited, **context.settings.variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        evaluator_process.note_started(self._rules, self._process.pid)
