"""Formats findings as text, grouping all tensors with the same finding at the same step."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.records.rule_status import NOTHING_SAVED, RuleStatus
from trackside.texts.terminal_text import one_line

if TYPE_CHECKING:
    from trackside.rules.checkup.diagnosis import Diagnosis

_INDENT = " " * 4
_NOTHING_TO_JUDGE = "nothing was saved to judge before the job failed"


@dataclass(frozen=True, slots=True)
class Notice:
    """Findings of one rule at one step, as shown to a user."""

    head: str
    message: str
    advice: str
    findings: tuple[Finding, ...]


class FindingFormatter:
    """Prints each advice once: it is the same for the tenth layer, or rule, as for the first.

    What a diagnosis says is not repeated for its findings.
    """

    def __init__(
        self, *, columns: int | None = None, paint: Callable[[str], str] | None = None
    ) -> None:
        """`columns` of the terminal, for wrapping; `paint` highlights the first line."""
        self._columns = columns
        self._paint = paint or str
        self._advised: set[str] = set()

    def text(self, findings: Iterable[Finding]) -> str:
        """Complete lines."""
        return "".join(f"{line}\n" for notice in notices(findings) for line in self._lines(notice))

    def standing(
        self, configuration: str, status: str, details: str = "", *, has_failed: bool = False
    ) -> str:
        """Complete lines: a rule's status and, if it could not judge, why.

        For a job that `has_failed`, missing data and advice on how to save some are left out: the
        failure says what to do.
        """
        if has_failed and status == RuleStatus.ERROR and details.startswith(NOTHING_SAVED):
            return one_line(f"{configuration}: {_NOTHING_TO_JUDGE}") + "\n"
        lines = [one_line(f"{configuration}: {status}")]
        if status == RuleStatus.ERROR and details and details not in self._advised:
            self._advised.add(details)
            lines += self._wrapped(one_line(details))
        return "".join(f"{line}\n" for line in lines)

    def diagnoses(self, diagnoses: Sequence["Diagnosis"]) -> str:
        """Complete lines, most likely first; "" if there are none."""
        lines = [line for each in diagnoses for line in self._diagnosis(each)]
        return "".join(f"{line}\n" for line in lines)

    def _diagnosis(self, each: "Diagnosis") -> Iterator[str]:
        since = "" if each.step is None else f", from step {each.step} on"
        places = ", ".join(dict.fromkeys(filter(None, (each.tensor, each.line))))
        where = f", at {places}" if places else ""
        self._advised |= {one_line(each.message), one_line(each.advice)}
        yield from self._head(
            one_line(f"Diagnosis: {each.cause}{since}{where} ({each.confidence})")
        )
        yield from self._wrapped(one_line(each.message))
        yield from self._wrapped(one_line(f"Try: {each.advice}"))
        if each.explains:
            yield from self._wrapped(f"It explains: {', '.join(each.explains)}")

    def _lines(self, notice: Notice) -> Iterator[str]:
        yield from self._head(f"Finding: {notice.head}")
        if notice.message not in self._advised:
            yield from self._wrapped(notice.message)
        if notice.advice and notice.advice not in self._advised:
            self._advised.add(notice.advice)
            yield from self._wrapped(f"Try: {notice.advice}")

    def _head(self, text: str) -> Iterator[str]:
        return map(self._paint, self._wrapped(text, indent=""))

    def _wrapped(self, text: str, *, indent: str = _INDENT) -> Sequence[str]:
        if self._columns is None:
            return [indent + text]
        return textwrap.wrap(
            text,
            max(self._columns, 40),
            initial_indent=indent,
            subsequent_indent=_INDENT,
            break_long_words=False,
            break_on_hyphens=False,
        )


def notices(findings: Iterable[Finding]) -> Iterator[Notice]:
    """In the order in which they began."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        key = (finding.configuration, finding.rule, finding.step, finding.mode, finding.worker)
        groups.setdefault(key, []).append(finding)
    for group in groups.values():
        first = group[0]
        yield Notice(_head(group), one_line(first.message), one_line(first.advice), tuple(group))


def _head(group: Sequence[Finding]) -> str:
    first = group[0]
    parts = [first.rule]
    if first.configuration not in ("", first.rule):
        parts.append(f"({first.configuration})")
    if first.step is not None:
        parts.append(f"at step {first.step}")
    if first.mode in ("EVAL", "PREDICT"):
        parts.append(f"({first.mode})")
    if first.worker not in ("", "worker_0"):
        parts.append(f"on {first.worker}")
    where = ""
    if len(group) > 1:
        where = f": {len(group)} tensors, first {first.tensor}" if first.tensor else ""
    elif first.tensor:
        where = f" in {first.tensor}"
    return one_line(" ".join(parts) + where)
