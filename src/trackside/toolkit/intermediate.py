"""Uploads <base>/output/intermediate while the script runs, if no platform does.

That is: in an image with our `train` on another platform, which sets `sagemaker_s3_output` and has
not created the folder itself. Trackside's own supervisors create the folder and sync it.
"""

import os
from collections.abc import Iterator
from typing import Any

from trackside.errors import ToolkitError
from trackside.system.worker import Worker
from trackside.toolkit import log
from trackside.toolkit.environment import Job
from trackside.toolkit.object_store import open_bucket

SCAN_SECONDS = 1.0
LAST_SECONDS = 60.0
"""For what is left when the script has ended: a platform waits 120 s after its stop."""

State = tuple[int, int]
"""Size and time of a file."""


class IntermediateUpload:
    """A file is uploaded when two scans in a row saw it unchanged, and again at the end if it
    changed.

    Files removed here are kept in the bucket. No error here fails the training.
    """

    def __init__(self, folder: str, bucket: Any, prefix: str) -> None:
        self._folder = folder
        self._bucket = bucket
        self._prefix = prefix
        self._seen: dict[str, State] = {}
        self._sent: dict[str, State] = {}
        self._failed: dict[str, str] = {}
        self._worker = Worker(
            "intermediate-output",
            lambda: self._scan(at_end=False),
            interval=SCAN_SECONDS,
            delay=SCAN_SECONDS,
            at_end=lambda: self._scan(at_end=True),
        )
        self._worker.start()

    def close(self) -> None:
        """The script has ended: upload the rest."""
        self._worker.request_stop()
        try:
            has_ended = self._worker.join(LAST_SECONDS)
        except OSError as error:
            log.warning(f"Intermediate output was not uploaded: {error}")
            return
        if not has_ended:
            log.warning(f"Intermediate output was not uploaded within {LAST_SECONDS:.0f} s.")
        for name, reason in self._failed.items():
            log.warning(f"Intermediate output {name!r} was not uploaded: {reason}")

    def _scan(self, *, at_end: bool) -> None:
        found = dict(_files(self._folder))
        for name, state in found.items():
            is_settled = at_end or self._seen.get(name) == state
            if is_settled and self._sent.get(name) != state:
                self._send(name, state)
        self._seen = found

    def _send(self, name: str, state: State) -> None:
        import obstore

        self._failed.pop(name, None)
        path = os.path.join(self._folder, name)
        try:
            with open(path, "rb") as file:
                obstore.put(self._bucket, self._prefix + name, file)
        except Exception as error:  # noqa: BLE001 obstore's have no base of their own for all
            if os.path.exists(path):  # otherwise the script has removed it since
                self._failed[name] = str(error).partition("\n")[0]
            return
        self._sent[name] = state


def start_upload(job: Job) -> IntermediateUpload | None:
    """None if there is nothing to do. Call it before the folder is created."""
    target, folder = job.s3_output, job.environment.output_intermediate_dir
    if not target or target.startswith("file://") or os.path.isdir(folder):
        return None
    bucket, _, prefix = target.removeprefix("s3://").partition("/")
    if not target.startswith("s3://") or not bucket:
        raise ToolkitError(
            f"sagemaker_s3_output is {target!r}, and intermediate output goes to s3:// or file://. "
            "Give an s3:// address of a bucket."
        )
    try:
        store = open_bucket(bucket, job.settings, "Uploading intermediate output")
    except ToolkitError as missing:
        log.warning(str(missing))
        return None
    os.makedirs(folder)
    parts = (prefix.strip("/"), job.settings.job_name or "", "output", "intermediate", "")
    return IntermediateUpload(folder, store, "/".join(parts).lstrip("/"))


def _files(folder: str) -> Iterator[tuple[str, State]]:
    """Regular files below it, by their path in it; links are not followed."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            try:
                status = os.lstat(path)
            except FileNotFoundError:
                continue
            if os.path.isfile(path) and not os.path.islink(path):
                yield os.path.relpath(path, folder), (status.st_size, status.st_mtime_ns)
