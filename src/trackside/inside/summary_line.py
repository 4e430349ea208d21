"""The summary that `finish` prints: the result, the findings, and the command that shows more."""

from collections.abc import Sequence

from trackside.jobs.jobs import Jobs
from trackside.records.finding import Finding
from trackside.records.journal import History
from trackside.sdk.finding_lines import notices
from trackside.texts.quantities import duration

MOST_NAMED = 3


def last_line(
    jobs: Jobs, name: str, history: History, seconds: float, command_prefix: str, is_judged: bool
) -> str:
    is_watched = bool(jobs.evaluations(name))
    found = jobs.findings(name) if is_watched else []
    parts = [f"{name} {_status(history)} after {duration(seconds)}"]
    if found:
        parts.append(in_words(found))
    elif is_watched and is_judged:
        parts.append("nothing found")
    if not is_judged:
        parts.append("its rules have not read everything yet")
    command = "findings" if found else "show"
    return f"{'; '.join(parts)}. `{command_prefix} {command} {name}`"


def _status(history: History) -> str:
    return str(history.state.status) if history.state.is_final else "ends by itself"


def in_words(found: Sequence[Finding]) -> str:
    heads = [notice.head for notice in notices(found)]
    number = "1 finding" if len(heads) == 1 else f"{len(heads)} findings"
    more = len(heads) - MOST_NAMED
    shown = [*heads[:MOST_NAMED], *([f"and {more} more"] if more > 0 else [])]
    return f"{number}: {'; '.join(shown)}"
