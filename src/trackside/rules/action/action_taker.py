"""Takes a rule's actions when it fires: each once per rule and job, whoever dies in between.

What is quick and local is done on the spot; mail, webhook and command wait for nobody, and nobody
waits for them. An action that does not work is on record and hurts no rule.
"""

import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Thread

from trackside.finding import Finding, RuleKey
from trackside.rules.action.action_log import ActionKey, ActionLog
from trackside.rules.action.actions import (
    Action,
    Command,
    Email,
    Notify,
    SaveFlightRecorder,
    StopTraining,
    actions_of,
)
from trackside.rules.action.job_actions import ask_for_recorder, stop_training
from trackside.rules.action.setbacks import Passing, Refused
from trackside.rules.watched_job import WatchedJob
from trackside.spec import RuleConfiguration

logger = logging.getLogger(__name__)

PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Before each further try of something that did not work."""


@dataclass(slots=True)
class _Errand:
    key: ActionKey
    act: Callable[[], str]
    due: float = 0.0
    """Monotonic."""
    tries: int = 0


class ActionTaker:
    """Owns one thread, from the first errand to `close`."""

    def __init__(self, job: WatchedJob) -> None:
        self._job = job
        self._log = ActionLog(job.folder.rules.actions)
        self._armed: dict[RuleKey, tuple[Action, ...]] = {}
        self._errands: list[_Errand] = []
        self._closing = False
        self._wake = Condition()
        self._thread: Thread | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a rule may still fire that something is to be done for."""
        armed = ((name, action.key) for name, actions in self._armed.items() for action in actions)
        return any(key not in self._log.taken for key in armed)

    def arm(self, name: RuleKey, rule: RuleConfiguration) -> None:
        """Know what to do when this rule fires; `ValueError` when that cannot be read.

        What an evaluator before us was about to do is done now.
        """
        if name in self._armed:
            return
        self._armed[name] = actions_of(rule.parameters)
        for action in self._armed[name]:
            key = (name, action.key)
            taken = self._log.taken.get(key)
            if taken is None or taken.is_settled:
                continue
            if isinstance(action, Command):
                self._settle(key, problem="The evaluator died while it ran; it is not run twice.")
            else:
                self._act(key, action, taken.finding)

    def take(self, finding: Finding) -> None:
        """Its rule has fired. Whatever was done for it before is not done again."""
        for action in self._armed.get(finding.key, ()):
            key = (finding.key, action.key)
            if key not in self._log.taken:
                self._log.intend(key, finding)
                self._act(key, action, finding)

    def close(self) -> None:
        """Return when everything was done or given up, which takes minutes at most."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()

    def _act(self, key: ActionKey, action: Action, finding: Finding) -> None:
        match action:
            case StopTraining():
                self._do(key, lambda: stop_training(action, self._job, finding))
            case SaveFlightRecorder():
                self._do(key, lambda: ask_for_recorder(self._job))
            case _:
                self._send(key, lambda: self._deliver(key, action, finding))

    def _deliver(self, key: ActionKey, action: Email | Notify | Command, finding: Finding) -> str:
        from trackside.rules.action import deliveries  # mail, TLS and HTTP: 40 ms of a start

        job, settings = self._job.spec.name, self._job.settings
        is_remote = self._job.came_through_server
        delivery = hashlib.sha256(f"{job}\0{key}".encode()).hexdigest()[:32]
        match action:
            case Email():
                return deliveries.send_mail(action, job, finding, settings, delivery)
            case Notify():
                call = deliveries.call(action, self._job.spec, settings, is_remote=is_remote)
                return deliveries.post(call, action, job, finding, delivery)
            case Command() if is_remote:
                raise Refused("A job that came through a server runs no command on its machine.")
            case Command():
                return deliveries.run_command(action, job, finding)

    def _send(self, key: ActionKey, act: Callable[[], str]) -> None:
        with self._wake:
            self._errands.append(_Errand(key, act))
            self._wake.notify()
        if self._thread is None:
            self._thread = Thread(target=self._run, name="trackside-actions", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (errand := self._next()) is not None:
            if not self._do(errand.key, errand.act, tries=errand.tries):
                errand.due = time.monotonic() + PAUSES_SECONDS[errand.tries]
                errand.tries += 1
                with self._wake:
                    self._errands.append(errand)

    def _next(self) -> _Errand | None:
        """The first that is due. None when all is done and nothing will follow."""
        with self._wake:
            while True:
                now = time.monotonic()
                first = min(self._errands, key=lambda errand: errand.due, default=None)
                if first is None and self._closing:
                    return None
                if first is not None and first.due <= now:
                    self._errands.remove(first)
                    return first
                self._wake.wait(None if first is None else first.due - now)

    def _do(
        self, key: ActionKey, act: Callable[[], str], *, tries: int = len(PAUSES_SECONDS)
    ) -> bool:
        """Whether that settles it."""
        try:
            self._settle(key, details=act())
        except Passing as error:
            if tries < len(PAUSES_SECONDS):
                logger.info("action %s of %s is tried again: %s", key[1], key[0][1], error)
                return False
            self._settle(key, problem=f"given up after {tries + 1} tries: {error}")
        except Refused as error:
            self._settle(key, problem=str(error))
        except Exception as error:  # an action never fails its rule, nor this thread
            logger.exception("action %s of %s", key[1], key[0][1])
            self._settle(key, problem=repr(error))
        return True

    def _settle(self, key: ActionKey, *, problem: str = "", details: str = "") -> None:
        logger.info("action %s of %s: %s", key[1], key[0][1], problem or details)
        try:
            self._log.settle(key, problem, details)
        except OSError as error:
            logger.warning("how it went is not recorded: %s", error)
