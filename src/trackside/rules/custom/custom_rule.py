"""A custom rule in its own process: starts it, reads its output and ends it if necessary.

`process.py` is the other end, `guard.py` the process in between that enforces the limits. A rule
that raises, hangs or uses too much memory affects nothing else; its output is untrusted.
"""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from trackside.records.evaluator_process import rule_name
from trackside.records.finding import Finding
from trackside.records.spec import RuleConfiguration
from trackside.rules.custom import confinement, limits, rule_source
from trackside.rules.custom.rule_messages import (
    LINE_BYTES,
    Begins,
    Checked,
    Failed,
    InvalidMessage,
    Over,
    Word,
    parse,
)
from trackside.rules.custom.trial_server import ServedTrial, TrialServer
from trackside.rules.parameters import other_trials
from trackside.rules.watched_job import WatchedJob
from trackside.settings import environment
from trackside.storage.locate import Location, locate, locate_object
from trackside.system import control_group, processes

_READ_BYTES = 1 << 16
_READS = 16
"""Reads per turn: a rule that writes more waits, so that other rules get their turn."""
_TAIL_BYTES = 700
_END_SECONDS = 15.0
"""How long the guard may take to end all processes."""

_NOT_STARTED = (
    "ClientError: the rule was not started, for it cannot be confined here. Where every rule may "
    "do what the user of Trackside may, set TRACKSIDE_ISOLATION=none for Trackside."
)


