"""Decides how a job ends from its hosts' records. Pure: no files, no clock."""

from collections.abc import Mapping, Sequence

from trackside.coordination.coordination import EndOrder, Why
from trackside.quick_dataclass import dataclass
from trackside.records.death import Cause, Death, Evidence, Gone, cause_of, may_try_again
from trackside.records.hosts import HostRecord
from trackside.records.journal import History
from trackside.records.status import Secondary, State, Status
from trackside.texts.truncation import shortened

REASON_LENGTH = 1024
"""Maximum length of a FailureReason in the contract."""


@dataclass(frozen=True, slots=True)
class Again:
    """Start another attempt: the script was not at fault."""

    reason: str
    death: Death


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The hosts must be given back: the job waits for others."""

    reason: str
    death: Death


@dataclass(frozen=True, slots=True)
class End:
    secondary: Secondary
    reason: str | None = None
    keeps_model: bool = True
    death: Death | None = None
    """None if it completed or was stopped."""


def decide(
    state: State,
    records: Mapping[str, HostRecord],
    order: EndOrder | None,
    *,
    earlier: Sequence[Death] = (),
    max_attempts: int = 1,
    is_one_machine: bool = True,
) -> Again | Interrupted | End:
    """`earlier` attempts have ended by these. `is_one_machine`: the lead lives on the machine of a
    host that is lost."""
    if state.status is Status.STOPPING:
        return End(Secondary.STOPPED)
    if order and order.why in (Why.MAX_RUNTIME, Why.ENGINE_TIME_LIMIT):
        death = Death(cause=cause_of(Evidence(is_time_over=True)))
        return End(Secondary.MAX_RUNTIME_EXCEEDED, death=death)
    if order and order.why is Why.ENGINE_TAKES_BACK:
        return _taken_back(order.host, earlier, max_attempts)
    wrong = first_wrong(records, order, Gone.PROCESSES if is_one_machine else Gone.MACHINE)
    if wrong is None:
        return End(Secondary.COMPLETED)
    host, record = wrong
    death = Death(cause=_cause(record), host=host, memory=record.memory)
    if record.lost and may_try_again(death.cause, earlier, max_attempts):
        return Again(f"{host}: {record.lost}", death)
    reason = failure_reason(host, record, len(records))
    return End(Secondary.FAILED, reason, keeps_model=False, death=death)


def _taken_back(host: str, earlier: Sequence[Death], max_attempts: int) -> Interrupted | End:
    death = Death(cause=cause_of(Evidence(gone=Gone.TAKEN)), host=host)
    if may_try_again(death.cause, earlier, max_attempts):
        return Interrupted(f"The engine takes back the machine of {host}", death)
    reason = (
        f"InternalServerError: the engine took back the machine of {host}, and "
        f"{len(earlier)} attempts have ended before; no other one is made"
    )
    return End(Secondary.FAILED, reason, keeps_model=False, death=death)


def _cause(record: HostRecord) -> Cause:
    """As the host has decided it; it may be of an earlier version, which did not."""
    try:
        return Cause(record.cause)
    except ValueError:
        gone = Gone.PROCESSES if record.lost else None
        return cause_of(Evidence(gone=gone, exit_code=record.exit_code))


def must_end(history: History, attempt: int, order: EndOrder | None) -> bool:
    """Whether the scripts of this attempt must end: the job is being stopped or continues without
    it, or the lead has ordered it.
    """
    over = history.state.status is not Status.IN_PROGRESS or history.attempt != attempt
    return over or order is not None


def why_end(
    records: Mapping[str, HostRecord],
    lost: Sequence[str],
    *,
    runtime_seconds: float,
    max_runtime_seconds: float | None,
) -> tuple[Why, str] | None:
    """Why the lead, which is the first host, must order all scripts to end now, and because of
    which host; None to let them run."""
    if (failed := failed_peer(records)) is not None:
        return Why.HOST_FAILED, failed
    if lost:
        return Why.HOST_LOST, lost[0]
    if are_over(records):
        return None  # only uploads are left, which have a deadline of their own
    if max_runtime_seconds is not None and runtime_seconds > max_runtime_seconds:
        return Why.MAX_RUNTIME, next(iter(records))
    return None


def failed_peer(records: Mapping[str, HostRecord]) -> str | None:
    """Of several hosts, the one whose failure ends the others."""
    failed = {
        host: record
        for host, record in records.items()
        if record.phase.is_after_script and record.went_wrong
    }
    if not failed or len(records) == 1:
        return None
    return _earliest(failed) or next(iter(failed))


def are_over(records: Mapping[str, HostRecord]) -> bool:
    return all(record.phase.is_after_script for record in records.values())


def first_wrong(
    records: Mapping[str, HostRecord], order: EndOrder | None, lost_with: Gone = Gone.MACHINE
) -> tuple[str, HostRecord] | None:
    """The host that failed first; other failures are mostly its consequences. `lost_with`: what is
    gone of a host that left no record.

    Of hosts on several machines, whose clocks cannot be compared, the one that the lead saw first
    and ordered the end for.
    """
    wrong = {host: record for host, record in records.items() if record.went_wrong}
    if wrong:
        seen = order.host if order and order.host in wrong else next(iter(wrong))
        first = _earliest(wrong) or seen
        return first, wrong[first]
    if order and order.why is Why.HOST_LOST:
        lost = f"the supervisor of {order.host} and its script are gone"
        cause = cause_of(Evidence(gone=lost_with))
        return order.host, HostRecord(lost=lost, cause=cause)
    return None


def _earliest(records: Mapping[str, HostRecord]) -> str | None:
    """Whose script ended first; None unless one clock has timed them all."""
    ends = {host: record.ended for host, record in records.items() if record.ended is not None}
    boots = {ended.boot_id for ended in ends.values()}
    if len(ends) < len(records) or len(boots) != 1 or "" in boots:
        return None
    return min(ends, key=lambda host: ends[host].seconds)


def failure_reason(host: str, record: HostRecord, num_hosts: int) -> str:
    text = record.failure or f"InternalServerError: {record.lost}"
    if num_hosts > 1:
        category, _, rest = text.partition(": ")
        text = f"{category}: {host}: {rest}"
    return shortened(text, REASON_LENGTH)


def algorithm_error(text: str, code: int) -> str:
    """The contract's form: category, text, exit code; the text may be cut, never the code."""
    head, tail = "AlgorithmError: ", f", exit code: {code}"
    space = REASON_LENGTH - len(head) - len(tail) - len("algo-1000: ")
    return f"{head}{shortened(text.strip(), space)}{tail}"
