"""Job statuses as the contract names them, which may follow which, and which are final."""

from enum import StrEnum

from trackside.errors import MoveRefused
from trackside.quick_dataclass import dataclass


class Status(StrEnum):
    IN_PROGRESS = "InProgress"
    STOPPING = "Stopping"
    COMPLETED = "Completed"
    FAILED = "Failed"
    STOPPED = "Stopped"

    @property
    def is_final(self) -> bool:
        return self in (Status.COMPLETED, Status.FAILED, Status.STOPPED)


class Secondary(StrEnum):
    """The finer status. A job that is being stopped may still show `Uploading`."""

    STARTING = "Starting"
    PENDING = "Pending"
    DOWNLOADING = "Downloading"
    TRAINING = "Training"
    UPLOADING = "Uploading"
    INTERRUPTED = "Interrupted"
    RESTARTING = "Restarting"
    STOPPING = "Stopping"
    COMPLETED = "Completed"
    FAILED = "Failed"
    STOPPED = "Stopped"
    MAX_RUNTIME_EXCEEDED = "MaxRuntimeExceeded"
    MAX_WAIT_EXCEEDED = "MaxWaitTimeExceeded"

    @property
    def is_final(self) -> bool:
        return self in _FINAL


class StopCause(StrEnum):
    """Why a job is `Stopped`."""

    RULE = "rule"
    TIME_LIMIT = "time_limit"
    SOMEBODY = "somebody"


_FINAL = {
    Secondary.COMPLETED: Status.COMPLETED,
    Secondary.FAILED: Status.FAILED,
    Secondary.STOPPED: Status.STOPPED,
    Secondary.MAX_RUNTIME_EXCEEDED: Status.STOPPED,
    Secondary.MAX_WAIT_EXCEEDED: Status.STOPPED,
}

_S = Secondary
_ENDS = {_S.FAILED, _S.STOPPED, _S.STOPPING, _S.MAX_RUNTIME_EXCEEDED, _S.MAX_WAIT_EXCEEDED}
_AGAIN = {_S.INTERRUPTED, _S.RESTARTING}

MOVES: dict[Secondary, frozenset[Secondary]] = {
    _S.STARTING: frozenset({_S.PENDING, _S.DOWNLOADING} | _ENDS | _AGAIN),
    _S.PENDING: frozenset({_S.STARTING} | _ENDS),
    _S.DOWNLOADING: frozenset({_S.TRAINING} | _ENDS | _AGAIN),
    _S.TRAINING: frozenset({_S.UPLOADING} | _ENDS | _AGAIN),
    _S.UPLOADING: frozenset({_S.COMPLETED} | _ENDS | _AGAIN),
    _S.INTERRUPTED: frozenset({_S.STARTING} | _ENDS),
    _S.RESTARTING: frozenset({_S.STARTING} | _ENDS),
    _S.STOPPING: frozenset({_S.UPLOADING} | (_ENDS - {_S.STOPPING})),
    **{final: frozenset() for final in _FINAL},
}
"""Allowed transitions. Nothing follows a final status."""

MESSAGES: dict[Secondary, str] = {
    _S.STARTING: "Starting the training job",
    _S.PENDING: "Waiting for resources",
    _S.DOWNLOADING: "Downloading input data",
    _S.TRAINING: "Training in progress.",
    _S.UPLOADING: "Uploading generated training model",
    _S.INTERRUPTED: "Training job interrupted",
    _S.RESTARTING: "Restarting the training job",
    _S.STOPPING: "Stopping the training job",
    _S.COMPLETED: "Training job completed",
    _S.FAILED: "Training job failed",
    _S.STOPPED: "Training job stopped",
    _S.MAX_RUNTIME_EXCEEDED: "Training job runtime exceeded MaxRuntimeInSeconds",
    _S.MAX_WAIT_EXCEEDED: "Training job waited longer than MaxWaitTimeInSeconds",
}


@dataclass(frozen=True, slots=True)
class State:
    """Both statuses of one job at one moment."""

    status: Status
    secondary: Secondary

    @property
    def is_final(self) -> bool:
        return self.status.is_final

    @property
    def is_queued(self) -> bool:
        """Waits for a server to start it; none of its processes run."""
        return self.secondary is Secondary.PENDING and self.status is Status.IN_PROGRESS

    def after(self, move: Secondary, *, unseen: bool = False) -> "State":
        """The state this move leads to; `MoveRefused` when it may not follow. See `can_follow`."""
        if not can_follow(self, move, unseen=unseen):
            raise MoveRefused(
                f"A job that is {self.secondary} cannot become {move}. "
                + (
                    "Final statuses never change."
                    if self.is_final
                    else f"It can become {', '.join(sorted(MOVES[self.secondary]))}."
                )
            )
        if move in _FINAL:
            return State(_FINAL[move], move)
        stopping = self.status is Status.STOPPING or move is Secondary.STOPPING
        return State(Status.STOPPING if stopping else Status.IN_PROGRESS, move)


FIRST = State(Status.IN_PROGRESS, Secondary.STARTING)


def can_follow(state: State, move: Secondary, *, unseen: bool = False) -> bool:
    """`unseen`: there may have been moves in between that can no longer be read."""
    if state.status is Status.STOPPING and move in (_S.COMPLETED, _S.STOPPING, *_AGAIN):
        return False  # a job requested to stop ends Stopped (or Failed), and is not restarted
    return not state.is_final if unseen else move in MOVES[state.secondary]
