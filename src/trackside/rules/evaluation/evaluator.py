"""Evaluates a job's rules while it runs, and until everything it saved has been read.

All state is in the job's folder: an evaluator that takes over reads the trial from its beginning,
and does not repeat what its predecessor filed or did.
"""

import logging
import select
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trackside.errors import TracksideError
from trackside.files import durable
from trackside.records.evaluator_process import all_evaluations, first_evaluations
from trackside.records.finding import Finding, RuleKey
from trackside.records.rule_status import Evaluation, read_evaluations, write_evaluations
from trackside.records.status import Secondary, Status
from trackside.rules.action.action_taker import ActionTaker
from trackside.rules.action.notifications import Notices
from trackside.rules.builtin import BuiltInRule, TensorRule
from trackside.rules.evaluation.rule_run import Case, CurrentRule, Ready, is_custom, make_ready
from trackside.rules.evaluation.script_lines import ScriptLines
from trackside.rules.findings_file import FindingsFile
from trackside.rules.rule_failure import trace_end
from trackside.rules.saved import feeds
from trackside.rules.watched_job import WatchedJob
from trackside.storage.locate import Location
from trackside.system.wake_ups import WakeUps

if TYPE_CHECKING:
    from trackside.rules.custom.custom_rule import CustomRule

logger = logging.getLogger(__name__)

PAUSE_SECONDS = feeds.LOCAL_SECONDS
LONGEST_PAUSE_SECONDS = 1.0
"""Seconds between two looks at a job in which nothing is new, if findings are only reported."""
TENSORS_COME_SECONDS = 10.0
"""Seconds after the script's first loss in a curve: a hook would have saved it long before."""
START_SECONDS = 5.0
"""Seconds between checks of a job that has saved no tensor yet."""
PROGRESS_SECONDS = 5.0
"""Seconds between saves of the rules' progress if nothing else has changed."""


