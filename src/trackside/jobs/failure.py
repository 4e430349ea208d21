"""Why a job failed, for people: the exit code, the last lines, where the rest is."""

from trackside import hosts
from trackside.errors import JobFailed
from trackside.hosts import HostRecord
from trackside.jobs.logs import LogReader
from trackside.jobs.records import Record
from trackside.layout import Home
from trackside.status import Status

TAIL_LINES = 20


def failure_of(record: Record, home: Home) -> JobFailed | None:
    """None unless the job failed."""
    if record.history.state.status is not Status.FAILED:
        return None
    name = record.spec.name
    host, also = _first_wrong(record)
    lines = [_exit(record, host, also)]
    if tail := LogReader(record, home).tail(host, TAIL_LINES):
        rest = f"Its whole log is {_log_place(record, host)}; `trackside logs {name}` prints it."
        lines += [f"The last lines of {host}:", *(f"  | {line}" for line in tail), rest]
    reason = record.history.failure_reason or "no reason was recorded"
    return JobFailed(name, reason, "\n".join(filter(None, lines)))


def _first_wrong(record: Record) -> tuple[str, list[str]]:
    """The host that failed first, and those on which the very same went wrong."""
    records = _host_records(record)
    wrong = {host: seen for host, seen in records.items() if seen.failure or seen.lost}
    if not wrong:
        return record.spec.hosts[0], []
    first = min(wrong, key=lambda host: wrong[host].ended_at or float("inf"))
    cause = wrong[first].failure
    return first, [host for host in wrong if host != first and wrong[host].failure == cause]


def _host_records(record: Record) -> dict[str, HostRecord]:
    if record.folder is None:
        return {}
    places = {
        host: record.folder.host(host, record.history.attempt).record for host in record.spec.hosts
    }
    return {host: seen for host, path in places.items() if (seen := hosts.read(path))}


def _exit(record: Record, host: str, also: list[str]) -> str:
    seen = _host_records(record).get(host)
    if seen is None or seen.exit_code is None:
        return ""
    others = f" (the same on {', '.join(also)})" if also else ""
    return f"Exit code {seen.exit_code} on {host}{others}."


def _log_place(record: Record, host: str) -> str:
    if record.folder is None:
        return f"{record.keys.logs}/{host}"
    return str(record.folder.host(host, record.history.attempt).log)
