"""`findings.jsonl`: what was found, on disk before anybody acts on it, each discovery once."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trackside.files import durable
from trackside.records.finding import Finding, RuleKey, read_findings

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
        durable.giving_up_ballast(self._path, lambda: durable.append_lines(self._path, lines))
