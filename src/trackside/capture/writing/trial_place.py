"""Where a trial is written, and whether this process is one of those that write it."""

import logging
from pathlib import Path

from trackside.capture.exceptions import SMDebugRuntimeError
from trackside.capture.trial_layout import END_MARKER
from trackside.capture.writing.distributed import claim, release
from trackside.errors import ObjectNotFound, StorageError
from trackside.settings import Settings
from trackside.storage.locate import Location, locate

logger = logging.getLogger(__name__)


class TrialPlace:
    """Refuses a place that holds a finished trial."""

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
        except OSError as error:  # a full disk, perhaps: the writer reports it, training goes on
            logger.warning("Nothing can be written to %r yet: %s", str(folder), error)
            return True
        logger.warning("Another process writes to %r; this one saves nothing.", str(folder))
        return False

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
