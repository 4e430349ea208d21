"""What a host reports while its attempt runs: its record for the other hosts and for readers, and
messages in the job's status about progress and about folders that wait for their store."""

import json
import time
from collections.abc import Callable, Mapping

from trackside.coordination.coordination import Coordination
from trackside.files.script_folder import ScriptFolder
from trackside.records.hosts import HostRecord, Phase, SyncState
from trackside.records.journal import History
from trackside.supervisor.context import Context

LAG_SECONDS = 60.0
"""A folder that waits longer than this for its store is reported in the job's status."""
LAGGING = "Training goes on; "
RECORD_SECONDS = 60.0
"""How often a host's record is written though nothing in it has changed."""
SENT_SECONDS = 15.0
"""How often it is written though only the amount of uploaded data has changed."""
MARKER_BYTES = 1 << 20


class HostReport:
    """Of one host in one attempt. The attempt changes the record, this writes it."""

    def __init__(
        self, context: Context, coordination: Coordination, record: HostRecord, lag_seconds: float
    ) -> None:
        self._context = context
        self._coordination = coordination
        self._record = record
        self._lag_seconds = lag_seconds
        self._reported: tuple[str, int] | None = None
        self._reported_at = 0.0
        self._was_waiting = False
        """Whether something waited for its store at the last check."""

    def write(self, phase: Phase | None = None) -> None:
        """Write the record, with this phase from now on."""
        self._record.phase = phase or self._record.phase
        self._coordination.announce(self._record)

    def progress(self) -> None:
        self.write()
        progress = self._record.progress
        if self._coordination.is_lead and progress.num_files:
            self._context.say(
                f"{progress.what}: {progress.done_files} of {progress.num_files} files"
            )

    def syncs(
        self, states: dict[str, SyncState], capture: str, history: Callable[[], History]
    ) -> None:
        """Write how far the uploads are, if others need to know; the lead reports a lag."""
        self._record.syncs, self._record.capture = states, capture
        if not self._is_due():
            return
        self.write()
        if not self._coordination.is_lead:
            return
        message = history().message
        lag, why = lag_message(self._coordination.records(), after_seconds=self._lag_seconds)
        if lag and not message.startswith(lag):
            self._context.say(lag + why)
        elif not lag and message.startswith(LAGGING):
            self._context.say("Training in progress. Sync has caught up.")

    def waiting_for_store(self, error: object) -> None:
        if self._coordination.is_lead:
            self._context.say(f"Waiting for the object store: {error}")

    def _is_due(self) -> bool:
        """Whether something has changed or waits. Each record costs a sync of the disk."""
        states = self._record.syncs.values()
        is_waiting = any(each.pending_bytes or each.error for each in states)
        problem, num_bytes = self._record.capture, sum(each.uploaded_bytes for each in states)
        pause = RECORD_SECONDS if (problem, num_bytes) == self._reported else SENT_SECONDS
        now = time.monotonic()
        is_known = self._reported is not None and self._reported[0] == problem
        was_waiting, self._was_waiting = self._was_waiting, is_waiting
        if is_known and not is_waiting and not was_waiting and now - self._reported_at < pause:
            return False
        self._reported, self._reported_at = (problem, num_bytes), now
        return True


def lag_message(records: Mapping[str, HostRecord], *, after_seconds: float) -> tuple[str, str]:
    """Which folder lags most and since when, and why; both '' when none does.

    The first text stays the same while the lag lasts and its kind of reason does.
    """
    lags = [
        (state.lag_seconds, name if len(records) == 1 else f"{name} of {host}", state)
        for host, record in records.items()
        for name, state in record.syncs.items()
        if state.lag_seconds > after_seconds
    ]
    if not lags:
        return "", ""
    from trackside.records.log_lines import stamp  # not for the start of a job

    _, name, state = max(lags, key=lambda lag: lag[0])
    since = f"{LAGGING}{name} was last synced at {stamp(state.last).decode().strip()}"
    if state.error:
        return f"{since}: ", state.error
    waits = f"{state.pending_files} files, {state.pending_bytes:,} bytes wait for {state.to}"
    return f"{since}, ", waits


def capture_problem(tensors: ScriptFolder) -> str:
    """The first error that the hook reported in its folder; it reports each kind once and
    continues.
    """
    try:
        first = json.loads(tensors.read("capture-errors.json", MARKER_BYTES))["errors"][0]
        return f"{first['where']}: {first['message']} ({first['count']} times)"
    except (OSError, ValueError, LookupError, TypeError):
        pass
    try:  # as written by `capture/other_frameworks`
        found = json.loads(tensors.read("not-watched.json", MARKER_BYTES))
        return f"not watched: {found['framework']}"
    except (OSError, ValueError, LookupError, TypeError):
        return ""
