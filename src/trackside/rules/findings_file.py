"""`findings.jsonl`: what was found, on disk before anybody acts on it, each discovery once."""

import errno
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trackside import durable
from trackside.finding import Finding, RuleKey, read_findings

MOST_FILED = 100
"""Findings of one configured rule; more are only counted."""


class FindingsFile:
    """An evaluator that takes over finds again what its predecessor had found: it is not filed
    twice. One process writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.all = read_findings(path)
        self._seen: set[tuple[Any, ...]] = {finding.identity for finding in self.all}
        self._filed = Counter(finding.key for finding in self.all)
        self._counted = Counter(self._filed)

    def add(self, findings: Iterable[Finding]) -> list[Finding]:
        """File those that are news, durably, with one wait for the disk; returns them."""
        news = {each.identity: each for each in findings if each.identity not in self._seen}
        filed = []
        filed_of = Counter(self._filed)
        for finding in news.values():
            if filed_of[finding.key] < MOST_FILED:
                filed_of[finding.key] += 1
                filed.append(finding)
        if filed:
            self._append(b"".join(finding.to_line() for finding in filed))
        self._filed = filed_of
        self.all += filed
        self._seen |= news.keys()
        self._counted.update(finding.key for finding in news.values())
        return [*news.values()]

    def of(self, rule: RuleKey) -> list[Finding]:
        return [finding for finding in self.all if finding.key == rule]

    def count(self, rule: RuleKey) -> int:
        """All of this rule, filed or not."""
        return self._counted[rule]

    def _append(self, lines: bytes) -> None:
        durable.giving_up_ballast(self._path, lambda: append_lines(self._path, lines))


def append_lines(path: Path, lines: bytes) -> None:
    """Synced, or not there at all: a line torn by a crash is cut off first."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            size = os.pread(descriptor, size, 0).rfind(b"\n") + 1
            os.ftruncate(descriptor, size)
        try:
            if os.write(descriptor, lines) != len(lines):  # the disk filled up in the middle
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)