class CustomRule:
    """Call `findings` first: `last_step`, `failure` and `is_over` are as of that call."""

    def __init__(self, job: WatchedJob, rule: RuleConfiguration, number: int) -> None:
        self.last_step: int | None = None
        self.failure = ""
        self.is_over = False
        self.has_data = False
        self._limit_seconds = job.settings.rule_step_seconds
        self._heard_at = time.monotonic()
        self._begun_at: float | None = self._heard_at
        self._at = "while it was loaded"
        self._silent_seconds = self._limit_seconds + job.settings.upload_deadline_seconds
        self._unread = b""
        self._was_notified = False
        self._is_closed = False
        self._folder = job.folder.rules.custom(number, rule.name)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._mark = f"{os.urandom(16).hex()}.rule"
        digest = hashlib.sha256(os.fsencode(self._folder)).hexdigest()
        self._group = f"trackside-rule-{digest[:24]}"
        self._memory_bytes = int(job.settings.rule_memory_gb * (1 << 30))
        self._num_processes = job.settings.rule_processes
        self._trials = _served(job, rule)
        try:
            self._process = self._start(job, rule)
        except BaseException:
            self._trials.close()
            raise

    def fileno(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def findings(self, *, is_last: bool) -> list[Finding]:
        """Findings since the last call. `is_last`: the job has ended."""
        if is_last and not self._was_notified:
            self._was_notified = True
            self._send(b"over\n")
            self._heard_at = time.monotonic()
        found = self._listen()
        now = time.monotonic()
        if self._begun_at is not None and now - self._begun_at > self._limit_seconds:
            self._fail(
                f"ClientError: the rule took longer than {self._limit_seconds:g} s {self._at} and "
                "was ended. Make it faster, or raise TRACKSIDE_RULE_STEP_SECONDS."
            )
        elif self._was_notified and now - self._heard_at > self._silent_seconds:
            self._fail(
                f"ClientError: the rule said nothing for {self._silent_seconds:g} s though the job "
                "was over, and was ended."
            )
        return found

    def close(self) -> None:
        """End the rule and every process it started. A second call does nothing."""
        self.is_over = True
        if not self._is_closed:
            self._is_closed = True
            self._trials.close()
            self._end_guard()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue

    def _end_guard(self) -> None:
        """The guard ends all other processes; if it is killed, they end with it."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        if code == -signal.SIGKILL:
            processes.sweep(self._mark)
            control_group.clear(self._group)

    def _start(self, job: WatchedJob, rule: RuleConfiguration) -> subprocess.Popen[bytes]:
        place = job.trial()
        start = {
            "rule": rule_name(rule),
            "source": rule.parameters.get(rule_source.SOURCE),
            "parameters": dict(rule.parameters),
            "trial": None if place is None else place.uri,
            "memory_bytes": self._memory_bytes,
            "num_processes": self._num_processes,
        }
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "trackside.rules.custom.guard"]
                + [self._plan(job, rule).to_text()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                env=confinement.variables(environment(), self._mark),
                pass_fds=[self._trials.far.fileno()],
                start_new_session=True,
                bufsize=0,
            )
        self._trials.start()
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._process = process
        self._send(json.dumps(start).encode() + b"\n")
        return process

    def _plan(self, job: WatchedJob, rule: RuleConfiguration) -> confinement.Plan:
        hidden = os.path.realpath(job.settings.home)
        more = job.settings.rule_folders.split(":")
        if not rule_source.is_custom(rule.parameters):
            module = rule_source.installed()[rule_name(rule)].module
            more.append(confinement.package_folder(module) or "")
        return confinement.Plan(
            kinds=confinement.kinds(
                job.settings.isolation,
                is_root=os.geteuid() == 0,
                is_stranger=job.is_stranger,
            ),
            user=confinement.FIRST_USER + random.randrange(confinement.NUM_USERS),
            views=confinement.views(environment(), more, hidden),
            python=confinement.python_folders(hidden),
            hidden=hidden,
            work_folder=os.path.join(tempfile.gettempdir(), f"trackside-rule-{self._mark}"),
            mark=self._mark,
            group=self._group,
            memory_bytes=self._memory_bytes,
            num_processes=self._num_processes,
            line=self._trials.far.fileno(),
        )

    def _send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
        except BrokenPipeError:
            return  # it has ended; its last output says why

    def _listen(self) -> list[Finding]:
        found: list[Finding] = []
        for _ in range(_READS):
            if self.is_over:
                break
            try:
                data = os.read(self.fileno(), _READ_BYTES)
            except BlockingIOError:
                break
            if not data:
                self._ended()
                break
            self._heard_at = time.monotonic()
            *lines, self._unread = (self._unread + data).split(b"\n")
            try:
                if len(self._unread) > LINE_BYTES:
                    raise InvalidMessage(f"a line of more than {LINE_BYTES} bytes")
                for word in map(parse, lines):
                    self._take_in(word, found)
            except InvalidMessage as error:
                self._fail(f"ClientError: the rule's process says what none of them would: {error}")
        return found

    def _take_in(self, said: Word, found: list[Finding]) -> None:
        match said:
            case Begins(step):
                self._begun_at = time.monotonic()
                self._at = "while it was made" if step is None else f"at step {step}"
                self.has_data = True
            case Checked(step):
                self._begun_at = None
                self.last_step = self.last_step if step is None else step
            case Finding():
                found.append(said)
            case Failed(text):
                self._fail(text)
            case Over():
                self.close()

    def _ended(self) -> None:
        """The guard ended without a last message."""
        with suppress(subprocess.TimeoutExpired):  # the guard is about to report why
            self._process.wait(_END_SECONDS)
        self.close()
        match code := self._process.returncode:
            case confinement.MEMORY:
                self._fail(limits.memory_message(self._memory_bytes))
            case confinement.PROCESSES:
                self._fail(limits.processes_message(self._num_processes))
            case confinement.NOT_STARTED:
                self._fail(f"{_NOT_STARTED}\n{self._log_tail()}")
            case _:
                how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
                tail = self._log_tail()
                self._fail(f"ClientError: the rule's process ended by {how}.\n{tail}".strip())

    def _log_tail(self) -> str:
        try:
            data = (self._folder / "log").read_bytes()
        except OSError:
            return ""
        return data[-_TAIL_BYTES:].decode(errors="replace").strip()

    def _fail(self, text: str) -> None:
        self.failure = self.failure or text
        self.close()


def _served(job: WatchedJob, rule: RuleConfiguration) -> TrialServer:
    """The job's own trial, those it is compared with, and the rule's source."""
    home = job.settings.home

    def own() -> ServedTrial:
        place = job.trial()
        assert place is not None
        is_inside = place.local is not None and place.local.is_relative_to(job.folder.root)
        return ServedTrial(place, job.folder.root if is_inside else None)

    def other(uri: str) -> ServedTrial:
        return ServedTrial(locate(uri, home=home))

    finders: list[Callable[[], ServedTrial]] = [own]
    finders += [partial(other, uri) for uri in other_trials(rule.parameters)]
    uri = rule.parameters.get(rule_source.SOURCE)
    source: Callable[[], Location] | None = None
    if uri:
        source = partial(locate_object, uri, home=home)
    return TrialServer(finders, source)
