"""What an error looks like on a terminal, and the exit code that goes with it."""

from trackside.errors import (
    AccessRefused,
    DatabaseError,
    JobFailed,
    KeyRefused,
    ServerUnreachable,
    StorageError,
    StoreUnreachable,
    TracksideError,
)
from trackside.harmless import visible

EXPECTED = (TracksideError, OSError)
"""Errors with a cause outside the program: shown in words. Anything else is a defect of ours."""

JOB_FAILED = 1
USAGE = 2
NOT_REACHABLE = 3
INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""


def exit_code(failure: BaseException) -> int:
    match failure:
        case JobFailed():
            return JOB_FAILED
        case StoreUnreachable() | AccessRefused() | DatabaseError():
            return NOT_REACHABLE
        case ServerUnreachable() | KeyRefused():
            return NOT_REACHABLE
        case StorageError() | TracksideError():
            return USAGE
        case _:
            return NOT_REACHABLE


def explain(failure: BaseException) -> str:
    """One line or block. It may quote what a job wrote, so nothing in it steers the terminal."""
    if isinstance(failure, OSError) and failure.filename is not None:
        return f"Error: {visible(str(failure.filename))}: {failure.strerror}"
    return f"Error: {visible(str(failure))}"
