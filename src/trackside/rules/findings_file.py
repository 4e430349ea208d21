"""`findings.jsonl`: what was found, on disk before anybody acts on it, each discovery once."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

from trackside import durable
from trackside.finding import Finding, read_findings

MOST_FILED = 100
"""Findings of one configured rule; more are only counted."""


class FindingsFile:
    """An evaluator that takes over finds again what its predecessor had found: it is not filed
    twice. One process writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.all = read_findings(path)
        self._seen: set[tuple[Any, ...]] = {finding.identity for finding in self.all}
        self._filed = Counter(finding.configuration for finding in self.all)
        self._counted = Counter(self._filed)

    def add(self, finding: Finding) -> bool:
        """File it, durably; whether it is news."""
        if finding.identity in self._seen:
            return False
        if self._filed[finding.configuration] < MOST_FILED:
            self._append(finding.to_line())
            self._filed[finding.configuration] += 1
            self.all.append(finding)
        self._seen.add(finding.identity)
        self._counted[finding.configuration] += 1
        return True

    def of(self, configuration: str) -> list[Finding]:
        return [finding for finding in self.all if finding.configuration == configuration]

    def count(self, configuration: str) -> int:
        """All of this rule, filed or not."""
        return self._counted[configuration]

    def _append(self, line: bytes) -> None:
        durable.giving_up_ballast(self._path, lambda: append_line(self._path, line))


def append_line(path: Path, line: bytes) -> None:
    """Whole and synced, or not there at all: a line torn by a crash is cut off first."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            size = os.pread(descriptor, size, 0).rfind(b"\n") + 1
            os.ftruncate(descriptor, size)
        try:
            if os.write(descriptor, line) != len(line):
                raise OSError(28, os.strerror(28), str(path))
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)
