"""Reads the hooks' collections and how many workers write."""

import logging
import re

from trackside.capture.reading.trial_folder import TrialFolder
from trackside.capture.selection.collection import Collection
from trackside.capture.trial_layout import COLLECTIONS
from trackside.errors import ObjectNotFound, TracksideError
from trackside.files.json_record import DamagedRecord, parsed_object

logger = logging.getLogger(__name__)

_OURS = re.compile(r"collections/([^/]+)\.json")
_SMDEBUG = re.compile(r"collections/\d{9}/(.+)_collections\.json")
_DAMAGE = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
    TracksideError,
)
"""What creating a collection from untrusted data may raise; patterns may be too large."""


def is_collections_file(name: str) -> bool:
    """By its name below the trial's folder. A script may put other files next to them."""
    return bool(_SMDEBUG.fullmatch(name) or _OURS.fullmatch(name))


class CollectionsFiles:
    """One file per writing worker; they differ only in the names each worker saw."""

    def __init__(self, folder: TrialFolder) -> None:
        self.workers: list[str] = []
        self.collections: dict[str, Collection] = {}
        self.num_workers = 1
        self.is_smdebug = False
        self.num_read = 0
        """Grows whenever collections may have changed."""
        self._folder = folder
        self._etags: dict[str, str | None] = {}

    @property
    def is_complete(self) -> bool:
        """Whether every worker has written its file."""
        return bool(self.workers) and len(self.workers) >= self.num_workers

    def refresh(self) -> None:
        """Read those that are new or changed: a hook adds names as it encounters them."""
        for file in self._folder.list(COLLECTIONS):
            smdebug = _SMDEBUG.fullmatch(file.name)
            matched = smdebug or _OURS.fullmatch(file.name)
            is_known = file.etag is not None and self._etags.get(file.name) == file.etag
            if matched is None or is_known:
                continue
            self._etags[file.name] = file.etag
            self.num_read += 1
            self._read(file.name)
            self.is_smdebug = self.is_smdebug or smdebug is not None
            if matched[1] not in self.workers:
                self.workers.append(matched[1])

    def _read(self, name: str) -> None:
        """Damage affects only its part: one collection, the number of workers, or all."""
        try:
            content = parsed_object(self._folder.read(name))
        except (DamagedRecord, FileNotFoundError, ObjectNotFound) as error:
            return _warn(name, "", error)
        try:
            self.num_workers = max(1, int(content.get("_meta", {}).get("num_workers", 1)))
        except _DAMAGE as error:
            _warn(name, ", about its workers", error)
        collections = content.get("collections", {})
        if not isinstance(collections, dict):
            return _warn(name, "", "its collections are no object")
        for key, described in collections.items():
            try:
                self._enter(key, Collection.from_dict(described))
            except _DAMAGE as error:
                _warn(name, f", in collection {key!r}", error)
        return None

    def _enter(self, name: str, read: Collection) -> None:
        known = self.collections.setdefault(name, read)
        known.include(read.include_regex)
        known.exclude(read.exclude_regex)
        known.tensor_names.update(read.tensor_names)


def _warn(name: str, where: str, why: object) -> None:
    logger.warning("Collections file %s is damaged%s: %s", name, where, why)
