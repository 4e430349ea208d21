"""Actions on jobs of this machine: stop one, or have it write its last steps."""

import re

from trackside.coordination.coordination import FLIGHT_RECORDER
from trackside.errors import TracksideError
from trackside.records.finding import Finding
from trackside.records.journal import Journal
from trackside.records.owners import Submitter
from trackside.records.spec import JOB_NAME
from trackside.records.status import Secondary, State, Status
from trackside.rules.action.action_errors import Refused
from trackside.rules.action.actions import StopTraining
from trackside.rules.watched_job import WatchedJob

_MESSAGE_MOST = 500


def stop_training(action: StopTraining, job: WatchedJob, finding: Finding) -> str:
    """Stop as `trackside stop` does: the rule's own job if the prefix matches or is empty; another
    only if both have the same owner.
    """
    why = f"Rule {finding.configuration!r} asked for it. {finding.message}"[:_MESSAGE_MOST]
    own = job.spec.name
    if own.lower().startswith(action.prefix.lower()):
        state = _stop(job.journal, why, finding)
        return f"{own} is {state.secondary}"
    found = _in_progress(job, action.prefix)
    if len(found) != 1:
        which = f"{len(found)} do: {', '.join(found[:5])}" if found else "none does"
        raise Refused(
            f"No job was stopped: exactly one of the same owner that is InProgress must begin with "
            f"{action.prefix!r}, and {which}."
        )
    journal = Journal(job.settings.layout.job(found[0]).journal)
    state = _stop(journal, f"{own}: {why}"[:_MESSAGE_MOST], finding)
    return f"{found[0]} is {state.secondary}"


def _stop(journal: Journal, why: str, finding: Finding) -> State:
    """The status change names its origin, for those following the job."""
    rule = finding.configuration
    return journal.try_move(Secondary.STOPPING, message=why, rule=rule).state


def ask_for_recorder(job: WatchedJob) -> str:
    hook = job.spec.debug_hook
    if hook is None or hook.parameters.get("ring", "0") in ("", "0"):
        raise Refused("The job's hook keeps no steps in memory. Set `ring` in its HookParameters.")
    try:
        job.ask_hosts(FLIGHT_RECORDER)
    except OSError as error:
        raise Refused(f"The hook cannot be notified: {error.strerror}.") from None
    return "the hook writes its last steps at the end of the next one"


def _in_progress(job: WatchedJob, prefix: str) -> list[str]:
    """Jobs of the same owner. Names are compared in lower case, as SageMaker's prefixes are."""
    found = []
    home, owner = job.settings.layout, Submitter.of(job.history).owner
    for path in sorted(home.jobs.iterdir()):
        name = path.name
        if not re.fullmatch(JOB_NAME, name) or not name.lower().startswith(prefix.lower()):
            continue
        try:
            history = Journal(home.job(name).journal).read()
        except (TracksideError, OSError, ValueError):
            continue  # another process is doing it
        if history.state.status is Status.IN_PROGRESS and Submitter.of(history).owner == owner:
            found.append(name)
    return found
