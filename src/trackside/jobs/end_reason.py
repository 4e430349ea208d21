"""Why a job failed or was stopped, as text: the exit code, the last lines, where the log is."""

from collections.abc import Callable, Mapping, Sequence

from trackside.coordination.host_files import log_of, records_of
from trackside.errors import JobFailed, JobStopped
from trackside.jobs.logs import LogReader
from trackside.jobs.records import Record
from trackside.jobs.toolkit_lines import of_script
from trackside.records.hosts import HostRecord
from trackside.records.journal import History
from trackside.records.layout import Home
from trackside.records.spec import Stopping
from trackside.records.status import Secondary, Status, StopCause
from trackside.texts.truncation import shortened

SHOWN_LINES = 20
LONGEST_LINE = 500
TAIL_LINES = 100
"""Enough for a short log's start and the toolkit's report at its end, which are left out."""


def failure_of(record: Record, home: Home) -> JobFailed | None:
    """None unless the job failed."""

    def tail(host: str) -> Sequence[str]:
        return LogReader(record, home).tail(host, TAIL_LINES)

    return explained(record, _host_records(record), tail)


def explained(
    record: Record,
    of_hosts: Mapping[str, HostRecord],
    tail: Callable[[str], Sequence[str]],
) -> JobFailed | None:
    """The same, from its hosts' records and the last lines of one of them."""
    if record.history.state.status is not Status.FAILED:
        return None
    name = record.spec.name
    reason = record.history.failure_reason or "no reason was recorded"
    host, also = _first_wrong(record.spec.hosts, of_hosts, reason)
    lines = [_exit(of_hosts.get(host), host, also)]
    if last := of_script(tail(host))[-SHOWN_LINES:]:
        rest = f"Its whole log is {_log_place(record, host)}; `trackside logs {name}` prints it."
        lines += [
            f"The last lines of {host}:",
            *(f"  | {shortened(line, LONGEST_LINE)}" for line in last),
            rest,
        ]
    return JobFailed(name, reason, "\n".join(filter(None, lines)))


def _first_wrong(
    names: Sequence[str], of_hosts: Mapping[str, HostRecord], reason: str
) -> tuple[str, list[str]]:
    """The host that failed first, which the lead has named in the reason, and those with the same
    failure."""
    wrong = {host: seen for host, seen in of_hosts.items() if seen.went_wrong}
    if not wrong:
        return names[0], []
    _, _, text = reason.partition(": ")
    named = (host for host in wrong if text.startswith(f"{host}: "))
    first = next(named, next(iter(wrong)))
    cause = wrong[first].failure
    return first, [host for host in wrong if host != first and wrong[host].failure == cause]


def _host_records(record: Record) -> dict[str, HostRecord]:
    if record.folder is None:
        return {}
    return records_of(record.folder, record.spec.hosts, record.history.attempt)


def _exit(seen: HostRecord | None, host: str, also: Sequence[str]) -> str:
    if seen is None or seen.exit_code is None:
        return ""
    others = f" (the same on {', '.join(also)})" if also else ""
    return f"Exit code {seen.exit_code} on {host}{others}."


def _log_place(record: Record, host: str) -> str:
    if record.folder is None:
        return f"{record.keys.logs}/{host}"
    return str(log_of(record.folder, host, record.history.attempt))


def stopped(name: str, history: History, stopping: Stopping) -> JobStopped | None:
    """None unless the job was stopped."""
    if history.state.status is not Status.STOPPED:
        return None
    cause, reason = _why(history, stopping)
    kept = " What it had made by then is stored." if history.training_started else ""
    return JobStopped(name, cause, f"{reason}{kept}")


def _why(history: History, stopping: Stopping) -> tuple[StopCause, str]:
    match history.state.secondary:
        case Secondary.MAX_RUNTIME_EXCEEDED:
            limit = stopping.max_runtime_seconds
            named = f" of {limit} s" if limit else ""
            return StopCause.TIME_LIMIT, f"it reached its time limit{named} and was stopped."
        case Secondary.MAX_WAIT_EXCEEDED:
            return StopCause.TIME_LIMIT, "it waited longer than it was allowed to."
    if history.stopping_rule:
        return StopCause.RULE, f"the rule {history.stopping_rule!r} stopped it."
    return StopCause.SOMEBODY, "somebody stopped it."
