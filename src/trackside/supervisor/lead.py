"""The lead host's final tasks: decide how the job ends, publish its artifacts, write its end."""

import logging
import time
from dataclasses import replace
from functools import partial

from trackside.coordination.coordination import Why
from trackside.files.disk_failure import means_full
from trackside.records import pending_uploads
from trackside.records.death import Death, Evidence, cause_of
from trackside.records.hosts import HostRecord, Phase
from trackside.records.journal import RETRY, Journal
from trackside.records.layout import JobKeys
from trackside.records.status import Secondary
from trackside.supervisor.attempt import Attempt
from trackside.supervisor.free_disk import KEPT, free_disk
from trackside.supervisor.outcome import REASON_LENGTH, Again, End, Interrupted, decide
from trackside.supervisor.publish import Publisher, until

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.05
_NOTHING = (
    "Training job completed. Nothing was written to /opt/ml/model or the working folder: what a "
    "script writes elsewhere is gone with its job"
)


def conclude(attempt: Attempt) -> bool:
    """Called when the lead's own script is over. Afterwards the job has ended, or is restarted.
    Whether the latter is not for the present hosts."""
    records = _wait_for_all(attempt)
    if why := attempt.coordination.is_over():
        attempt.leave(why)
        return True
    context = attempt.context
    history = context.journal.read()
    outcome = decide(
        history.state,
        records,
        attempt.coordination.ordered_end(),
        earlier=[each for each in history.earlier_deaths if each.attempt != attempt.number],
        max_attempts=context.spec.max_attempts,
        is_one_machine=attempt.coordination.is_one_machine,
    )
    if isinstance(outcome, Again) and _lacks_a_machine(attempt):
        outcome = Interrupted(outcome.reason, outcome.death)
    seconds = round(attempt.gang.running_seconds(), 3)
    match outcome:
        case Interrupted(reason=reason, death=death):
            note_retry(context.journal, attempt.number, reason, seconds, death)
            context.journal.try_move(Secondary.INTERRUPTED, message=reason)
            return True
        case Again(reason=reason, death=death):
            start_again(context.journal, attempt.number, reason, seconds, death)
        case End():
            _finish(attempt, outcome, records)
    return False


def _lacks_a_machine(attempt: Attempt) -> bool:
    """Whether another host is gone that only its engine could replace."""
    return not attempt.coordination.is_one_machine and bool(attempt.peers.check())


def _wait_for_all(attempt: Attempt) -> dict[str, HostRecord]:
    """Until every other host has ended, or is known to be gone. A failure ends them too. Who is no
    lead any more waits for nobody: the others do not tell it how they are."""
    coordination = attempt.coordination
    if attempt.record.went_wrong:
        coordination.order_end(Why.HOST_FAILED, attempt.context.host)
    while True:
        records = coordination.records()
        waiting = {host for host, record in records.items() if record.phase is not Phase.ENDED}
        if not waiting or coordination.is_over():
            return records
        attempt.tick_while_uploading()  # the time limit still applies to the others
        if lost := attempt.peers.check():
            coordination.order_end(Why.HOST_LOST, lost[0])
            if waiting.issubset(lost):
                return records
        time.sleep(POLL_SECONDS)


def note_retry(journal: Journal, number: int, reason: str, seconds: float, death: Death) -> None:
    """This attempt, which ran this long, is followed by another."""
    journal.note(RETRY, attempt=number, reason=reason, seconds=seconds, **death.line)


def start_again(journal: Journal, number: int, reason: str, seconds: float, death: Death) -> None:
    """From this attempt, which ran this long, to the next. May be repeated after a crash at any
    line.
    """
    message = f"Attempt {number} ended: {reason}"
    note_retry(journal, number, reason, seconds, death)
    if journal.try_move(Secondary.RESTARTING, message=message).state.is_final:
        return
    following = number + 1
    journal.try_move(Secondary.STARTING, attempt=following, message=f"Starting attempt {following}")


def _finish(attempt: Attempt, end: End, records: dict[str, HostRecord]) -> None:
    context = attempt.context
    journal = context.journal
    publisher = Publisher(context.spec, context.folder, attempt.number, context.settings.home)
    deadline = time.monotonic() + context.settings.upload_deadline_seconds
    unsent = next((record.unsent for record in records.values() if record.unsent), "")
    # Of hosts on other machines: their files are there only.
    may_miss = {
        host for host, record in records.items() if record.unsent or record.phase is not Phase.ENDED
    }

    def waiting(error: str) -> None:
        context.say(f"Waiting to upload: {error}")

    if journal.read().has_trained(attempt.number):
        journal.try_move(Secondary.UPLOADING)
        # A script that we did not start has /opt/ml only for its curves: it manages its own files.
        has_model = end.keeps_model and not context.spec.is_attached
        publish = partial(publisher.publish, model=has_model, may_miss=may_miss)
        unsent = until(deadline, publish, waiting) or unsent
    pending_uploads.note(context.settings.layout, context.spec.name, keeps_files=bool(unsent))
    if unsent:
        journal.note(KEPT)
    may_be_empty = end.secondary is Secondary.COMPLETED and not context.spec.is_attached
    message = _NOTHING if may_be_empty and publisher.is_empty(records) else ""
    if unsent:
        end = with_unsent(end, unsent, _kept(attempt, unsent, publisher.hosts_here))
    write_end(journal, end, message=message)
    wind_up(attempt, deadline)


def wind_up(attempt: Attempt, deadline: float) -> None:
    """Everything after the final status: upload the journal, finish the rules, free the disk.

    Repeated by the next supervisor, should this one die before it is done.
    """
    context, home = attempt.context, attempt.context.settings.layout
    publisher = Publisher(context.spec, context.folder, attempt.number, context.settings.home)
    error = until(deadline, publisher.put_end, lambda error: None)
    attempt.rules.see_out()
    if error:
        logger.error("The journal could not be uploaded: %s", error)
        if publisher.is_over():  # it never will be
            pending_uploads.forget(home, context.spec.name)
        return
    if pending_uploads.keeps_files(home, context.spec.name) is False:
        until(deadline, publisher.remove_parts, lambda error: None)
        free_disk(context.folder, publisher.hosts_here, context.journal.read())
    pending_uploads.forget(home, context.spec.name)


def with_unsent(end: End, unsent: str, kept: str) -> End:
    """A job whose output could not be uploaded for this reason has failed, of that if of nothing
    else. `kept` says where it is. Pure."""
    if end.secondary is Secondary.FAILED:
        return replace(end, reason=f"{end.reason} Also: {kept}"[:REASON_LENGTH])
    is_full = means_full(unsent)
    cause = cause_of(Evidence(error="store_unreachable", is_disk_full=is_full))
    return End(Secondary.FAILED, kept[:REASON_LENGTH], death=Death(cause=cause))


def write_end(journal: Journal, end: End, *, message: str = "") -> None:
    """The one final status. A stop that came while uploading turns Completed into Stopped."""
    moved = journal.try_move(
        end.secondary, reason=end.reason, message=message or None, death=end.death
    )
    if not moved.state.is_final:
        journal.try_move(Secondary.STOPPED)


def _kept(attempt: Attempt, unsent: str, hosts_here: tuple[str, ...]) -> str:
    context = attempt.context
    rest = "It" if hosts_here == context.spec.hosts else f"What {context.host} has"
    return (
        f"InternalServerError: the output could not be uploaded to "
        f"{JobKeys.of(context.spec).prefix}: {unsent} {rest} is kept in "
        f"{context.folder.root}; `trackside upload {context.spec.name}` sends it."
    )
