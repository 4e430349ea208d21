"""Metrics that a script prints, stored as curves if it logs in no other way.

`printed_lines` parses a line; here it gets a step and a time. A job with metric definitions
(`log_metrics.py`) does not use this.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from trackside.curves.log_metrics import new_lines
from trackside.curves.loggers.logged_curves import LoggedCurves
from trackside.curves.loggers.logged_values import Logged, position
from trackside.curves.loggers.printed_lines import Bar, Printed, may_have_some, parse
from trackside.files import damaged_files, durable
from trackside.records.log_lines import TimeMark, read_marks, time_of

logger = logging.getLogger(__name__)

STATE = "printed-metrics"
"""The kind of its file in a host's folder."""
MOST_BARS = 100
BUSY_SECONDS = 0.1
"""After this long the rest of a log waits for the next pass, …"""
LAST_SECONDS = 30.0
"""… and if there is none."""
_PLACE = "offset"
_TOTAL = "total_steps"
_OF_BAR = "bar_steps"
_NOT_TRAINING = ("val", "eval", "test", "valid", "validation", "evaluation", "testing")
_BANNER = b" Invoking user script"


def total_steps(state: Path) -> int | None:
    """How many steps the training has in all: on the bar that the Trainer of transformers draws
    over its whole training. None if the script draws none."""
    return position(damaged_files.read_object(state) or {}, _TOTAL) or None


def bar_steps(state: Path) -> int | None:
    """The same by a bar that a script of its own draws with its loss: of all epochs, if it says how
    many there are, or of the only one that it draws. None if no bar says so."""
    return position(damaged_files.read_object(state) or {}, _OF_BAR) or None


class PrintedMetrics:
    """One host's log. Not thread-safe."""

    def __init__(
        self,
        log: Path,
        times: Path,
        curves: Path,
        run: str,
        state: Path,
        *,
        logs_elsewhere: Callable[[], bool],
    ) -> None:
        self._log = log
        self._times = times
        self._out = LoggedCurves(curves)
        self._run = run
        self._path = state
        self._logs_elsewhere = logs_elsewhere
        self._state = _State(damaged_files.read_object(state) or {})
        self._known_bytes = 0
        """Size of the log at the last pass: what precedes it was printed before the script's files
        were scanned, so that no file created earlier is missed."""
        self._times_bytes = -1
        self._is_off = False

    def tick(self, *, last: bool = False) -> None:
        """Never raises: a job does not fail for a curve."""
        if self._is_off:
            return
        try:
            self._keep(last=last)
        except Exception:
            logger.exception("the log is no longer searched for printed metrics")
            self._is_off = True

    def _keep(self, *, last: bool) -> None:
        if not self._state.has_started and self._logs_elsewhere():
            self._is_off = True
            return
        if not last and self._is_still():
            return
        marks = read_marks(self._times)
        size = marks[-1].size if marks else 0
        until, self._known_bytes = (size if last else self._known_bytes), size
        before = self._state.offsets[_PLACE]
        opened = partial(os.open, self._log, os.O_RDONLY | os.O_CLOEXEC)
        deadline = time.monotonic() + (LAST_SECONDS if last else BUSY_SECONDS)
        for block in new_lines(opened, self._state.offsets, _PLACE, until, last=last):
            self._add_block(block, marks)
            if time.monotonic() > deadline:
                break
        if last and marks:
            self._add(self._state.rest(), marks[-1].time)
        if self._state.offsets[_PLACE] != before or last:
            self._out.flush()
            durable.write_json(self._path, self._state.as_json())

    def _is_still(self) -> bool:
        """Nothing new was printed, and everything is searched."""
        try:
            num_bytes = self._times.stat().st_size
        except FileNotFoundError:
            return True
        is_same, self._times_bytes = num_bytes == self._times_bytes, num_bytes
        return is_same and self._state.offsets[_PLACE] >= self._known_bytes

    def _add_block(self, block: list[tuple[int, bytes]], marks: list[TimeMark]) -> None:
        for offset, line in block:
            if self._state.is_banner(line):
                continue
            if may_have_some(line) and (parsed := parse(line.decode(errors="replace"))):
                self._add(self._state.take(parsed), time_of(offset, marks, marks[-1].time))

    def _add(self, points: Iterator[tuple[str, float, int]], time: float) -> None:
        for tag, value, step in points:
            self._out.add(Logged(self._run, tag, value, step, time))


