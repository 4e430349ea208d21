"""Multipart uploads of one bucket, below its hidden folder: one folder each.

Parts are written to their offset in one file as long as they have one size, in any order of
arrival; completing is a rename then. Any other part is a file of its own, copied at the end. A part
is valid once its record is written, after its bytes are on disk.
"""

import json
import logging
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trackside.api.budget import Budget
from trackside.api.call import too_busy
from trackside.api.s3.beneath import NO_FILE, Folder, open_folder
from trackside.api.s3.bucket import TIME_MOST, Bucket, ObjectInfo
from trackside.api.s3.checksums import ALGORITHMS, COMPOSITE, FULL
from trackside.api.s3.errors import s3_error
from trackside.api.s3.record import ObjectRecord, record_of
from trackside.api.s3.upload_part import (
    SHARED,
    NewPart,
    Part,
    copy_range,
    is_being_written,
    make_shared,
    parts_in,
)
from trackside.files import durable
from trackside.storage.folder import HIDDEN
from trackside.storage.partial_file import disk_full_named

logger = logging.getLogger(__name__)

PARTS_MOST = 10_000
_UPLOADS = (HIDDEN, "uploads")
_RECORD = "upload.json"
_SEALED = "sealed"
_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    id: str
    key: str
    created: float
    record: ObjectRecord
    """Of the object it will be."""
    algorithm: str
    checksum_type: str


class Uploads:
    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def begin(self, key: str, record: ObjectRecord, algorithm: str, checksum_type: str) -> Upload:
        upload = Upload(
            id=secrets.token_hex(16),
            key=key,
            created=time.time(),
            record=record,
            algorithm=algorithm,
            checksum_type=checksum_type,
        )
        with self._folder(upload.id, make=True) as folder:
            make_shared(folder)
            durable.write_json(Path(folder.path, _RECORD), asdict(upload))
        return upload

    def get(self, key: str, upload_id: str) -> Upload:
        """NoSuchUpload when there is none, or when it is for another key."""
        found = self._read(upload_id)
        if found is None or found.key != key:
            raise s3_error("NoSuchUpload")
        return found

    def all(self, known: dict[str, Upload], budget: Budget) -> list[Upload]:
        """Ordered by key, then by age. SlowDown when the budget is spent before all are read.

        `known` are those of this bucket that were read before, by id. They never change, so a retry
        gets further.
        """
        ids = self._ids()
        for gone in set(known) - set(ids):
            known.pop(gone, None)
        for name in ids:
            if name not in known:
                if budget.is_spent:
                    raise too_busy(f"{len(ids)} uploads are unfinished, and not all read yet.")
                self._learn(name, known)
                budget.spend()
        found = list(known.values())
        return sorted(found, key=lambda each: (os.fsencode(each.key), each.created, each.id))

    def _learn(self, upload_id: str, known: dict[str, Upload]) -> None:
        upload = self._read(upload_id)
        if upload is not None:
            known[upload_id] = upload

    def new_part(self, upload: Upload, number: int, size: int) -> NewPart:
        try:
            folder = self._folder(upload.id)
        except NO_FILE:
            raise s3_error("NoSuchUpload") from None
        try:
            return NewPart(folder, number, size)
        except BaseException as error:
            folder.close()
            if isinstance(error, FileNotFoundError):  # completed or aborted meanwhile
                raise s3_error("NoSuchUpload") from None
            raise

    def parts(self, upload: Upload) -> dict[int, Part]:
        with suppress(*NO_FILE), self._folder(upload.id) as folder:
            return parts_in(folder)
        return {}

    def complete(
        self,
        upload: Upload,
        parts: Sequence[Part],
        record: ObjectRecord,
        allowed: Callable[[ObjectInfo | None], None] | None,
    ) -> ObjectInfo:
        try:
            with (
                self._folder(upload.id) as folder,
                self._bucket.create(upload.key) as new,
                _sealed(folder) as shared,
            ):
                in_place = _is_in_place(folder, parts)
                adopted = in_place and new.file.adopt(os.path.join(folder.path, shared))
                offset = 0
                for part in parts:
                    if not (adopted and part.is_shared):
                        source = shared if part.is_shared else part.file
                        _copy(folder, source, part, new.file.descriptor, offset)
                    offset += part.size
                os.ftruncate(new.file.descriptor, offset)
                new.describe(record)
                info = new.publish(allowed)
        except FileNotFoundError:  # aborted, or completed by another request
            raise s3_error("NoSuchUpload") from None
        self.abort(upload)
        return info

    def abort(self, upload: Upload) -> None:
        with suppress(*NO_FILE), open_folder(self._bucket.root, _UPLOADS) as uploads:
            _remove(uploads, upload.id)

    def drop_older(self, oldest: float) -> list[str]:
        """Remove those to which nothing was added since; returns which."""
        dropped = []
        with suppress(*NO_FILE), open_folder(self._bucket.root, _UPLOADS) as uploads:
            for upload_id in self._ids():
                if _last_change(uploads, upload_id) < oldest:
                    _remove(uploads, upload_id)
                    dropped.append(upload_id)
        return dropped

    def _ids(self) -> list[str]:
        with suppress(*NO_FILE), open_folder(self._bucket.root, _UPLOADS) as uploads:
            return [name for name in os.listdir(uploads.descriptor) if _ID.fullmatch(name)]
        return []

    def _folder(self, upload_id: str, *, make: bool = False) -> Folder:
        return open_folder(self._bucket.root, (*_UPLOADS, upload_id), make=make)

    def _read(self, upload_id: str) -> Upload | None:
        if not _ID.fullmatch(upload_id):
            return None
        try:
            with self._folder(upload_id) as folder:
                file = folder.open(_RECORD, os.O_RDONLY | os.O_NONBLOCK)
            with open(file, "rb") as stream:
                return _upload_of(json.load(stream), upload_id)
        except NO_FILE:
            return None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            logger.warning("the record of upload %s is damaged: %s", upload_id, error)
            return None


