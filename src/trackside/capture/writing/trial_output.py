"""Where a trial is written, and which of several training processes writes it."""

import logging
import os
import sys
from pathlib import Path

import torch

from trackside.capture.exceptions import SMDebugRuntimeError
from trackside.capture.trial_layout import CLAIM, END_MARKER
from trackside.errors import ObjectNotFound, StorageError
from trackside.files import durable
from trackside.files.permissions import BY_UMASK
from trackside.settings import Settings
from trackside.storage.locate import Location, locate

logger = logging.getLogger(__name__)


def rank_and_size() -> tuple[int, int]:
    """Of the process group if it exists by now; a single process is 0 of 1."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    horovod = sys.modules.get("horovod.torch")
    if horovod is not None and horovod.is_initialized():
        return horovod.rank(), horovod.size()
    return 0, 1


def claim(folder: Path) -> bool:
    """Become the one writer among processes without a group. A dead process loses its claim."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / CLAIM
    for _ in range(2):
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            if _is_alive(path):
                return False
            path.unlink(missing_ok=True)
            continue
        with os.fdopen(descriptor, "w") as file:
            file.write(str(os.getpid()))
        return True
    return False


def release(folder: Path) -> None:
    path = folder / CLAIM
    if path.is_file() and path.read_text() == str(os.getpid()):
        path.unlink(missing_ok=True)


def _is_alive(path: Path) -> bool:
    try:
        pid = int(path.read_text())
        os.kill(pid, 0)
    except (ProcessLookupError, FileNotFoundError):
        return False
    except (ValueError, PermissionError):
        return True
    return pid != os.getpid()


class TrialOutput:
    """Refuses a location with a finished trial."""

    def __init__(
        self, out_dir: str, *, rank: int, num_workers: int, all_write: bool, dry_run: bool
    ) -> None:
        self.location = _unfinished(out_dir)
        self._claimed: Path | None = None
        folder = self.location.local
        if all_write:
            self.is_writer = True
        elif num_workers > 1 or folder is None or dry_run:
            self.is_writer = rank == 0
        else:
            self.is_writer = self._claim(folder)

    def _claim(self, folder: Path) -> bool:
        if folder.is_file():
            raise SMDebugRuntimeError(f"{str(folder)!r} is a file. Name a folder as out_dir.")
        try:
            if claim(folder):
                self._claimed = folder
                return True
        except OSError as error:  # a full disk, perhaps: the writer reports it, training continues
            logger.warning("Nothing can be written to %r yet: %s", str(folder), error)
            return True
        logger.warning("Another process writes to %r; this one saves nothing.", str(folder))
        return False

    def put(self, name: str, text: str) -> None:
        """A small file, also of a process that writes nothing else."""
        folder = self.location.local
        if folder is None:
            place = self.location.child(name)
            place.store.put(place.key, text.encode())
            return
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        durable.write_bytes(path, text.encode(), mode=BY_UMASK, spends_ballast=False, lasts=False)

    def release(self) -> None:
        if self._claimed is not None:
            release(self._claimed)


def _unfinished(out_dir: str) -> Location:
    location = locate(out_dir, home=Settings.load().home)
    marker = location.child(END_MARKER)
    try:
        marker.store.stat(marker.key)
    except ObjectNotFound:
        return location
    except StorageError as error:  # the store may be back when the first segment is written
        logger.warning("Could not see whether %r holds a finished trial: %s", out_dir, error)
        return location
    raise SMDebugRuntimeError(
        f"{out_dir!r} holds a finished trial ({END_MARKER} is there). "
        "Name another out_dir, or remove that one."
    )