class _State:
    """What earlier lines say about the steps of the next ones."""

    def __init__(self, kept: dict[str, Any]) -> None:
        self.offsets: dict[str, int] = {_PLACE: position(kept, _PLACE)}
        counts = kept.get("counts")
        names = counts if isinstance(counts, dict) else {}
        self._counts: dict[str, int] = {name: position(names, name) for name in names}
        bars = kept.get("bars")
        self._bars: dict[str, tuple[int, int, dict[str, float]]] = {
            about: (position(each, "before"), position(each, "at"), {})
            for about, each in (bars.items() if isinstance(bars, dict) else ())
            if isinstance(each, dict)
        }
        """By what it is about: the steps of earlier ones, its own, and its values, which the next
        drawing of the same step replaces."""
        self._training_bar: int | None = position(kept, _TOTAL) or None
        """How many steps it has; evaluation has bars of its own."""
        self._of_bar = position(kept, _OF_BAR)
        """Of a training bar of the script's own; 0 while none is known."""
        self._awaiting: list[Printed] = []
        self._in_banner = False

    def as_json(self) -> dict[str, Any]:
        """Without what waits for the next line: a supervisor that takes over loses that."""
        return {
            _PLACE: self.offsets[_PLACE],
            _TOTAL: self._training_bar or 0,
            _OF_BAR: self._of_bar,
            "counts": self._counts,
            "bars": {
                about: {"before": base, "at": at} for about, (base, at, _) in self._bars.items()
            },
        }

    @property
    def has_started(self) -> bool:
        """A curve exists and is continued: half of one would be misleading."""
        return bool(self._counts or self._bars)

    def is_banner(self, line: bytes) -> bool:
        """The toolkit's lines about what it starts, with hyperparameters and arguments."""
        self._in_banner = line.endswith(_BANNER) or (self._in_banner and line.startswith(b"  "))
        return self._in_banner

    def take(self, parsed: Bar | Printed) -> Iterator[tuple[str, float, int]]:
        match parsed:
            case Bar():
                yield from self._explained(parsed)
                yield from self._moved(parsed)
            case Printed(awaits_bar=True):
                yield from self._unanswered()
                self._awaiting = [parsed]
            case Printed():
                yield from self._numbered(parsed.values, parsed.step)

    def rest(self) -> Iterator[tuple[str, float, int]]:
        yield from self._unanswered()
        for about, (base, at, values) in self._bars.items():
            yield from _of_bar(about, values, base + at)
        self._bars.clear()

    def _explained(self, bar: Bar) -> Iterator[tuple[str, float, int]]:
        if self._awaiting and self._training_bar in (None, bar.of):
            if "loss" in self._awaiting[0].values:
                self._training_bar = bar.of
            yield from self._numbered(self._awaiting[0].values, bar.at)
            self._awaiting = []

    def _unanswered(self) -> Iterator[tuple[str, float, int]]:
        for parsed in self._awaiting:
            yield from self._numbered(parsed.values, None)
        self._awaiting = []

    def _moved(self, bar: Bar) -> Iterator[tuple[str, float, int]]:
        if bar.about not in self._bars and len(self._bars) >= MOST_BARS:
            return
        base, at, values = self._bars.get(bar.about, (0, bar.at, {}))
        if bar.at != at:
            yield from _of_bar(bar.about, values, base + at)
            values = {}
            if bar.at < at:  # the next epoch's
                base += at
        self._bars[bar.about] = (base, bar.at, {**values, **bar.values})
        if _is_of_training(bar):
            epochs = bar.epochs if bar.epochs is not None else 0 if base else 1
            self._of_bar = epochs * bar.of

    def _numbered(
        self, values: dict[str, float], step: int | None
    ) -> Iterator[tuple[str, float, int]]:
        for name, value in values.items():
            count = self._counts.get(name, 0)
            if name in self._counts or len(self._counts) < 1000:
                self._counts[name] = count + 1
            yield name, value, count if step is None else step


def _is_of_training(bar: Bar) -> bool:
    is_other = any(word in _NOT_TRAINING for word in bar.about.lower().split())
    return not is_other and any("loss" in name.lower() for name in bar.values)


def _of_bar(about: str, values: dict[str, float], step: int) -> Iterator[tuple[str, float, int]]:
    for name, value in values.items():
        yield f"{about}/{name}" if about else name, value, step
