"""Log lines around a place, as text for a coding agent: without colours, with line numbers."""

from datetime import datetime
from typing import TYPE_CHECKING

from trackside.errors import InputError
from trackside.records.layout import FIRST_HOST
from trackside.texts.truncation import shortened
from trackside.views.job.job_sources import JobSources
from trackside.views.logs.log_pages import LogPage, LogPages
from trackside.views.logs.log_search import Hit, LogSearch, SearchEnd
from trackside.views.logs.log_text import plain_text
from trackside.views.logs.open_logs import OpenLogs

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

_MOST_LINE = 300
_MOST_HITS = 20
_VARIABLE = "  SM_"
"""The toolkit lists the script's variables at the beginning of a log."""


class LogsAround:
    """All methods may be called from several threads."""

    def __init__(self, jobs: "JobReader") -> None:
        self._jobs = jobs
        logs = OpenLogs(jobs.settings.layout)
        self._pages = LogPages(logs)
        self._search = LogSearch(logs)

    def tail(self, name: str, *, host: str = "", count: int) -> list[str]:
        return self._shown(name, "tail", host, count)

    def at_time(self, name: str, moment: float, *, host: str = "", count: int) -> list[str]:
        return self._shown(name, f"time:{max(0.0, moment):.3f}", host, count)

    def at_step(self, name: str, step: int, *, host: str = "", count: int) -> list[str]:
        sources = JobSources(self._jobs, name)
        sources.refresh_curves()
        moment = sources.time_of_step(step)
        if moment is None:
            raise InputError(
                f"When step {step} was is not known: no curve has it. Give a time or a pattern."
            )
        return self.at_time(name, moment, host=host, count=count)

    def at_pattern(self, name: str, pattern: str, *, host: str = "", count: int) -> list[str]:
        """Around the first match, and where the next ones are."""
        record = self._jobs.record(name)
        with self._search.search(record, pattern, host=host or None, most=_MOST_HITS) as found:
            items = [*found]
        hits = [each for each in items if isinstance(each, Hit)]
        slow = "".join(each.slow for each in items if isinstance(each, SearchEnd))
        if not hits:
            return [slow or "No line matches."]
        first = hits[0]
        start = max(1, first.line - count // 3)
        page = self._pages.page(
            record, host=first.host, attempt=first.attempt, at=f"line:{start}", count=count
        )
        others = [f"{each.host}:{each.line}" for each in hits[1:]]
        more = " or more" if len(hits) == _MOST_HITS else ""
        count_text = "1 match" if len(hits) == 1 else f"{len(hits)}{more} matches"
        head = f"{count_text}, the first in line {first.line} of {first.host}"
        return [f"{head}; then {', '.join(others)}" if others else head, *_lines(page, first.line)]

    def _shown(self, name: str, at: str, host: str, count: int) -> list[str]:
        record = self._jobs.record(name)
        page = self._pages.page(record, host=host or FIRST_HOST, at=at, count=count)
        return _lines(page, page.target)


def _lines(page: LogPage, target: int | None) -> list[str]:
    found = []
    for number, line in enumerate(page.lines, page.first):
        if line.text.startswith(_VARIABLE):
            continue
        clock = datetime.fromtimestamp(line.time).strftime("%H:%M:%S")
        mark = ">" if number == target else " "
        text = shortened(plain_text(line.text), _MOST_LINE)
        found.append(f"{mark}{number} {clock} {text}")
    return found or ["The log is empty."]
