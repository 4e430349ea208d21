"""What is said when a folder waits too long for its store."""

from collections.abc import Mapping

from trackside.records.hosts import HostRecord
from trackside.records.log_lines import stamp

LAG_SECONDS = 60.0
"""A folder that waits longer than this for its store is told about, loudly."""
LAGGING = "Training goes on; "


def lag_message(records: Mapping[str, HostRecord], *, after_seconds: float) -> tuple[str, str]:
    """What people must know of the folder that lags most, and why; both '' when none does.

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
    _, name, state = max(lags, key=lambda lag: lag[0])
    since = f"{LAGGING}{name} was last synced at {stamp(state.last).decode().strip()}"
    if state.error:
        return f"{since}: ", state.error
    waits = f"{state.pending_files} files, {state.pending_bytes:,} bytes wait for {state.to}"
    return f"{since}, ", waits
