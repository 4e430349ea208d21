"""How an error is shown on a terminal, and its exit code."""

import textwrap

from trackside.errors import (
    AccessRefused,
    DatabaseError,
    JobFailed,
    JobStopped,
    KeyRefused,
    ServerUnreachable,
    StorageError,
    StoreUnreachable,
    TracksideError,
)
from trackside.records.status import StopCause
from trackside.texts.terminal_text import visible

EXPECTED = (TracksideError, OSError)
"""Errors with a cause outside the program: shown as messages. Anything else is a bug."""

JOB_FAILED = 1
USAGE = 2
NOT_REACHABLE = 3
STOPPED = {StopCause.RULE: 5, StopCause.TIME_LIMIT: 6, StopCause.SOMEBODY: 7}
INTERRUPTED = 130
"""128 + SIGINT, as in shells."""


def exit_code(failure: BaseException) -> int:
    match failure:
        case JobFailed():
            return JOB_FAILED
        case JobStopped(cause=cause):
            return STOPPED[StopCause(cause)]
        case StoreUnreachable() | AccessRefused() | DatabaseError():
            return NOT_REACHABLE
        case ServerUnreachable() | KeyRefused():
            return NOT_REACHABLE
        case StorageError() | TracksideError():
            return USAGE
        case _:
            return NOT_REACHABLE


def explain(failure: BaseException) -> str:
    """One line or block. It may quote a job's output, so terminal escapes are removed."""
    if isinstance(failure, OSError) and failure.filename is not None:
        return f"Error: {visible(str(failure.filename))}: {failure.strerror}"
    return f"Error: {visible(str(failure))}"


def wrapped(text: str, columns: int) -> str:
    """At words, with further lines indented; quoted log lines are not wrapped."""
    lines: list[str] = []
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        if len(line) <= columns or line.startswith("  |"):
            lines.append(line.rstrip())
        else:
            lines += textwrap.wrap(
                line,
                max(columns, 40),
                subsequent_indent=f"{indent}  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
    return "\n".join(lines)
