"""Prints a followed job as plain lines: for `fit`, and for the command line without a terminal."""

import builtins
from codecs import IncrementalDecoder, getincrementaldecoder
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TextIO, TypeVar

from trackside.jobs.logs import LogLine
from trackside.jobs.rule_updates import Findings
from trackside.jobs.toolkit_lines import ToolkitLines
from trackside.records.journal import History, Transition
from trackside.records.rule_status import Evaluation
from trackside.records.status import Secondary
from trackside.sdk.finding_lines import FindingFormatter

Item = TypeVar("Item")

PRINTED: dict[str, tuple[type, ...]] = {
    "Training": (History, LogLine),
    "Rules": (tuple, Evaluation),
}
"""The items of `follow_all` that are printed for each kind."""


class LinePrinter:
    """Prints status changes and findings as lines of their own, between the lines of the log.

    With several hosts each line has its host's name. The log's text is passed through unchanged.
    """

    def __init__(
        self, out: TextIO, *, num_hosts: int = 1, formatter: FindingFormatter | None = None
    ) -> None:
        self._out = out
        self._formatter = formatter or FindingFormatter()
        self._num_hosts = num_hosts
        self._history: History | None = None
        self._open_host = ""
        """The host whose line has not ended yet."""
        # A part of a long line may end inside a character.
        self._decoders: dict[str, IncrementalDecoder] = defaultdict(_replacing)

    def show(self, item: History | LogLine | Findings | Evaluation) -> None:
        match item:
            case LogLine():
                self._write(item.host, self._decoders[item.host].decode(item.data))
            case History():
                for transition in changes(self._history, item):
                    self._write("", f"{status_line(transition)}\n")
                self._history = item
            case Evaluation():
                reported = self._formatter.standing(
                    item.configuration, item.status, item.details, has_failed=self._has_failed
                )
                self._write("", reported)
            case _:
                self._write("", self._formatter.text(item))
        self._out.flush()

    @property
    def _has_failed(self) -> bool:
        return self._history is not None and self._history.state.secondary is Secondary.FAILED

    def _write(self, host: str, text: str) -> None:
        if self._open_host and self._open_host != host:
            self._out.write("\n")
            self._open_host = ""
        if self._num_hosts > 1 and host and not self._open_host:
            self._out.write(f"{host} | ")
        self._out.write(text)
        self._open_host = "" if text.endswith("\n") else host


def shown_on(out: TextIO, items: Iterable[Item]) -> Iterator[Item]:
    """What is printed there of a followed job: everything, unless a person reads it."""
    folding = ToolkitLines() if _is_read_by_a_person(out) else None
    for item in items:
        if folding is None or not isinstance(item, LogLine) or folding.is_shown(item):
            yield item


def changes(before: History | None, after: History) -> Iterator[Transition]:
    """Statuses that are new, or whose message has changed."""
    known = before.transitions if before else ()
    for index, transition in enumerate(after.transitions):
        if index >= len(known) or known[index].message != transition.message:
            yield transition


def status_line(transition: Transition) -> str:
    moment = datetime.fromtimestamp(transition.start)
    return f"{moment:%Y-%m-%d %H:%M:%S} {transition.secondary} - {transition.message}"


def _is_read_by_a_person(out: TextIO) -> bool:
    """At a terminal, or in a notebook, whose output is not a terminal."""
    is_terminal = getattr(out, "isatty", bool)  # a script's replacement stream may not have it
    return is_terminal() or hasattr(builtins, "__IPYTHON__")


def _replacing() -> IncrementalDecoder:
    return getincrementaldecoder("utf-8")("replace")
