"""Recognizes the toolkit's own lines in a log, and decides which are shown when a user waits for a
job or reads why it failed. `trackside logs` has all of them.
"""

from collections.abc import Iterable
from enum import Enum, auto
from itertools import dropwhile

from trackside.jobs.logs import LogLine

_STARTS = b" trackside-toolkit INFO     Invoking user script\n"
_FAILS = b" trackside-toolkit ERROR    Reporting training FAILURE\n"
_VARIABLE = b"  SM_"
_REPORTS = (
    b"ExecuteUserScriptError:\n",
    b"InstallRequirementsError:\n",
    b"InstallModuleError:\n",
)
"""Prefixes of reports that quote the end of the log, which was just shown."""
_LAST_OF_REPORT = b'Command "'


class _After(Enum):
    """The kind of the host's last line, as far as it matters for the next."""

    ANYTHING = auto()
    START = auto()
    FAILURE = auto()
    REPORT = auto()


def of_script(last: Iterable[str]) -> list[str]:
    """The end of one host's log, without the lines that the toolkit added."""
    folding = ToolkitLines()
    return [
        line
        for line in dropwhile(lambda line: line.startswith(_VARIABLE.decode()), last)
        if folding.is_shown(LogLine("", 1, 0, 0.0, f"{line}\n".encode(errors="replace")))
    ]


class ToolkitLines:
    """Filters out the script's thirty variables, and the repeated failure report."""

    def __init__(self) -> None:
        self._after: dict[str, _After] = {}
        self._is_shown: dict[str, bool] = {}
        self._open: set[str] = set()
        """Hosts whose line has not ended yet."""

    def is_shown(self, line: LogLine) -> bool:
        """Call in order; parts of one line are treated alike."""
        if line.host not in self._open:
            after = self._after.get(line.host, _After.ANYTHING)
            shown, self._after[line.host] = _seen(line.data, after)
            self._is_shown[line.host] = shown
        if line.data.endswith(b"\n"):
            self._open.discard(line.host)
        else:
            self._open.add(line.host)
        return self._is_shown[line.host]


def _seen(line: bytes, after: _After) -> tuple[bool, _After]:
    """Whether to show it, and the new state."""
    if after is _After.START and line.startswith(_VARIABLE):
        return False, after
    if after is _After.FAILURE and line in _REPORTS:
        return False, _After.REPORT
    if after is _After.REPORT:
        return False, _After.ANYTHING if line.startswith(_LAST_OF_REPORT) else after
    if line.endswith(_STARTS):
        return True, _After.START
    return True, _After.FAILURE if line.endswith(_FAILS) else _After.ANYTHING
