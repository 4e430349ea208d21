"""Takes a rule's actions when it fires: each once per rule and job, even if a process dies.

Quick local actions run at once; mail, webhook and command run in a thread. A failed action is
recorded and does not affect the rule.
"""

import hashlib

from trackside.records.finding import Finding, RuleKey
from trackside.records.spec import RuleConfiguration
from trackside.rules.action.action_errors import Refused
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
from trackside.rules.action.retries import RetryQueue
from trackside.rules.watched_job import WatchedJob


class ActionTaker:
    """Call `close`: actions under way continue until then."""

    def __init__(self, job: WatchedJob) -> None:
        self._job = job
        self._log = ActionLog(job.folder.rules.actions)
        self._armed: dict[RuleKey, tuple[Action, ...]] = {}
        self._queue = RetryQueue(self._log)

    @property
    def is_waiting(self) -> bool:
        """Whether a rule with actions may still fire."""
        armed = ((name, action.key) for name, actions in self._armed.items() for action in actions)
        return any(key not in self._log.taken for key in armed)

    def arm(self, name: RuleKey, rule: RuleConfiguration) -> None:
        """Register the rule's actions; `ValueError` when they cannot be parsed.

        Actions that an earlier evaluator had started but not finished are taken now.
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
                self._queue.settle(
                    key, problem="The evaluator died while it ran; it is not run twice."
                )
            else:
                self._act(key, action, taken.finding)

    def take(self, finding: Finding) -> None:
        """Take the actions of a rule that fired, except those taken before."""
        for action in self._armed.get(finding.key, ()):
            key = (finding.key, action.key)
            if key not in self._log.taken:
                self._log.intend(key, finding)
                self._act(key, action, finding)

    def close(self) -> None:
        """Return when every action was done or given up, which takes minutes at most."""
        self._queue.close()

    def _act(self, key: ActionKey, action: Action, finding: Finding) -> None:
        match action:
            case StopTraining():
                self._queue.do(key, lambda: stop_training(action, self._job, finding))
            case SaveFlightRecorder():
                self._queue.do(key, lambda: ask_for_recorder(self._job))
            case _:
                self._queue.send(key, lambda: self._deliver(key, action, finding))

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
