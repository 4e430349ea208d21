"""`trackside logs --grep`: prints the lines of a log that match a regular expression."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trackside.errors import InputError
from trackside.jobs.local_reader import LocalReader
from trackside.records.log_lines import stamp
from trackside.sdk.job import TrainingJob
from trackside.views.logs.log_search import (
    Hit,
    LogSearch,
    RunningSearch,
    Searched,
    SearchEnd,
    streams_of,
)
from trackside.views.logs.open_logs import OpenLogs

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader


@dataclass(frozen=True, slots=True)
class HitStyle:
    is_labelled: bool
    """Whether each line starts with its host."""
    is_stamped: bool
    is_numbered: bool


def print_hits(
    known: "JobReader", job: str, host: str | None, pattern: str, style: HitStyle
) -> None:
    with _started(known, job, host, pattern) as found:
        for item in found:
            if isinstance(item, SearchEnd):
                _close(item, pattern)
            else:
                sys.stdout.buffer.write(_line(item, style))
                sys.stdout.buffer.flush()


def _started(known: "JobReader", job: str, host: str | None, pattern: str) -> RunningSearch:
    if isinstance(known, LocalReader):
        search = LogSearch(OpenLogs(known.settings.layout))
        return search.search(known.record(job), pattern, host=host, most=sys.maxsize)
    return RunningSearch(_of_server(known, job, host), pattern)


def _of_server(known: "JobReader", job: str, host: str | None) -> Iterator[Searched]:
    num_hosts = TrainingJob(job, known).num_hosts
    for name in [host] if host else [f"algo-{number}" for number in range(1, num_hosts + 1)]:
        yield from streams_of(known.logs(job, host=name))


def _line(hit: Hit, style: HitStyle) -> bytes:
    host = f"{hit.host} | " if style.is_labelled else ""
    number = f"{hit.line}: " if style.is_numbered else ""
    time = stamp(hit.time) if style.is_stamped else b""
    return time + f"{host}{number}{hit.text}\n".encode(errors="replace")


def _close(end: SearchEnd, pattern: str) -> None:
    if end.slow:
        raise InputError(f"{end.slow} {end.advice}")
    if not end.matches:
        print(f"No line matches {pattern!r}.", file=sys.stderr)
