"""Notifies users of findings and of a job's end: `trackside run --notify`.

One message per kind of finding and one for the end, to each target, even if a process dies. A
message that cannot be delivered is noted in the job's journal, without other effects.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Sequence

from trackside.errors import TracksideError
from trackside.records.finding import Finding, read_findings
from trackside.records.journal import UNDELIVERED
from trackside.records.notify_targets import Target
from trackside.rules.action.action_log import ActionKey, ActionLog
from trackside.rules.action.alert_texts import Alert, of_end, of_finding
from trackside.rules.action.retries import RetryQueue
from trackside.rules.watched_job import WatchedJob
from trackside.storage.locate import locate_object

logger = logging.getLogger(__name__)

MOST_KINDS = 20
"""Kinds of findings sent as they occur; the final message lists all."""
_END = Finding(rule="end of the job", message="")
_LOOK_SECONDS = 0.25


class Notices:
    """`found` and `ended` return at once; `close` when everything was delivered or given up."""

    def __init__(self, job: WatchedJob) -> None:
        self._job = job
        self._targets = {
            f"{number} {target.masked}": target
            for number, target in enumerate(map(Target.parse, job.spec.options.notify))
        }
        """By what they are called in the log, which must not have their secrets."""
        self._log = ActionLog(job.folder.rules.notices)
        self._queue = RetryQueue(self._log, self._settled)
        self._num_failed = 0
        for (rule, action), taken in [*self._log.taken.items()]:
            if not taken.is_settled:  # an earlier evaluator had started it
                self._send((rule, action), taken.finding)

    @property
    def is_wanted(self) -> bool:
        return bool(self._targets)

    def found(self, findings: Sequence[Finding]) -> None:
        """The same finding is not sent twice."""
        for finding in findings if self.is_wanted else ():
            kinds = {(rule, taken.finding.rule) for (rule, _), taken in self._log.taken.items()}
            if (finding.key, finding.rule) not in kinds and len(kinds) < MOST_KINDS:
                self._notify(finding)

    def await_end(
        self, beat: Callable[[], object], *, unless: Callable[[], bool] = lambda: False
    ) -> None:
        """Wait for the end of the job; `beat` is called at each poll."""
        while not self._job.history.state.is_final and not unless():
            time.sleep(_LOOK_SECONDS)
            beat()
            self._job.refresh()

    def ended(self) -> None:
        self._notify(_END)

    def close(self) -> None:
        self._queue.close()
        if self._num_failed and self._job.history.state.is_final:
            self._send_journal()

    def _notify(self, about: Finding) -> None:
        for name in self._targets:
            key = about.key, f"{about.rule} {name}"
            if key not in self._log.taken:
                self._log.intend(key, about)
                self._send(key, about)

    def _send(self, key: ActionKey, about: Finding) -> None:
        target = self._target_of(key)
        if target is not None:
            self._queue.send(key, lambda: self._deliver(key, target, about))

    def _deliver(self, key: ActionKey, target: Target, about: Finding) -> str:
        from trackside.rules.action import deliveries  # mail, TLS and HTTP: 40 ms of a start

        job, settings = self._job, self._job.settings
        delivery = hashlib.sha256(f"{job.spec.name}\0{key}".encode()).hexdigest()[:32]
        alert = self._alert(about)
        if target.kind == "mail":
            subject = f"[trackside] {alert.subject}"
            return deliveries.mail(target.address, subject, alert.text, settings, delivery)
        call = deliveries.call_of(target.address, settings, is_remote=job.came_through_server)
        body = {"text": _for_slack(alert.text)} if target.kind == "slack" else alert.record
        return deliveries.post_json(call, {**body, "delivery": delivery}, delivery)

    def _alert(self, about: Finding) -> Alert:
        name, history = self._job.spec.name, self._job.history
        if about.rule == _END.rule:
            return of_end(name, history, read_findings(self._job.folder.rules.findings))
        return of_finding(name, str(history.state.status), about)

    def _target_of(self, key: ActionKey) -> Target | None:
        return next((each for name, each in self._targets.items() if key[1].endswith(name)), None)

    def _settled(self, key: ActionKey, problem: str) -> None:
        target = self._target_of(key)
        if not problem or target is None:
            return
        reason = problem.replace(target.address, target.masked.partition(":")[2])
        about = self._log.taken[key].finding.rule
        self._num_failed += 1
        try:
            self._job.journal.note(UNDELIVERED, target=target.masked, about=about, reason=reason)
        except (OSError, TracksideError) as error:
            logger.warning("that a notice was not delivered cannot be noted: %s", error)

    def _send_journal(self) -> None:
        """Its copy in storage was written at the end of the job."""
        place = locate_object(self._job.keys.journal, home=self._job.settings.home)
        try:
            self._job.journal.send(lambda data: place.store.put(place.key, data))
        except (OSError, TracksideError) as error:
            logger.warning("the journal in storage lacks what was not delivered: %s", error)


def _for_slack(text: str) -> str:
    """Escape characters by which a text would mention people, or become a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
