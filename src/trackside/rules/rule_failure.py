"""How a rule's failure is described: what was raised first, then the end of the trace."""

import traceback

_SUMMARY = 300
_MOST = 1000


def trace_end(error: BaseException) -> str:
    """For StatusDetails, which has little room: the last lines of a trace matter most."""
    summary = traceback.format_exception_only(error)[-1].strip()[:_SUMMARY]
    lines = "".join(traceback.format_exception(error)).strip().splitlines()
    kept: list[str] = []
    room = _MOST - len(summary)
    for line in reversed(lines[:-1]):
        room -= len(line) + 1
        if room < 0:
            break
        kept.insert(0, line)
    return "\n".join([summary, *kept])
