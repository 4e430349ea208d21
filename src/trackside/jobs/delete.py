"""Forgets a job that has ended: its folder here and its record in storage.

What the job made (model, output, checkpoints, tensors, event files under a TensorBoard location)
is the user's and stays, unless the caller names it: `stored_data` says what may be removed.
"""

import time
from collections.abc import Iterable
from contextlib import suppress

from trackside.errors import JobNotFinished
from trackside.jobs.curve_claims import release
from trackside.jobs.records import Record
from trackside.jobs.stored_data import Stored, remove
from trackside.jobs.submit import withdraw
from trackside.records import evaluator_process
from trackside.records.host_processes import is_supervised
from trackside.records.layout import Home, JobFolder, JobKeys
from trackside.storage.locate import locate

_LAST_WORDS_SECONDS = 30.0
"""A supervisor stores the journal after the end has been told, and leaves; where the machine or the
store is busy, that takes a while."""
_LOOK_SECONDS = 0.05


def delete(record: Record, home: Home, data: Iterable[Stored] = ()) -> None:
    """Data first, then the record in storage: a crash in between leaves a job that can be deleted
    again."""
    check_ended(record)
    for each in data:
        remove(each, home)
    _delete_record(record.keys, home)
    release(record.spec, home)
    if record.folder is not None:
        with suppress(FileNotFoundError):  # the disk was freed of it meanwhile
            withdraw(record.folder, home)


def check_ended(record: Record) -> None:
    """`JobNotFinished` while anything of it is at work."""
    if not record.history.state.is_final:
        raise JobNotFinished(
            f"Job {record.spec.name!r} is {record.history.state.secondary}. "
            "Only jobs that have ended can be deleted; stop it first."
        )
    if record.folder is not None:
        _await_quiet(record.folder)


def _await_quiet(folder: JobFolder) -> None:
    deadline = time.monotonic() + _LAST_WORDS_SECONDS
    while is_supervised(folder) or evaluator_process.is_alive(folder.rules):
        if time.monotonic() > deadline:
            raise JobNotFinished(
                f"Job {folder.root.name!r} has ended, but its last processes are still at work: "
                "rules that read what it saved, or uploads. Delete it again in a while."
            )
        time.sleep(_LOOK_SECONDS)


def _delete_record(keys: JobKeys, home: Home) -> None:
    """`job.json` last: it is what makes the rest a job."""
    # From the output on, so that a folder that becomes empty goes too.
    spec = locate(keys.output, home=home.root).child(keys.spec.removeprefix(f"{keys.output}/"))
    folder = spec.key.rpartition("/")[0]
    others = [entry.key for entry in spec.store.list(f"{folder}/") if entry.key != spec.key]
    spec.store.delete(others)
    spec.store.delete([spec.key])
