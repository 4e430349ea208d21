"""Finds and removes what a home no longer needs. `retention` decides.

Unfinished jobs are not touched: not while a supervisor or the evaluator of its rules lives, its
last upload is not done, or its output exists only here. A part of the home that is a link to
another disk is left alone.
"""

import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from trackside.errors import StorageError
from trackside.files.overlays import is_complete, remove_unused
from trackside.jobs.disk_use import DiskUse
from trackside.jobs.drafts import DRAFT_SECONDS
from trackside.jobs.index import JobSummary
from trackside.jobs.records import UNREADABLE, Record, publish_journal, read_folder
from trackside.jobs.retention import Item, Keep, Kind, decide, within_quota
from trackside.jobs.start_supervisor import locked
from trackside.jobs.stored_data import Stored, Use, judged, remove, stored_by, uses
from trackside.jobs.submit import withdraw
from trackside.quick_dataclass import dataclass
from trackside.records import evaluator_process, pending_uploads
from trackside.records.host_processes import is_supervised
from trackside.records.layout import Home, HostFolder, JobFolder
from trackside.storage.locate import locate, locate_object
from trackside.storage.partial_file import is_temporary, remove_if_abandoned

logger = logging.getLogger(__name__)

_UNFINISHED = re.compile(r"\..+\.\d+-\d+\.part")
"""Names of `durable`'s temporary files."""
_OURS_FAILED = "InternalServerError"
_UPLOADED = "uploaded"


