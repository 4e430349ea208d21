"""Reads what the hooks said about their collections and how many workers write."""

import json
import logging
import re
from typing import Any

from trackside.capture.collection import Collection
from trackside.capture.trial_folder import TrialFolder
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
        self._folder = folder

    def refresh(self, *, everything: bool = False) -> None:
        """Read those not read yet, while some are missing; all of them again for a last look."""
        if not everything and self.workers and len(self.workers) >= self.num_workers:
            return
        for file in self._folder.list(COLLECTIONS):
            smdebug = _SMDEBUG.fullmatch(file.name)
            matched = smdebug or _OURS.fullmatch(file.name)
            if matched is None or (matched[1] in self.workers and not everything):
                continue
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
            known.tensor_names.update(read.tensor_names)
