"""Jobs whose final status is written while their last upload is not done.

The lead's supervisor notes such a job before it writes the final status, and removes the note when
the journal is in storage and the disk is freed. Should it die in between, the next reconciliation
finds the note and restarts it. A job that ends while queued has no supervisor: the process that
ends it writes the note, and `jobs/reconcile` uploads what could not be uploaded then.
"""

import os
from contextlib import suppress

from trackside.files import durable
from trackside.records.layout import Home

_KEEPS = b"keeps its files\n"


def note(home: Home, job: str, *, keeps_files: bool) -> None:
    """`keeps_files`: what could not be uploaded stays on disk."""
    home.ending.mkdir(mode=0o700, parents=True, exist_ok=True)
    durable.write_bytes(home.ending / job, _KEEPS if keeps_files else b"", mode=0o600)


def keeps_files(home: Home, job: str) -> bool | None:
    """None when the job is not noted."""
    try:
        return (home.ending / job).read_bytes() == _KEEPS
    except FileNotFoundError:
        return None


def forget(home: Home, job: str) -> None:
    (home.ending / job).unlink(missing_ok=True)


def noted(home: Home) -> list[str]:
    with suppress(FileNotFoundError):
        return sorted(name for name in os.listdir(home.ending) if not name.startswith("."))
    return []
