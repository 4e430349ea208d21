"""Which rule is being evaluated, on disk: should the evaluator die of it, its successor knows.

A rule that hangs, crashes the interpreter or takes all memory would otherwise end all others.
"""

import os
from collections import Counter
from pathlib import Path

from trackside.files import damaged_files, durable
from trackside.records.finding import RuleKey

MOST_DEATHS = 2
"""Once may be chance: somebody killed the evaluator, and this rule had its turn."""


class CurrentRule:
    """Two files: the name, written often and never synced; and how often somebody died of each."""

    def __init__(self, now: Path, deaths: Path) -> None:
        self._descriptor = os.open(now, os.O_RDWR | os.O_CREAT, 0o644)
        counts = damaged_files.read_object(deaths) or {}
        self.deaths = Counter({k: n for k, n in counts.items() if type(n) is int and 0 < n < 1000})
        """By rule: evaluators that died with it in hand."""
        name = os.pread(self._descriptor, 4096, 0).decode(errors="replace")
        if name:
            self.deaths[name] += 1
            durable.write_json(deaths, self.deaths)
        self.put_down()

    def take(self, rule: RuleKey) -> None:
        """This rule's turn."""
        self._write(_name(rule))

    def put_down(self) -> None:
        """Nobody's turn."""
        self._write("")

    def is_deadly(self, rule: RuleKey) -> bool:
        return self.deaths[_name(rule)] >= MOST_DEATHS

    def close(self) -> None:
        os.close(self._descriptor)

    def _write(self, name: str) -> None:
        data = name.encode()
        os.pwrite(self._descriptor, data, 0)
        os.ftruncate(self._descriptor, len(data))


def _name(rule: RuleKey) -> str:
    is_profiler, configuration = rule
    return f"{'profiler' if is_profiler else 'debug'} rule {configuration}"
