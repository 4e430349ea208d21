"""Frees the disk of a job's hosts when everything is in storage."""

import shutil
from collections.abc import Iterable

from trackside.records.journal import History
from trackside.records.layout import JobFolder
from trackside.records.status import Status

KEPT = "kept"
"""A note in the journal: something could not be uploaded, and all hosts keep their files."""


def free_disk(folder: JobFolder, hosts: Iterable[str], history: History) -> None:
    """A failed job keeps its folders for inspection, without its input."""
    for host in hosts:
        for number in range(1, history.attempt + 1):
            _free(folder, host, number, failed=history.state.status is Status.FAILED)
    folder.ballast.unlink(missing_ok=True)


def keeps_files(history: History) -> bool:
    """Whether a job that has ended could not upload everything."""
    return any(note.get("what") == KEPT for note in history.notes)


def _free(job: JobFolder, host: str, attempt: int, *, failed: bool) -> None:
    folder = job.host(host, attempt)
    shutil.rmtree(folder.private, ignore_errors=True)
    if failed:
        folder.script_folder(folder.ml).remove_tree("input/data")
        return
    for path in (folder.ml, folder.mounts):
        shutil.rmtree(path, ignore_errors=True)
