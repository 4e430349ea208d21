"""Multipart uploads of one bucket, below its hidden folder: one folder each.

Parts are written to their place in one file as long as they are of one size, in whatever order
they come; completing then is a rename. Any other part is a file of its own, copied in at the end.
A part counts once its record is written, after its bytes are on disk.
"""

import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from trackside import damage, durable
from trackside.api.s3.bucket import Bucket, ObjectInfo
from trackside.api.s3.errors import s3_error
from trackside.api.s3.record import ObjectRecord
from trackside.api.s3.upload_part import (
    SHARED,
    NewPart,
    Part,
    copy_range,
    is_being_written,
    make_shared,
)
from trackside.storage.partial_file import disk_full_named

PARTS_MOST = 10_000
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
        self._root = os.path.join(bucket.hidden, "uploads")

    def begin(self, key: str, record: ObjectRecord, algorithm: str, checksum_type: str) -> Upload:
        upload = Upload(
            id=secrets.token_hex(16),
            key=key,
            created=time.time(),
            record=record,
            algorithm=algorithm,
            checksum_type=checksum_type,
        )
        folder = self._folder(upload.id)
        os.makedirs(folder)
        make_shared(folder)
        durable.write_json(Path(folder, "upload.json"), asdict(upload))
        durable.sync_folder(Path(self._root))
        return upload

    def get(self, key: str, upload_id: str) -> Upload:
        """NoSuchUpload when there is none, or when it is for another key."""
        found = self._read(upload_id) if _ID.fullmatch(upload_id) else None
        if found is None or found.key != key:
            raise s3_error("NoSuchUpload")
        return found

    def all(self) -> list[Upload]:
        """Ordered by key, then by age."""
        try:
            names = os.listdir(self._root)
        except FileNotFoundError:
            return []
        found = [upload for name in names if (upload := self._read(name)) is not None]
        return sorted(found, key=lambda each: (os.fsencode(each.key), each.created, each.id))

    def new_part(self, upload: Upload, number: int, size: int) -> NewPart:
        try:
            return NewPart(self._folder(upload.id), number, size)
        except FileNotFoundError:
            raise s3_error("NoSuchUpload") from None

    def parts(self, upload: Upload) -> dict[int, Part]:
        folder = self._folder(upload.id)
        found: dict[int, Part] = {}
        with suppress(FileNotFoundError), os.scandir(folder) as scan:
            for item in scan:
                if item.name.endswith(".part.json") and not item.name.startswith("."):
                    part = damage.read(Part, Path(item.path))
                    if part is not None:
                        found[part.number] = part
        return dict(sorted(found.items()))

    def complete(
        self,
        upload: Upload,
        parts: Sequence[Part],
        record: ObjectRecord,
        allowed: Callable[[ObjectInfo | None], None] | None,
    ) -> ObjectInfo:
        folder = self._folder(upload.id)
        try:
            with self._bucket.create(upload.key) as new, _sealed(folder) as shared:
                adopted = _is_in_place(folder, parts, self.parts(upload)) and new.file.adopt(shared)
                offset = 0
                for part in parts:
                    if not (adopted and part.is_shared):
                        source = shared if part.is_shared else os.path.join(folder, part.file)
                        _copy(source, part, new.file.descriptor, offset)
                    offset += part.size
                os.ftruncate(new.file.descriptor, offset)
                new.describe(record)
                info = new.publish(allowed)
        except FileNotFoundError:  # aborted, or completed by another request
            raise s3_error("NoSuchUpload") from None
        self.abort(upload)
        return info

    def abort(self, upload: Upload) -> None:
        shutil.rmtree(self._folder(upload.id), ignore_errors=True)

    def drop_older(self, oldest: float) -> list[str]:
        """Remove those to which nothing was added since; returns which."""
        dropped = []
        with suppress(FileNotFoundError), os.scandir(self._root) as scan:
            for item in scan:
                if _ID.fullmatch(item.name) and _last_change(item.path) < oldest:
                    shutil.rmtree(item.path, ignore_errors=True)
                    dropped.append(item.name)
        return dropped

    def _folder(self, upload_id: str) -> str:
        return os.path.join(self._root, upload_id)

    def _read(self, upload_id: str) -> Upload | None:
        return damage.read(Upload, Path(self._folder(upload_id), "upload.json"))


def _last_change(folder: str) -> float:
    """Also of the bytes of a part that is not finished yet."""
    changed = 0.0
    for path in (folder, os.path.join(folder, SHARED)):
        with suppress(FileNotFoundError):
            changed = max(changed, os.stat(path).st_mtime)
    return changed or time.time()


@contextmanager
def _sealed(folder: str) -> Iterator[str]:
    """The shared file under a name that no new part finds; back again when it was not used up."""
    shared, sealed = os.path.join(folder, SHARED), os.path.join(folder, "sealed")
    with suppress(FileNotFoundError):
        os.rename(shared, sealed)
    try:
        yield sealed
    finally:
        with suppress(FileNotFoundError):
            os.rename(sealed, shared)


def _is_in_place(folder: str, chosen: Sequence[Part], all_parts: dict[int, Part]) -> bool:
    """Whether the shared file can become the object: nobody else writes to it or needs it."""
    if is_being_written(folder):
        return False
    if any(part.is_shared and part not in chosen for part in all_parts.values()):
        return False
    offset = 0
    for part in chosen:
        if part.is_shared and part.offset != offset:
            return False
        offset += part.size
    return any(part.is_shared for part in chosen)


def _copy(path: str, part: Part, target: int, offset: int) -> None:
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with disk_full_named(os.path.dirname(path)):
            copy_range(source, part.offset, target, offset, part.size)
    finally:
        os.close(source)
