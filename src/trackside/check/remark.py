"""What reading found: a rule, a line, a sentence and what to try."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trackside.check.trace import Event, Trace
from trackside.check.values import Value


@dataclass(frozen=True, slots=True)
class Remark:
    path: str
    line: int
    message: str
    """One sentence; names other lines that matter."""


@dataclass(frozen=True, slots=True)
class ScriptRule:
    """`name` is that of the rule that sees the same fault in a running job, where there is one."""

    name: str
    advice: str
    check: Callable[[Trace], Iterable[Remark]]


def at(event: Event, message: str) -> Remark:
    return Remark(event.path, event.line, message)


def made_at(value: Value, message: str) -> Remark:
    return Remark(value.path, value.line, message)