def _upload_of(kept: dict[str, Any], upload_id: str) -> Upload:
    """ValueError, KeyError or TypeError for an invalid record."""
    record = {**kept["record"], "etag": ""}
    upload = Upload(**{**kept, "record": record_of(record)})
    if upload.id != upload_id or not isinstance(upload.key, str):
        raise ValueError("it is another's")
    if upload.algorithm not in ALGORITHMS or upload.checksum_type not in (FULL, COMPOSITE):
        raise ValueError("its checksum is unknown")
    if not 0 <= upload.created <= TIME_MOST:
        raise ValueError("its time is none")
    return upload


def _remove(uploads: Folder, upload_id: str) -> None:
    shutil.rmtree(os.path.join(uploads.path, upload_id), ignore_errors=True)


def _last_change(uploads: Folder, upload_id: str) -> float:
    """Also of the bytes of a part that is not finished yet."""
    changed = 0.0
    for name in (upload_id, os.path.join(upload_id, SHARED)):
        with suppress(*NO_FILE):
            changed = max(changed, uploads.stat(name).st_mtime)
    return changed or time.time()


@contextmanager
def _sealed(folder: Folder) -> Iterator[str]:
    """The shared file under a name that no new part finds; back again when it was not used up."""
    with suppress(FileNotFoundError):
        _rename(folder, SHARED, _SEALED)
    try:
        yield _SEALED
    finally:
        with suppress(FileNotFoundError):
            _rename(folder, _SEALED, SHARED)


def _rename(folder: Folder, old: str, new: str) -> None:
    os.rename(old, new, src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor)


def _is_in_place(folder: Folder, chosen: Sequence[Part]) -> bool:
    """Whether the shared file can become the object: no other request writes to it or needs it."""
    if is_being_written(folder) or not _is_file(folder, _SEALED):
        return False
    if any(part.is_shared and part not in chosen for part in parts_in(folder).values()):
        return False
    offset = 0
    for part in chosen:
        if part.is_shared and part.offset != offset:
            return False
        offset += part.size
    return any(part.is_shared for part in chosen)


def _is_file(folder: Folder, name: str) -> bool:
    with suppress(FileNotFoundError):
        return stat.S_ISREG(folder.stat(name).st_mode)
    return False


def _copy(folder: Folder, name: str, part: Part, target: int, offset: int) -> None:
    source = folder.open(name, os.O_RDONLY)
    try:
        with disk_full_named(folder.path):
            copy_range(source, part.offset, target, offset, part.size)
    finally:
        os.close(source)
