"""The process that evaluates a job's rules: how it is started, recognized, and given up.

Supervisors start it while the job runs, `jobs` if it was lost after the end. `rules` implements it;
these three share only this module and the job's folder.
"""

import math
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from trackside.files import damaged_files, durable
from trackside.files.json_record import Moment, numbered
from trackside.files.permissions import make_folder
from trackside.quick_dataclass import dataclass
from trackside.records.layout import JobFolder, RulesFolder
from trackside.records.rule_status import (
    Evaluation,
    RuleStatus,
    read_evaluations,
    write_evaluations,
)
from trackside.records.spec import JobSpec, RuleConfiguration
from trackside.system import process_table, processes

MAX_STARTS = 6
"""How often one that keeps dying is started before its rules end in `Error`."""
STARTING_SECONDS = 5.0
"""Time in which a process that starts one has recorded its identity."""
STABLE_SECONDS = 600.0
"""One that lived this long gets its full number of starts again."""
BEAT_SECONDS = 2.0
"""Interval of an evaluator's heartbeat."""
FROZEN_CHECKS = 20
"""So many checks, a second apart, of one without a heartbeat. Checks and not seconds: a machine
that was suspended has frozen the checking process, too."""


@dataclass(frozen=True, slots=True)
class Intent:
    """`placed.json`: an evaluator is to be started, or was."""

    nonce: str
    starts: int
    time: Moment
    """Seconds since the epoch."""
    process: processes.Identity | None = None
    """The one that was started; it writes its own record only when it has loaded everything."""


def has_rules(spec: JobSpec) -> bool:
    return bool(spec.debug_rules or spec.profiler_rules)


def is_wanted(spec: JobSpec) -> bool:
    """Also for a job without rules that has notifications."""
    return has_rules(spec) or bool(spec.options.notify)


def rule_name(rule: RuleConfiguration) -> str:
    """What the configuration invokes."""
    return rule.parameters.get("rule_to_invoke") or rule.name


def first_evaluations(spec: JobSpec, now: float) -> list[Evaluation]:
    """As of the job's creation: every rule in progress, in the order of the request."""
    return [
        Evaluation(configuration=r.name, rule=rule_name(r), is_profiler=is_profiler, modified=now)
        for is_profiler, rules in ((False, spec.debug_rules), (True, spec.profiler_rules))
        for r in rules
    ]


def all_evaluations(spec: JobSpec, known: Sequence[Evaluation], now: float) -> list[Evaluation]:
    """Also of rules that were added later, and that no evaluator has started."""
    by_key = {each.key: each for each in known}
    return [by_key.get(first.key, first) for first in first_evaluations(spec, now)]


def command(folder: JobFolder, nonce: str) -> list[str]:
    return [sys.executable, "-P", "-m", "trackside.rules", str(folder.root), nonce]


def write_myself(rules: RulesFolder, nonce: str) -> None:
    """This process is the job's evaluator now."""
    durable.write_json(rules.evaluator, {**numbered(processes.myself()), "nonce": nonce})


def is_alive(rules: RulesFolder) -> bool:
    """According to its own record."""
    identity = damaged_files.read(processes.Identity, rules.evaluator)
    return identity is not None and processes.is_alive(identity)


def beat(rules: RulesFolder) -> None:
    """The evaluator's heartbeat."""
    with suppress(FileNotFoundError):
        os.utime(rules.evaluator)


class Pulse:
    """Whether the evaluator of one job is frozen: alive, but without a heartbeat for long."""

    def __init__(self) -> None:
        self._beat: int | None = None
        self._num_checks = 0
        self._looked_at = -math.inf

    def is_frozen(self, rules: RulesFolder) -> bool:
        """Call it about once a second; calling it more often is fine."""
        now = time.monotonic()
        if now - self._looked_at < 1.0:
            return False
        self._looked_at = now
        try:
            beat = os.stat(rules.evaluator).st_mtime_ns
        except FileNotFoundError:
            beat = None
        self._num_checks = self._num_checks + 1 if beat is not None and beat == self._beat else 0
        self._beat = beat
        return self._num_checks >= FROZEN_CHECKS


def kill(rules: RulesFolder) -> None:
    """End a frozen one: its watchdog then starts another."""
    identity = damaged_files.read(processes.Identity, rules.evaluator)
    if identity is not None:
        processes.send_signal(identity, signal.SIGKILL)


def wake(rules: RulesFolder) -> None:
    """Have it look at the job now; one that cannot be reached does a little later."""
    identity = damaged_files.read(processes.Identity, rules.evaluator)
    if identity is not None:
        processes.send_signal(identity, process_table.WAKE_SIGNAL)


def may_live(rules: RulesFolder) -> bool:
    """Whether it lives, was started without a record yet, or is being started."""
    if is_alive(rules):
        return True
    intent = damaged_files.read(Intent, rules.placed)
    if intent is None:
        return False
    if intent.process is not None:
        return processes.is_alive(intent.process)
    return 0 <= time.time() - intent.time < STARTING_SECONDS


def has_judged(rules: RulesFolder, spec: JobSpec) -> bool:
    """Whether no more of the job's data will be read."""
    evaluations = all_evaluations(spec, read_evaluations(rules.statuses), 0.0)
    return all(each.is_over for each in evaluations)


def is_published(rules: RulesFolder, spec: JobSpec) -> bool:
    """Whether all rules have ended, and their results are stored."""
    is_published = rules.published.exists() or not rules.evaluator.exists()
    return has_judged(rules, spec) and is_published


def is_done(rules: RulesFolder, spec: JobSpec) -> bool:
    """Whether users have been notified, too: finally an evaluator removes its record."""
    is_published = not spec.options.notify or rules.notified.exists()
    return has_judged(rules, spec) and not rules.evaluator.exists() and is_published


def intend(rules: RulesFolder) -> str | None:
    """Note that one is about to be started: its nonce, or None when too many have died."""
    make_folder(rules.root)
    last = damaged_files.read(Intent, rules.placed) or Intent("", 0, time.time())
    starts = 0 if time.time() - last.time > STABLE_SECONDS else last.starts
    if starts >= MAX_STARTS:
        return None
    intent = Intent(os.urandom(16).hex(), starts + 1, time.time())
    durable.write_record(rules.placed, intent)
    return intent.nonce


def note_started(rules: RulesFolder, pid: int) -> None:
    """Record that the intent has become this process; does nothing if it has ended already."""
    identity = processes.identify(pid)
    intent = damaged_files.read(Intent, rules.placed)
    if identity is not None and intent is not None:
        durable.write_record(rules.placed, replace(intent, process=identity))


def give_up(rules: RulesFolder, spec: JobSpec) -> None:
    """End every rule without a verdict: there will be none."""
    details = f"InternalServerError: the evaluator died {MAX_STARTS} times; its log is {rules.log}"
    now = time.time()
    known = all_evaluations(spec, read_evaluations(rules.statuses), now)
    ended = [each if each.is_over else _given_up(each, details, now) for each in known]
    write_evaluations(rules.statuses, ended)
    rules.notified.touch()
    rules.evaluator.unlink(missing_ok=True)


def _given_up(evaluation: Evaluation, details: str, now: float) -> Evaluation:
    if evaluation.status is RuleStatus.ISSUES_FOUND:
        return replace(evaluation, is_over=True)
    status = RuleStatus.ERROR
    return replace(evaluation, status=status, details=details, is_over=True, modified=now)
