"""A host's progress: its supervisor's record, for the other hosts and for readers."""

import time
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from trackside.files import damaged_files, durable
from trackside.files.json_record import Moment, record
from trackside.system import boot_clock


class Phase(StrEnum):
    PREPARING = "preparing"
    """Laying out /opt/ml, restoring checkpoints, downloading channels."""
    READY = "ready"
    """Waits for the other hosts, to start together."""
    RUNNING = "running"
    UPLOADING = "uploading"
    """The script is over and all its processes are gone; its folders are being synced."""
    ENDED = "ended"
    """Nothing of this host is left to do: its folders are synced."""

    @property
    def is_after_script(self) -> bool:
        return self in (Phase.UPLOADING, Phase.ENDED)


@dataclass(slots=True, kw_only=True)
class Progress:
    """A transfer under way; `what` is for people."""

    what: str = ""
    done_files: int = 0
    num_files: int = 0
    done_bytes: int = 0
    size_bytes: int = 0


@dataclass(slots=True, kw_only=True)
class LeftOut:
    """Files that a script made in its working folder and that are not kept, for one reason."""

    why: str = ""
    num_files: int = 0
    size_bytes: int = 0
    example: str = ""
    """The first of them by name."""


@dataclass(slots=True, kw_only=True)
class SyncState:
    """One folder that is copied to object storage while the job runs."""

    to: str = ""
    last: Moment = 0.0
    """When everything that was there had been uploaded (seconds since the epoch)."""
    lag_seconds: float = 0.0
    """How long ago that was, by the monotonic clock."""
    pending_files: int = 0
    pending_bytes: int = 0
    uploaded_bytes: int = 0
    error: str = ""
    """Why the last try did not work; empty when it did."""
    num_files: int = 0
    """Of the working folder: how many of its files are kept."""
    size_bytes: int = 0
    left_out: list[LeftOut] = field(default_factory=list)
    """Of the working folder, once the script is over."""


@dataclass(slots=True, kw_only=True)
class HostRecord:
    phase: Phase = Phase.PREPARING
    exit_code: int | None = None
    """The script's own exit code, a signal as its negative number; None while unknown."""
    ended_at: Moment = 0.0
    """When the script was seen to have ended (seconds since the epoch)."""
    ended: boot_clock.Moment | None = None
    """The same by a clock that is common to the hosts of one machine, and to no others."""
    lost: str = ""
    """Why there is no exit code although the script is gone, without being at fault."""
    cause: str = ""
    """Of its end, if that went wrong: a `death.Cause`. A text, as a later version may have others.
    """
    memory: str = ""
    """Who killed its script for lack of memory, if anybody: a `death.MemoryKiller`."""
    failure: str = ""
    """The text for FailureReason, with its category, when this host's part went wrong."""
    unsent: str = ""
    """Why something of this host could not be uploaded; it is still on its disk."""
    tail: str = ""
    """The last lines of the log of a host that failed."""
    isolation: str = ""
    """How /opt/ml is private: root, user or none."""
    image: str = ""
    """Of a container: what it was made of, as `sha256:…`."""
    limits: str = ""
    """Its resource limits, and whether the kernel enforces them; empty if its job requests none."""
    progress: Progress = field(default_factory=Progress)
    capture: str = ""
    """An error of the debugger's hook, if any; training continues."""
    syncs: dict[str, SyncState] = field(default_factory=dict)
    """By the folder's name as the script sees it."""

    @property
    def went_wrong(self) -> bool:
        return bool(self.failure or self.lost)

    def note_end(self) -> None:
        """The script was seen to have ended now."""
        self.ended_at, self.ended = time.time(), boot_clock.now()


def write(path: Path, host: HostRecord) -> None:
    """Before there is a script the record is only informative: after a power cut the host is
    prepared again, and no start has to wait for the disk.
    """
    durable.write_record(
        path,
        host,
        spends_ballast=host.phase.is_after_script,
        lasts=host.phase not in (Phase.PREPARING, Phase.READY),
    )


def read(path: Path) -> HostRecord | None:
    """None before the host's supervisor has written anything, and when it is damaged: it is written
    again with the next change.
    """
    return damaged_files.read(HostRecord, path)


def from_json(data: Any) -> HostRecord:
    """As a server sends it."""
    return record(HostRecord, data)
