"""Why a job ended as Stopped, for people and for exit codes. Pure: decided from its records."""

from trackside.errors import JobStopped
from trackside.records.journal import History
from trackside.records.spec import Stopping
from trackside.records.status import Secondary, Status, StopCause


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
