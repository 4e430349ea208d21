"""Why a process failed: one sentence, and the evidence for it.

Derived from the exit code and the end of the process's output. `tracebacks` finds exceptions,
`disk_failure` disk problems; the caller masks secrets.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import replace

from trackside.quick_dataclass import dataclass
from trackside.texts.quantities import duration
from trackside.texts.tracebacks import (
    HEADER,
    FailedRank,
    Frame,
    Raised,
    fault,
    first_failed_rank,
    raised,
    without_ranks,
)
from trackside.texts.truncation import last_lines, plain, shortened

_MOST_MESSAGE = 300
_MOST_SOURCE = 80
_MOST_CAUSE = 160
_MOST_LINE = 200
_LEAST_EVIDENCE = 60
_MOST_EVIDENCE_LINES = 20
_SHORT_SECONDS = 10.0
_USAGE = 2
"""The exit code of a program whose arguments are wrong."""
_REFUSAL = re.compile(r"(?:\S.{0,80}?: error|Error): ")

_CRASHES = {
    "SIGSEGV": "native code used memory that is not its own",
    "SIGBUS": "memory could not be read or written; often /dev/shm is too small",
    "SIGILL": "this processor does not have an instruction of the program",
    "SIGFPE": "native code made an arithmetic error, such as a division by zero",
    "SIGABRT": "native code gave up",
    "SIGSYS": "a system call is not allowed here",
}


@dataclass(frozen=True, slots=True)
class ProcessFailure:
    sentence: str
    """What went wrong and where, in one line without a full stop."""
    evidence: tuple[str, ...] = ()
    """Lines, and groups of lines; the most important come last."""
    own_message: str = ""
    """The process's own message, if the sentence differs."""

    def fitted(self, most: int) -> str:
        """The sentence, and as much of the evidence as fits into so many characters."""
        head = shortened("\n".join(filter(None, (self.sentence, self.own_message))), most)
        left = most - len(head) - 1
        if not self.evidence or left < _LEAST_EVIDENCE:
            return head
        return f"{head}\n{last_lines(self.evidence, left)}"

    @property
    def text(self) -> str:
        return "\n".join((self.sentence, *self.evidence))

    def because(self, sentence: str) -> ProcessFailure:
        """The same end, with its cause."""
        return ProcessFailure(sentence, self.evidence, self.sentence)


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a process ended."""

    code: int
    """Its exit code; a signal is its negative number."""
    output: str = ""
    """The end of its output."""
    seconds: float | None = None
    """How long it ran, if known."""
    out_of_memory: bool | None = None
    """Whether the kernel recorded an OOM kill of one of its processes; None without such a record.
    """
    who: str = "The script"
    code_folder: str = "/opt/ml/code"


def explain_end(end: End) -> ProcessFailure:
    lines = [line.rstrip() for line in plain(end.output).splitlines()]
    failure = _of_signal(end, lines) if end.code < 0 else _of_exit(end, lines)
    if not end.out_of_memory or end.code == -signal.SIGKILL:
        return failure
    sentence = (
        f"Out of memory: the kernel killed a process of {_lower(end.who)}. {failure.sentence}"
    )
    return ProcessFailure(sentence, failure.evidence)


def in_words(error: Raised, code_folder: str) -> str:
    """`ValueError: no, at train.py:41 in main: loss = model(x)`, and what led to it."""
    text = shortened(error.message[0], _MOST_MESSAGE)
    if len(error.message) > 1:
        text = text.rstrip(" :,.")
    if (frame := error.frame(code_folder)) is not None:
        text += f", at {_where(frame, code_folder)}"
    if error.cause is not None:
        text += f", {error.link} {shortened(error.cause.message[0], _MOST_CAUSE)}"
        if (inner := error.cause.frame(code_folder)) is not None:
            text += f", at {inner.place(code_folder)}"
    return text


def _of_exit(end: End, lines: Sequence[str]) -> ProcessFailure:
    if (error := raised(lines)) is not None:
        return ProcessFailure(in_words(error, end.code_folder), _evidence(error))
    if (rank := first_failed_rank(lines)) is not None:
        return _of_rank(end, rank)
    if end.code == _USAGE and (refusal := _refusal(lines)) is not None:
        return refusal
    shell = f" with the exit code of a {name}" if (name := _of_shell(end.code)) else ""
    return _with_last_line(f"{end.who} ended{_after(end)}{shell}", "", lines)


def _refusal(lines: Sequence[str]) -> ProcessFailure | None:
    """Errors of argparse and click for invalid arguments: usage, then the reason."""
    own = _speaking(without_ranks(lines))
    starts = [i for i, line in enumerate(own) if line.lower().startswith("usage:")]
    if not starts or not _REFUSAL.match(own[-1]):
        return None
    usage = own[starts[-1] : -1][-_MOST_EVIDENCE_LINES:]
    return ProcessFailure(shortened(own[-1].strip(), _MOST_LINE), tuple(usage))


def _of_rank(end: End, rank: FailedRank) -> ProcessFailure:
    who = f"Rank {rank.number}"
    if rank.code < 0:
        return _of_signal(replace(end, code=rank.code, who=who), rank.before)
    return _with_last_line(f"{who} ended{_after(end)} with exit code {rank.code}", "", rank.before)


def _of_signal(end: End, lines: Sequence[str]) -> ProcessFailure:
    name = _signal_name(-end.code)
    if name in _CRASHES:
        return _of_crash(end, name, lines)
    how, note = f"{end.who} was ended by {name}{_after(end)}", ""
    if name == "SIGKILL":
        how, note = _killed(end)
    if (error := raised(lines)) is not None:
        before = f". Before that: {in_words(error, end.code_folder)}"
        return ProcessFailure(f"{how}{note}{before}", _evidence(error))
    return _with_last_line(how, note, lines)


def _of_crash(end: End, name: str, lines: Sequence[str]) -> ProcessFailure:
    how = f"{end.who} crashed with {name}{_after(end)}"
    crash = fault(lines)
    if crash is not None and (frame := crash.frame(end.code_folder)) is not None:
        sentence = f"{how}, at {frame.place(end.code_folder)}: {_CRASHES[name]}"
        return ProcessFailure(sentence, tuple(_speaking(lines)))
    note = f": {_CRASHES[name]}. With PYTHONFAULTHANDLER=1 Python shows where"
    return _with_last_line(how, note, lines)


def _killed(end: End) -> tuple[str, str]:
    if end.out_of_memory:
        how = f"Out of memory: {_lower(end.who)} was killed by the kernel (SIGKILL){_after(end)}"
        return how, ". A smaller batch or fewer workers need less"
    note = ". The kernel recorded no out-of-memory kill"
    if end.out_of_memory is None:
        note = ". Whether for lack of memory is not recorded on this machine"
    return f"{end.who} was killed by SIGKILL{_after(end)}", note


def _with_last_line(how: str, note: str, lines: Sequence[str]) -> ProcessFailure:
    own = _speaking(without_ranks(lines))
    if not own:
        return ProcessFailure(f"{how} without an error message{note}")
    last = own[-1].strip()
    rest = own[-_MOST_EVIDENCE_LINES:-1]
    return ProcessFailure(f"{how}{note}. Last line: {shortened(last, _MOST_LINE)}", tuple(rest))


def _evidence(error: Raised) -> tuple[str, ...]:
    """The rest of the message, and the frames."""
    frames = [_frame_text(frame) for frame in error.frames]
    message = [shortened(line, _MOST_MESSAGE) for line in error.message[1:]]
    return (*message, *([HEADER, *frames] if frames else []))


def _frame_text(frame: Frame) -> str:
    function = f", in {frame.function}" if frame.function else ""
    source = f"\n    {shortened(frame.source, _MOST_LINE)}" if frame.source else ""
    return f'  File "{frame.path}", line {frame.line}{function}{source}'


def _where(frame: Frame, code_folder: str) -> str:
    place = frame.place(code_folder)
    # What was raised is in the sentence.
    if not frame.source or frame.source.startswith("raise "):
        return place
    return f"{place}: {shortened(frame.source, _MOST_SOURCE)}"


def _speaking(lines: Sequence[str]) -> list[str]:
    """Lines with a word or a number, not just punctuation."""
    return [line for line in lines if any(character.isalnum() for character in line)]


def _after(end: End) -> str:
    if end.seconds is None:
        return ""
    shown = f"{end.seconds:.1f} s" if end.seconds < _SHORT_SECONDS else duration(end.seconds)
    return f" after {shown}"


def _of_shell(code: int) -> str:
    """The signal that a shell, or a launcher, reports by this exit code."""
    return _signal_name(code - 128) if 128 < code <= 128 + max(signal.Signals) else ""


def _lower(who: str) -> str:
    return who[0].lower() + who[1:]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
