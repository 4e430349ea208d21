"""New results of a job's rules since the last poll: findings, and statuses that changed.

Read from the job's folder while there is one, else from storage; written by the job's evaluator.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from trackside.errors import ObjectNotFound, StoreUnreachable
from trackside.jobs.records import Record
from trackside.records import evaluator_process
from trackside.records.finding import Finding, RuleKey, parse_findings
from trackside.records.layout import Home
from trackside.records.rule_status import Evaluation, parse_evaluations
from trackside.storage.locate import locate_object_to_read

AFTER_END_SECONDS = 120.0
"""How long a wait for a job also waits for rules that still read its data."""
_START_SECONDS = 10.0
"""Time within which an evaluator is started, if at all."""
_HOLD_SECONDS = 0.5
"""How long findings are held back while more are being written."""

Findings = tuple[Finding, ...]
"""Findings made at about the same time."""


class RuleUpdates:
    """Each call of `new` continues where the last stopped."""

    def __init__(self, record: Record, home: Home) -> None:
        self._record = record
        self._home = home
        self._has_rules = evaluator_process.has_rules(record.spec)
        rules = record.folder.rules if record.folder else None
        # Looked at twenty times a second: as text, which costs a third of what paths do.
        self._findings = str(rules.findings) if rules else ""
        self._status_file = str(rules.statuses) if rules else ""
        self._offset = 0
        self._size = 0
        self._grows_since: float | None = None
        self._reported: dict[RuleKey, Evaluation] = {}
        self._version: tuple[int, int] | None = None
        self._ended_at: float | None = None

    def new(self, *, at_rest: bool = False) -> Iterator[Findings | Evaluation]:
        """Findings in the order they were written, then each rule whose status has changed.

        `at_rest`: nothing while findings are being written, so that those of one step come
        together.
        """
        if not self._has_rules or (at_rest and self._is_growing()):
            return
        # Findings are written before the resulting status, so they are read after it.
        statuses = self._statuses()
        lines = self._new_lines()
        if not statuses and not lines:
            return
        job = self._record.spec.name
        if found := tuple(parse_findings(lines, f"the findings of job {job}")):
            yield found
        for evaluation in parse_evaluations(statuses or b"[]", f"the rules' statuses of job {job}"):
            known = self._reported.get(evaluation.key)
            self._reported[evaluation.key] = evaluation
            if known is None or known.status is not evaluation.status:
                yield evaluation

    def is_over(self) -> bool:
        """Whether to stop waiting after the job's end: everything is judged and stored, no
        evaluator runs, or it takes too long.
        """
        folder = self._record.folder
        if not self._has_rules or folder is None:
            return True
        if evaluator_process.is_published(folder.rules, self._record.spec):
            return True
        now = time.monotonic()
        self._ended_at = self._ended_at or now
        waited = now - self._ended_at
        if evaluator_process.may_live(folder.rules):
            return waited > AFTER_END_SECONDS
        return waited > _START_SECONDS or not folder.rules.root.exists()

    @property
    def is_held_back(self) -> bool:
        return self._grows_since is not None

    def _is_growing(self) -> bool:
        """Since the last call; true only briefly, however long it grows."""
        if self._record.folder is None:
            return False
        size = _size(self._findings)
        if size == self._size:
            self._grows_since = None
            return False
        now = time.monotonic()
        self._size, self._grows_since = size, self._grows_since or now
        if now - self._grows_since < _HOLD_SECONDS:
            return True
        self._grows_since = None
        return False

    def _new_lines(self) -> bytes:
        if self._record.folder is None:
            data = self._stored("findings.jsonl")[self._offset :]
        else:
            data = _read_from(self._findings, self._offset)
        whole = data[: data.rfind(b"\n") + 1]  # the last line may still be being written
        self._offset += len(whole)
        return whole

    def _statuses(self) -> bytes:
        """Empty if unchanged."""
        if self._record.folder is None:
            return self._stored("statuses.json")
        try:
            status = os.stat(self._status_file)
            version = (status.st_ino, status.st_mtime_ns)
            if version == self._version:
                return b""
            self._version = version
            return Path(self._status_file).read_bytes()
        except FileNotFoundError:
            return b""

    def _stored(self, file: str) -> bytes:
        location = locate_object_to_read(f"{self._record.keys.rules}/{file}", home=self._home.root)
        try:
            return location.store.get(location.key)
        except (ObjectNotFound, StoreUnreachable):  # read again in a moment
            return b""


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _read_from(path: str, offset: int) -> bytes:
    if _size(path) <= offset:
        return b""
    with Path(path).open("rb") as file:
        file.seek(offset)
        return file.read()