@dataclass(frozen=True, slots=True)
class Disk:
    home: Home
    rows: Callable[[], Sequence[JobSummary]]
    """All jobs of this home."""
    record: Callable[[str], Record]
    is_listed: Callable[[str], bool]
    """Whether the index has the job's end, and so finds it without its folder."""
    use: DiskUse

    def find(self, keep: Keep) -> list[Item]:
        """What to remove, in order. Removes nothing."""
        now = time.time()
        used = size_of(self.home.root) if keep.size_bytes is not None else 0
        found = [*self._leftovers(now), *self._overlays(), *self._ended_jobs()]
        chosen = decide(found, keep, now=now, used_bytes=used)
        if keep.size_bytes is not None:
            left = used - sum(item.size_bytes for item in chosen)
            if left > keep.size_bytes:
                found += self._data(left - keep.size_bytes)
                chosen = decide(found, keep, now=now, used_bytes=used)
        return [item for item in chosen if item.kind is not Kind.FOLDER or self._is_stored(item)]

    def used_by(self, owners: Collection[str]) -> dict[str, int]:
        """Bytes that the jobs of each owner use. Walks through all of their files."""
        return self.use.of(owners, self.rows())

    def find_beyond(
        self, owner: str, quota_bytes: int, used_bytes: int, going: Sequence[Item] = ()
    ) -> list[Item]:
        """What to remove of one owner's finished jobs to fit a quota, besides what is removed
        anyway. Removes nothing.
        """
        used_bytes -= sum(item.size_bytes for item in going if item.owner == owner)
        if used_bytes <= quota_bytes:
            return []
        choose = partial(within_quota, quota_bytes=quota_bytes, used_bytes=used_bytes)
        found = [item for item in self._ended_jobs(owner) if item not in going]
        chosen = choose(found)
        left = used_bytes - sum(item.size_bytes for item in chosen)
        if left > quota_bytes:
            data = self._data(left - quota_bytes, owner)
            chosen = choose([*found, *(item for item in data if item not in going)])
        return [item for item in chosen if item.kind is not Kind.FOLDER or self._is_stored(item)]

    def remove(self, item: Item) -> bool:
        """Whether it was removed: it may be in use by now, or the store unreachable."""
        try:
            return self._removed(item)
        except UNREADABLE as error:
            logger.warning("the %s of %s is kept: %s", item.kind, item.name, error)
            return False

    def _removed(self, item: Item) -> bool:
        match item.kind:
            case Kind.WORKING | Kind.FOLDER:
                return self._removed_from_job(item)
            case Kind.DATA:
                return self._removed_data(item)
            case _ if item.path is not None and item.path.parent == self.home.overlays:
                return remove_unused(item.path)
            case _ if item.path is not None and is_temporary(item.path.name):
                return remove_if_abandoned(str(item.path))
            case _:
                assert item.path is not None
                return _removed_path(item.path)

    def _removed_from_job(self, item: Item) -> bool:
        folder = self.home.job(item.name)
        with locked(folder) as mine:
            if not mine or self._ended(folder) is None:
                return False
            if item.kind is Kind.WORKING:
                for path in _working(folder):
                    _removed_path(path)
            else:
                publish_journal(folder, self.home)
                if not self._is_stored(item) or not self.is_listed(item.name):
                    return False
                withdraw(folder, self.home)
        return True

    def _removed_data(self, item: Item) -> bool:
        """The list of published artifacts is removed too: it would name missing objects."""
        record = self.record(item.name)
        if record.folder is not None and self._ended(record.folder) is None:
            return False
        for each in item.data:
            remove(each, self.home)
        place = locate_object(record.keys.artifacts, home=self.home.root)
        place.store.delete([place.key])
        return True

    def _leftovers(self, now: float) -> Iterator[Item]:
        for path in (*self._unfinished_files(), *self._drafts()):
            with suppress(OSError):
                modified = path.lstat().st_mtime
                if now - modified > DRAFT_SECONDS:
                    name = str(path.relative_to(self.home.root))
                    yield Item(Kind.LEFTOVER, name, modified, size_of(path), path)

    def _unfinished_files(self) -> Iterator[Path]:
        for folder in (self.home.root, self.home.server.root, self.home.ending):
            yield from (path for path in _inside(folder) if _UNFINISHED.fullmatch(path.name))
        for below, _, names in os.walk(self.home.buckets):
            yield from (Path(below, name) for name in names if is_temporary(name))

    def _drafts(self) -> Iterator[Path]:
        yield from (path for path in _inside(self.home.jobs) if path.name.startswith("."))
        for path in _inside(self.home.overlays):
            if path.is_dir() and not is_complete(path):
                yield path

    def _overlays(self) -> Iterator[Item]:
        for path in _inside(self.home.overlays):
            used = is_complete(path)
            if used is not None:
                yield Item(Kind.OVERLAY, path.name, used, size_of(path), path)

    def _ended_jobs(self, owner: str | None = None) -> Iterator[Item]:
        """All, or one owner's."""
        for path in _inside(self.home.jobs):
            folder = JobFolder(path)
            record = None if path.name.startswith(".") else self._ended(folder)
            if record is None or owner not in (None, record.submitter.owner):
                continue
            working = sum(map(size_of, _working(folder)))
            ended, whose = record.history.modified, record.submitter.owner
            if working:
                yield Item(Kind.WORKING, path.name, ended, working, path, owner=whose)
            rest = size_of(path) - working
            yield Item(Kind.FOLDER, path.name, ended, rest, path, owner=whose)

    def _data(self, excess_bytes: float, owner: str | None = None) -> Iterator[Item]:
        """Data of the oldest jobs, all or one owner's, whose output is in the embedded buckets, as
        much as needed. Reads every job's request: only called when nothing else is left to remove.
        """
        rows = self.rows()
        needed = {row.name: uses(row, self.home) for row in rows}
        asked = [row for row in rows if owner is None or row.owner == owner]
        ended = [(row.ended, row.name, row.owner or "") for row in asked if row.ended is not None]
        for last_used, name, whose in sorted(ended):
            if excess_bytes <= 0:
                return
            others = [use for job, of_job in needed.items() if job != name for use in of_job]
            if data := self._free_data(name, others):
                size = sum(each.size_bytes for each in data)
                excess_bytes -= size
                yield Item(Kind.DATA, name, last_used, size, data=tuple(data), owner=whose)

    def _free_data(self, name: str, others: list[Use]) -> list[Stored]:
        try:
            record = self.record(name)
            if record.folder is not None and self._ended(record.folder) is None:
                return []
            stored = judged(stored_by(record, self.home), others, self.home)
        except UNREADABLE as error:
            logger.warning("job %s: what it has stored is not known: %s", name, error)
            return []
        free = (each for each in stored if each.is_own and not each.kept)
        return [each for each in free if self._is_embedded(each.uri)]

    def _is_embedded(self, uri: str) -> bool:
        try:
            local = locate(uri, home=self.home.root).local
        except StorageError:
            return False
        if local is None or self.home.buckets.is_symlink():
            return False
        return local.resolve().is_relative_to(self.home.buckets.resolve())

    def _ended(self, folder: JobFolder) -> Record | None:
        """The record of a job without any running process; None for any other."""
        try:
            record = read_folder(folder)
        except UNREADABLE:
            return None
        is_noted = pending_uploads.keeps_files(self.home, folder.root.name) is not None
        if is_noted or not record.history.state.is_final or _keeps_output(record):
            return None
        rules = folder.rules
        is_judged = not evaluator_process.is_wanted(record.spec) or evaluator_process.is_done(
            rules, record.spec
        )
        if not is_judged or evaluator_process.may_live(rules) or is_supervised(folder):
            return None
        return record

    def _is_stored(self, item: Item) -> bool:
        """Whether the job can be read without its folder."""
        try:
            keys = read_folder(self.home.job(item.name)).keys
            for uri in (keys.spec, keys.journal):
                place = locate_object(uri, home=self.home.root, hurried=True)
                place.store.stat(place.key)
        except UNREADABLE as error:
            logger.info("the folder of job %s is kept: %s", item.name, error)
            return False
        return True


def size_of(path: Path) -> int:
    """Total of all files below it, without following links."""
    with suppress(OSError):
        if not path.is_dir() or path.is_symlink():
            return path.lstat().st_size
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


def _keeps_output(record: Record) -> bool:
    """Whether an upload failed, and `trackside upload` has not been called since."""
    is_sent = any(note.get("what") == _UPLOADED for note in record.history.notes)
    return _OURS_FAILED in (record.history.failure_reason or "") and not is_sent


def _working(folder: JobFolder) -> list[Path]:
    places = [HostFolder(path) for path in folder.hosts.glob("*/*")]
    found = [folder.ballast, *(path for place in places for path in (place.ml, place.mounts))]
    return [path for path in found if path.exists()]


def _inside(folder: Path) -> list[Path]:
    """Empty for a folder that is a link to elsewhere."""
    with suppress(OSError):
        if not folder.is_symlink():
            return sorted(path for path in folder.iterdir() if not path.is_symlink())
    return []


def _removed_path(path: Path) -> bool:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    return not path.exists()
