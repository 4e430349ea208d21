"""The last lines of a job's log, read further on each refresh, without the toolkit's own. The
beginning of a long log is never read.
"""

from collections import deque
from typing import TYPE_CHECKING

from trackside.jobs.log_offsets import LogOffsets
from trackside.jobs.logs import LogPosition
from trackside.jobs.toolkit_lines import ToolkitLines
from trackside.quick_dataclass import dataclass
from trackside.texts.truncation import shortened
from trackside.views.logs.log_text import plain_text, shown_text

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

MOST_LINES = 1000
MOST_CHARACTERS = 2000
"""Of a line."""
_TAIL_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class TailLine:
    host: str
    time: float
    text: str
    """What a terminal would show, without colours."""


class LogTail:
    """Not thread-safe."""

    def __init__(self, jobs: "JobReader", name: str, *, most_lines: int = MOST_LINES) -> None:
        self._jobs = jobs
        self._name = name
        self._seen: dict[str, LogPosition] = {}
        self._open: dict[str, bytes] = {}
        """By host, the beginning of a line that has not ended."""
        self._whole: deque[TailLine] = deque(maxlen=most_lines)
        self._folding = ToolkitLines()

    def refresh(self) -> None:
        """Read what is new. Raises what the jobs raise."""
        if not self._seen:
            self._start()
        for line in self._jobs.logs(self._name, after=self._seen):
            self._seen[line.host] = line.end
            if not self._folding.is_shown(line):
                continue
            begun = self._open.pop(line.host, b"") + line.data
            if line.data.endswith(b"\n"):
                self._whole.append(TailLine(line.host, line.time, uncoloured(begun)))
            else:
                self._open[line.host] = begun[-_TAIL_BYTES:]

    def lines(self) -> list[TailLine]:
        """With what was written of unfinished lines, such as progress bars, last."""
        begun = [
            TailLine(host, self._whole[-1].time if self._whole else 0.0, uncoloured(data))
            for host, data in self._open.items()
            if data.strip()
        ]
        return [*self._whole, *begun]

    def _start(self) -> None:
        record = self._jobs.record(self._name)
        home = self._jobs.settings.layout
        for host in record.spec.hosts:
            position = LogOffsets(record, home, host).before(None, _TAIL_BYTES)
            if position is not None:
                self._seen[host] = position


def uncoloured(data: bytes) -> str:
    """What is left on a terminal's line in the end, without colours, of bounded length."""
    return shortened(plain_text(shown_text(data)).expandtabs(4), MOST_CHARACTERS)
