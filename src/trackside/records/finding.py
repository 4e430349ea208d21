"""A rule's finding as data: the lines of a job's `findings.jsonl`.

Rules create findings, the evaluator files them, every reader uses this module.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trackside.files import damaged_files
from trackside.files.json_record import DamagedRecord, Moment, parsed_object, record
from trackside.quick_dataclass import dataclass

RuleKey = tuple[bool, str]
"""A configured rule of a job: whether it is a profiler rule, and its configuration's name, which a
rule of the other kind may share.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A condition that began to hold: where, when, by how much, and what to try.

    Not one per step at which it holds: `step` is where it began.
    """

    rule: str
    """The rule's own name: "VanishingGradient"."""
    message: str
    """One sentence with the value and the threshold in it."""
    advice: str = ""
    configuration: str = ""
    """The name the job gave to this use of the rule; filled in by the evaluator."""
    is_profiler: bool = False
    """Likewise."""
    step: int | None = None
    """Global step; None when the finding is about the whole job or the machine."""
    mode: str = ""
    worker: str = ""
    tensor: str = ""
    subject: str = ""
    """Which of several things that may begin at the same step: a token, another trial."""
    line: str = ""
    """`train.py:31`, if reading the script shows the same fault there; filled in by the evaluator.
    """
    value: float | None = None
    threshold: float | None = None
    time: Moment = 0.0
    """When it was found, seconds since the epoch; filled in by the evaluator."""

    @property
    def key(self) -> RuleKey:
        return self.is_profiler, self.configuration

    @property
    def identity(self) -> tuple[Any, ...]:
        """Equal for the same finding made again, as after a restart of the evaluator."""
        place = (self.step, self.mode, self.worker, self.tensor, self.subject)
        return (*self.key, self.rule, *place)

    def to_line(self) -> bytes:
        """Strict JSON: NaN and infinities, which some rules search for, become texts."""
        members = {key: _plain(value) for key, value in asdict(self).items() if value is not None}
        return json.dumps(members, allow_nan=False, ensure_ascii=False).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> "Finding":
        """Unknown members are ignored. `DamagedRecord` when it is invalid."""
        content = parsed_object(line)
        for name in ("value", "threshold"):
            if content.get(name) is not None:
                content[name] = _number(content[name])
        return record(cls, content)


def read_findings(path: Path) -> list[Finding]:
    """In the order they were found; empty without a file. A partial last line is left out."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    return list(parse_findings(data, path))


def parse_findings(data: bytes, where: object = "a file of findings") -> Iterator[Finding]:
    """Without lines that are damaged, or partial because of a kill during a write and followed by
    complete ones; their number is logged, with `where`.
    """
    num_damaged = 0
    for line in data.split(b"\n")[:-1]:
        try:
            yield Finding.from_line(line)
        except DamagedRecord:
            num_damaged += 1
    if num_damaged:
        damaged_files.say_once(where, f"{damaged_files.counted(num_damaged, 'line')} skipped")


def _number(value: Any) -> float:
    """Also of the texts that `to_line` writes."""
    try:
        return float(value)
    except (ArithmeticError, TypeError, ValueError):
        raise DamagedRecord("a value that is not a number") from None


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()  # a number of numpy's, as rules of users give them
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return str(value)
    return value
