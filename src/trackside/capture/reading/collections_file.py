"""Reads what the hooks said about their collections and how many workers write."""

import json
import logging
import re
from typing import Any

from trackside.capture.reading.trial_folder import TrialFolder
from trackside.capture.selection.collection import Collection
from trackside.capture.trial_layout import COLLECTIONS
from trackside.errors import TracksideError

logger = logging.getLogger(__name__)

_OURS = re.compile(r"collections/([^/]+)\.json")
_SMDEBUG = re.compile(r"collections/\d{9}/(.+)_collections\.json")


class CollectionsFiles:
    """One file per worker that writes; they say the same but for the names each worker saw."""

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
        """Whether every worker has said something."""
        return bool(self.workers) and len(self.workers) >= self.num_workers

    def refresh(self) -> None:
        """Read those that are new or other than they were: a hook adds names as it meets them."""
        for file in self._folder.list(COLLECTIONS):
            smdebug = _SMDEBUG.fullmatch(file.name)
            matched = smdebug or _OURS.fullmatch(file.name)
            is_known = file.etag is not None and self._etags.get(file.name) == file.etag
            if matched is None or is_known:
                continue
            self._etags[file.name] = file.etag
            self.num_read += 1
            try:
                self._enter(json.loads(self._folder.read(file.name)))
            except (AttributeError, TypeError, ValueError, TracksideError) as error:
                logger.warning("Collections file %s is damaged: %s", file.name, error)
            self.is_smdebug = self.is_smdebug or smdebug is not None
            if matched[1] not in self.workers:
                self.workers.append(matched[1])

    def _enter(self, content: dict[str, Any]) -> None:
        self.num_workers = max(1, int(content.get("_meta", {}).get("num_workers", 1)))
        for name, described in content.get("collections", {}).items():
            read = Collection.from_dict(described)
            known = self.collections.setdefault(name, read)
            known.include(read.include_regex)
            known.exclude(read.exclude_regex)
            known.tensor_names.update(read.tensor_names)
