"""`actions.jsonl`: one line before an action is taken, and one with its result.

An evaluator that takes over reads from it which actions were taken, and which may have been.
"""

import json
import time
from pathlib import Path
from typing import Any

from trackside.files import damaged_files, durable
from trackside.files.json_record import DamagedRecord, parsed_object, record
from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding, RuleKey

ActionKey = tuple[RuleKey, str]
"""A configured rule, and the key of one of its actions."""


@dataclass(frozen=True, slots=True)
class Taken:
    """An action of one rule, as recorded."""

    finding: Finding
    """The finding that triggered it."""
    is_settled: bool = False


class ActionLog:
    """Not thread-safe for one action; two threads may write about two."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.taken: dict[ActionKey, Taken] = {}
        self._read()

    def intend(self, key: ActionKey, finding: Finding) -> None:
        record = json.loads(finding.to_line())
        self._append(key, state="intended", finding=record)

    def settle(self, key: ActionKey, problem: str, details: str) -> None:
        self._append(key, state="failed" if problem else "done", details=problem or details)

    def _append(self, key: ActionKey, **what: Any) -> None:
        (is_profiler, configuration), action = key
        line = {"configuration": configuration, "action": action, "time": time.time(), **what}
        if is_profiler:
            line["is_profiler"] = True
        data = json.dumps(line).encode() + b"\n"
        durable.giving_up_ballast(self._path, lambda: durable.append_lines(self._path, data))
        self._enter(line)

    def _read(self) -> None:
        """Read what an earlier evaluator wrote. A damaged line is skipped: its action may be
        repeated, which is better than losing it.
        """
        num_damaged = 0
        for line in _lines(self._path):
            try:
                self._enter(parsed_object(line))
            except DamagedRecord:
                num_damaged += 1
        if num_damaged:
            damaged_files.say_once(
                self._path, f"{damaged_files.counted(num_damaged, 'line')} skipped"
            )

    def _enter(self, content: dict[str, Any]) -> None:
        line = record(_Line, content)
        key = (line.is_profiler, line.configuration), line.action
        if line.state == "intended":
            self.taken[key] = Taken(Finding.from_line(json.dumps(line.finding).encode()))
        elif key in self.taken:
            self.taken[key] = Taken(self.taken[key].finding, is_settled=True)


@dataclass(frozen=True, slots=True)
class _Line:
    configuration: str
    action: str
    state: str
    is_profiler: bool = False
    finding: dict[str, Any] | None = None


def _lines(path: Path) -> list[bytes]:
    """Complete lines only: a partial one was never acted upon."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    return data.split(b"\n")[:-1]