class Evaluator:
    """`run` returns when every rule has ended."""

    def __init__(
        self,
        job: WatchedJob,
        actions: ActionTaker,
        notices: Notices | None = None,
        wake: WakeUps | None = None,
    ) -> None:
        """`wake` ends a pause early; without it, no pause is longer than `PAUSE_SECONDS`."""
        self._job = job
        self._wake = wake
        self._pause = PAUSE_SECONDS
        self._has_news = False
        self._rules = job.folder.rules
        self._actions = actions
        self._notices = notices or Notices(job)
        self._findings = FindingsFile(self._rules.findings)
        self._lines = ScriptLines(job)
        self._current_rule = CurrentRule(self._rules.current_rule, self._rules.deaths)
        known = read_evaluations(self._rules.statuses)
        created = job.history.created
        self._cases = [Case(each) for each in all_evaluations(job.spec, known, created)]
        self._ready: list[Ready | None] = []
        self._provided: set[RuleKey] = set()
        self._by_curves: set[RuleKey] = set()
        """Rules about losses that read the script's own curves: the hook has saved nothing."""
        self._written: list[Evaluation] = []
        self._written_at = self._start_checked = 0.0
        self._attempt = 0

    def run(self, beat: Callable[[], object] = bool) -> None:
        """`beat` is called at each turn: a process that stops calling it may be taken for dead."""
        self._write()
        while not all(case.is_over for case in self._cases):
            beat()
            self._turn()
            self._write()
            self._wait()

    def close(self) -> None:
        self._end_customs()
        self._current_rule.close()

    def _end_customs(self) -> None:
        for custom in self._customs():
            custom.close()

    def _turn(self) -> None:
        """Check the job, its new data, and the messages of custom rules."""
        is_more = self._job.refresh() and self._take_in_rules()
        is_last = self._job.is_over
        if self._attempt != self._job.attempt:
            self._leave_attempt()
            if missed := self._missed_attempt():
                return self._begin_missed(*missed)
            self._begin()
        elif is_more:
            self._begin()  # a late rule reads from the beginning, as if it had been there
        self._end_stopped()
        self._has_news = False
        if self._job.was_stopped:
            for case in self._cases:
                case.stopping()
        pace = feeds.EAGER if self._actions.is_waiting else feeds.PATIENT
        for feed in (self._tensors, self._figures):
            began = time.process_time()
            self._follow(feed, is_last=is_last)
            feed.rest_after(time.process_time() - began, pace)
            if feed.is_gone:
                logger.info("the job has given its folder back: going on with what is stored")
                return self._begin()
        if self._tensors.evidence is None and not is_last:
            self._check_start()
        self._follow_losses(is_last, pace)
        self._follow_customs(is_last)

    def _take_in_rules(self) -> bool:
        """Whether rules were added to the job since the last check. They come last."""
        now = first_evaluations(self._job.spec, time.time())
        fresh = now[len(self._cases) :]
        self._cases += [Case(each) for each in fresh]
        return bool(fresh)

    def _end_stopped(self) -> None:
        for case, ready in self._open_cases():
            if case.key in self._job.stopped_rules:
                case.stopped()
                if is_custom(ready):
                    ready.close()

    def _follow(self, feed: feeds.Feed, *, is_last: bool = False, at_once: bool = False) -> None:
        try:
            is_new = feed.advance(last=is_last, at_once=at_once)
        except (TracksideError, OSError) as error:
            logger.warning("what the job has saved cannot be read now: %s", error)
            if feed.unread_seconds > self._job.settings.upload_deadline_seconds and is_last:
                self._fail(feed, f"InternalServerError: the saved data cannot be read: {error}")
            return
        if is_new:
            self._has_news = True
            self._check_feed(feed)
        elif is_last and feed.evidence is None:
            self._conclude(feed)

    def _leave_attempt(self) -> None:
        """A last check of what the attempt saved before it was lost: it may show the reason."""
        if self._attempt:
            self._follow(self._tensors, at_once=True)

    def _missed_attempt(self) -> tuple[int, Location] | None:
        """The first later attempt that is over already, and its tensors.

        This process may have been started late, or suspended while attempts came and went.
        """
        numbers = range(self._attempt + 1, self._job.attempt)
        places = ((number, self._job.earlier_trial(number)) for number in numbers)
        return next(((number, place) for number, place in places if place is not None), None)

    def _begin_missed(self, attempt: int, place: Location) -> None:
        """Built-in rules read its tensors at the next turn, when it is left."""
        self._attempt = attempt
        self._make_ready(with_customs=False)
        self._open_feeds(place, None, None)

    def _begin(self) -> None:
        """Read from the beginning, with rules in their initial state.

        An attempt has its own folder, and may restart its step count.
        """
        job = self._job
        self._attempt = job.attempt
        self._make_ready()
        profile = job.profile() if self._wants_figures() else None
        self._open_feeds(job.trial(), profile, job.curves())

    def _open_feeds(
        self, trial: Location | None, profile: Location | None, curves: Location | None
    ) -> None:
        home = self._job.settings.home
        self._tensors = feeds.tensors(trial, home)
        self._figures = feeds.figures(profile)
        self._by_curves.clear()
        self._losses = feeds.losses(curves, home)

    def _make_ready(self, *, with_customs: bool = True) -> None:
        self._end_customs()
        self._provided.clear()
        self._ready = []
        both = zip(self._cases, self._job.rules, strict=True)
        for number, (case, (_, rule)) in enumerate(both):
            ready = None
            if self._current_rule.is_deadly(case.key) and not case.is_over:
                case.failed(f"InternalServerError: evaluators die of it; see {self._rules.log}")
            if not case.is_over:
                try:
                    ready = make_ready(self._job, rule, number, with_custom=with_customs)
                    self._actions.arm(case.key, rule)
                except ValueError as error:
                    case.failed(f"ClientError: {error}")
            self._ready.append(ready)

    def _wants_figures(self) -> bool:
        rules = [ready for ready in self._ready if isinstance(ready, BuiltInRule)]
        return not all(isinstance(rule, TensorRule) for rule in rules)

    # Built-in rules

    def _check_feed(self, feed: feeds.Feed) -> None:
        evidence = feed.evidence
        if feed is self._tensors and evidence.is_all and not evidence.trial.tensor_names():
            return self._conclude(feed)
        for case, rule in self._rules_of(feed):
            self._current_rule.take(case.key)
            try:
                found = list(rule.check(evidence))
                missing = self._missing(case, rule, evidence)
                if evidence.is_all:
                    self._leave_files(case, rule, evidence)
            except Exception as error:
                if feed.is_gone:
                    break  # removed while we read it; storage has it
                logger.exception("rule %s", case.configuration)
                case.failed(f"InternalServerError: {trace_end(error)}")
                continue
            steps = getattr(evidence, "steps", ())
            case.checked(steps[-1] if steps else None)
            self._file(case, found)
            if evidence.is_all:
                case.conclude(was_stopped=self._job.was_stopped, missing=missing)
            else:
                case.note(missing)
        self._current_rule.put_down()

    def _check_start(self) -> None:
        """Before the job has saved a tensor: whether it will ever do so."""
        place, now = self._job.trial(), time.monotonic()
        if place is None or now - self._start_checked < START_SECONDS:
            return
        self._start_checked = now
        for case, rule in self._rules_of(self._tensors):
            if isinstance(rule, TensorRule):
                try:
                    self._file(case, list(rule.check_before_start(place)))
                except (TracksideError, OSError) as error:
                    logger.info("the start of the job cannot be judged now: %s", error)

    def _missing(self, case: Case, rule: BuiltInRule[Any], evidence: Any) -> str:
        """Called until the rule has the data it needs: from then on it will have it."""
        if case.key in self._provided:
            return ""
        missing = rule.missing(evidence)
        if not missing:
            self._provided.add(case.key)
        return missing

    def _leave_files(self, case: Case, rule: BuiltInRule[Any], evidence: Any) -> None:
        """Write reports, for rules that produce them."""
        for name, content in rule.files(evidence).items():
            path = self._rules.output(self._job.output_names[case.key]) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            durable.write_bytes(path, content)

    def _follow_losses(self, is_last: bool, pace: feeds.Pace) -> None:
        """While the hook has saved nothing: what the script logs may be all there is."""
        judges = [
            case.key
            for case, rule in self._rules_of(self._tensors)
            if isinstance(rule, TensorRule) and rule.judges_losses()
        ]
        waits = judges and not self._has_tensors()
        if not waits and not self._by_curves:
            return
        began = time.process_time()
        self._follow(self._losses, is_last=is_last)
        self._losses.rest_after(time.process_time() - began, pace)
        curves = self._losses.evidence
        if waits and curves is not None and curves.has_been_there(TENSORS_COME_SECONDS):
            self._by_curves.update(judges)
            curves.is_wanted = True

    def _has_tensors(self) -> bool:
        evidence = self._tensors.evidence
        return evidence is not None and bool(evidence.trial.tensor_names())

    def _conclude(self, feed: feeds.Feed) -> None:
        """No data was saved. Loss rules use what the script has logged."""
        for case, rule in self._rules_of(feed):
            if feed is self._tensors and self._can_judge_curves(rule):
                self._by_curves.add(case.key)
            else:
                self._end_without_data(case, feed)

    def _can_judge_curves(self, rule: BuiltInRule[Any]) -> bool:
        """Called when the job is over: everything it logged is stored."""
        if not isinstance(rule, TensorRule) or not rule.judges_losses():
            return False
        if self._losses.evidence is None:
            self._losses.advance(at_once=True)
        curves = self._losses.evidence
        if curves is None or curves.seen_at is None:
            return False
        curves.is_wanted = True
        return True

    def _end_without_data(self, case: Case, feed: feeds.Feed) -> None:
        stopped = self._job.was_stopped
        case.conclude(was_stopped=stopped, missing=feed.nothing, has_data=False)

    def _fail(self, feed: feeds.Feed, details: str) -> None:
        for case, _ in self._rules_of(feed):
            case.failed(details)

    def _rules_of(self, feed: feeds.Feed) -> list[tuple[Case, BuiltInRule[Any]]]:
        """The built-in rules that read this feed and have not ended."""
        return [
            (case, ready)
            for case, ready in self._open_cases()
            if isinstance(ready, BuiltInRule) and self._feed_of(case, ready) is feed
        ]

    def _feed_of(self, case: Case, rule: BuiltInRule[Any]) -> feeds.Feed:
        if case.key in self._by_curves:
            return self._losses
        return self._tensors if isinstance(rule, TensorRule) else self._figures

    # Custom rules

    def _follow_customs(self, is_last: bool) -> None:
        for case, ready in self._open_cases():
            if not is_custom(ready):
                continue
            self._file(case, ready.findings(is_last=is_last))
            case.checked(ready.last_step)
            if self._tensors.is_gone:
                return  # perhaps only due to the removal; evaluated again from storage
            if ready.failure:
                case.failed(ready.failure)
            elif ready.is_over and ready.has_data:
                case.conclude(was_stopped=self._job.was_stopped)
            elif ready.is_over:
                self._end_without_data(case, self._tensors)

    def _customs(self) -> "list[CustomRule]":
        return [ready for ready in self._ready if is_custom(ready)]

    # Results

    def _open_cases(self) -> list[tuple[Case, Ready | None]]:
        both = zip(self._cases, self._ready, strict=True)
        return [(case, ready) for case, ready in both if not case.is_over]

    def _file(self, case: Case, found: Iterable[Finding]) -> None:
        """On disk first, then in the status, then acted upon: an evaluator that takes over may
        repeat any of these, and none is lost.
        """
        is_profiler, name = case.key
        findings = [
            replace(
                each,
                configuration=name,
                is_profiler=is_profiler,
                line=self._lines.of(each.rule),
                time=each.time or time.time(),
            )
            for each in found
        ]
        if not findings:
            return
        for finding in self._findings.add(findings):
            logger.info("%s: %s", name, finding.message)
        case.found(self._findings.of(case.key)[0], self._findings.count(case.key))
        self._actions.take(findings[0])
        self._notices.found(findings)

    def _write(self) -> None:
        now: Sequence[Evaluation] = [case.evaluation for case in self._cases]
        if now == self._written:
            return
        is_due = time.monotonic() - self._written_at >= PROGRESS_SECONDS
        if is_due or _without_times(now) != _without_times(self._written):
            write_evaluations(self._rules.statuses, now)
            self._written, self._written_at = list(now), time.monotonic()

    def _wait(self) -> None:
        if all(case.is_over for case in self._cases):
            return
        self._pause = PAUSE_SECONDS if self._must_hurry() else self._next_pause()
        # Until one of them has output, somebody wakes this process, or the time is up.
        wakers: list[CustomRule | int] = [each for each in self._customs() if not each.is_over]
        if self._wake is not None:
            wakers.append(self._wake.descriptor)
        select.select(wakers, [], [], self._pause)
        if self._wake is not None:
            self._wake.take()

    def _must_hurry(self) -> bool:
        """Whether something waits for the rules: an action, a rule's own process, or the end."""
        state = self._job.history.state
        is_ending = state.status is not Status.IN_PROGRESS or state.secondary is Secondary.UPLOADING
        return self._wake is None or is_ending or self._actions.is_waiting or bool(self._customs())

    def _next_pause(self) -> float:
        open_feeds = (self._tensors, self._figures, self._losses)
        due = min((feed.due_seconds for feed in open_feeds if feed.evidence is not None), default=0)
        return pause_after(self._pause, has_news=self._has_news, due_seconds=due)


def pause_after(last_seconds: float, *, has_news: bool, due_seconds: float) -> float:
    """Seconds until the next look, where nothing waits for it: short after something new, then
    twice as long each time, and not before a look would read anything."""
    pause = PAUSE_SECONDS if has_news else 2 * last_seconds
    return min(max(pause, due_seconds, PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)


def _without_times(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Everything but the progress of each."""
    return [replace(each, last_step=None) for each in evaluations]
