"""A rule of the user's, in a process of its own: started, listened to, and ended if it must be.

`process.py` is the other side. What the rule does there, raising, hanging or eating memory,
reaches nobody else.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from trackside import processes
from trackside.finding import Finding
from trackside.rule_evaluator import rule_name
from trackside.rules.custom.rule_source import SOURCE
from trackside.rules.watched_job import WatchedJob
from trackside.settings import environment
from trackside.spec import RuleConfiguration

_READ_BYTES = 1 << 16
_TAIL_BYTES = 700


class CustomRule:
    """`findings` first; then `last_step`, `failure` and `is_over` are as of that call."""

    def __init__(self, job: WatchedJob, rule: RuleConfiguration, number: int) -> None:
        self.last_step: int | None = None
        self.failure = ""
        self.is_over = False
        self.has_data = False
        self._limit_seconds = job.settings.rule_step_seconds
        self._begun_at: float | None = time.monotonic()
        self._at = "while it was loaded"
        self._unread = b""
        self._was_told = False
        self._folder = job.folder.rules.custom(number, rule.name)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._mark = f"{os.urandom(16).hex()}.rule"
        self._process = self._start(job, rule)

    def fileno(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def findings(self, *, is_last: bool) -> list[Finding]:
        """What it has found since the last call. `is_last`: the job has ended."""
        if is_last and not self._was_told:
            self._was_told = True
            self._tell(b"over\n")
        found = [Finding.from_line(line) for line in self._listen()]
        begun = self._begun_at
        if begun is not None and time.monotonic() - begun > self._limit_seconds:
            self._fail(
                f"ClientError: the rule took longer than {self._limit_seconds:g} s {self._at} and "
                "was ended. Make it faster, or raise TRACKSIDE_RULE_STEP_SECONDS."
            )
        return found

    def close(self) -> None:
        """End it and all that it has started. Again: nothing."""
        self.is_over = True
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            processes.sweep(self._mark)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue

    def _start(self, job: WatchedJob, rule: RuleConfiguration) -> subprocess.Popen[bytes]:
        place = job.trial()
        plan = {
            "rule": rule_name(rule),
            "source": rule.parameters.get(SOURCE),
            "parameters": dict(rule.parameters),
            "trial": None if place is None else place.uri,
            "folder": str(self._folder),
            "home": str(job.settings.home),
            "memory_bytes": int(job.settings.rule_memory_gb * (1 << 30)),
        }
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "trackside.rules.custom.process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._folder,
                env={**environment(), processes.NONCE_VARIABLE: self._mark},
                start_new_session=True,
                bufsize=0,
            )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._process = process
        self._tell(json.dumps(plan).encode() + b"\n")
        return process

    def _tell(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
        except BrokenPipeError:
            return  # it has ended; what it said last tells why

    def _listen(self) -> list[bytes]:
        found: list[bytes] = []
        while not self.is_over:
            try:
                data = os.read(self.fileno(), _READ_BYTES)
            except BlockingIOError:
                break
            if not data:
                self._ended()
                break
            *lines, self._unread = (self._unread + data).split(b"\n")
            for line in lines:
                self._take_in(json.loads(line), found)
        return found

    def _take_in(self, said: dict[str, Any], found: list[bytes]) -> None:
        match said["kind"]:
            case "begins":
                self._begun_at = time.monotonic()
                step = said["step"]
                self._at = "while it was made" if step is None else f"at step {step}"
                self.has_data = True
            case "looked":
                self._begun_at = None
                self.last_step = self.last_step if said["step"] is None else said["step"]
            case "finding":
                found.append(said["line"].encode())
            case "failure":
                self._fail(said["text"])
            case "over":
                self.is_over = True
                self.close()

    def _ended(self) -> None:
        """Without a last word."""
        code = self._process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        try:
            tail = (self._folder / "log").read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
        except OSError:
            tail = ""
        self._fail(f"ClientError: the rule's process ended by {how}.\n{tail.strip()}".strip())

    def _fail(self, text: str) -> None:
        self.failure = self.failure or text
        self.is_over = True
        self.close()


def wait_for_any(rules: Sequence[CustomRule], seconds: float) -> None:
    """Until one of them has something to say, or the time is up."""
    alive = [rule for rule in rules if not rule.is_over]
    if alive:
        select.select(alive, [], [], seconds)
    else:
        time.sleep(seconds)
