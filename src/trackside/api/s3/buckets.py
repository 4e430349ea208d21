"""All buckets: the folders of one folder, also those that a job made by writing into them."""

import os
import re
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trackside import durable
from trackside.api.call import ServiceError
from trackside.api.s3.bucket import Bucket, OpenObject
from trackside.api.s3.errors import s3_error
from trackside.storage.folder import FolderStore
from trackside.storage.partial_file import sweep

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
_NEW = re.compile(r"(?!\d+\.\d+\.\d+\.\d+\Z)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
"""Stricter than what is read: other programs refuse capitals in `s3://` addresses."""


@dataclass(frozen=True, slots=True)
class BucketInfo:
    name: str
    created: float


class Buckets:
    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, Bucket] = {}

    def all(self) -> list[BucketInfo]:
        with suppress(FileNotFoundError), os.scandir(self._root) as scan:
            names = [each.name for each in scan if each.is_dir() and each.name[0] != "."]
            return [BucketInfo(name, self._created(name)) for name in sorted(names)]
        return []

    def get(self, name: str) -> Bucket:
        """NoSuchBucket when there is none, InvalidBucketName for what might lead out of here."""
        bucket = self._named(name)
        if not os.path.isdir(bucket.root):
            self._known.pop(name, None)
            raise s3_error("NoSuchBucket", f"The specified bucket does not exist: {name!r}.")
        return bucket

    def open(self, name: str, key: str) -> OpenObject:
        """An object that is there tells that its bucket is, too."""
        try:
            return self._named(name).open(key)
        except ServiceError:
            self.get(name)
            raise

    def create(self, name: str, region: str) -> None:
        if _NEW.fullmatch(name) is None or ".." in name or ".-" in name or "-." in name:
            raise s3_error("InvalidBucketName", f"{name!r} cannot be the name of a new bucket.")
        os.makedirs(self._root, exist_ok=True)
        path = os.path.join(self._root, name)
        try:
            os.mkdir(path)
        except FileExistsError:
            raise s3_error("BucketAlreadyOwnedByYou") from None
        hidden = Path(Bucket(path).hidden)
        hidden.mkdir()
        durable.write_json(hidden / "bucket.json", {"created": time.time(), "region": region})
        durable.sync_folder(Path(path))
        durable.sync_folder(Path(self._root))

    def delete(self, name: str) -> None:
        """BucketNotEmpty when it holds an object; one that is put meanwhile is never lost."""
        bucket = self.get(name)
        if next(FolderStore(Path(bucket.root)).list(), None) is not None or bucket.odd():
            raise s3_error("BucketNotEmpty")
        try:
            with suppress(FileNotFoundError):
                os.rmdir(bucket.odd_keys)
            shutil.rmtree(bucket.hidden, ignore_errors=True)
            for folder, _, _ in os.walk(bucket.root, topdown=False):
                sweep(folder)
                os.rmdir(folder)
        except OSError:
            raise s3_error("BucketNotEmpty") from None
        self._known.pop(name, None)

    def region(self, name: str) -> str:
        return str(self._record(name).get("region", ""))

    def _named(self, name: str) -> Bucket:
        bucket = self._known.get(name)
        if bucket is None:
            if _NAME.fullmatch(name) is None or ".." in name:
                raise s3_error("InvalidBucketName", f"{name!r} is no bucket name.")
            bucket = self._known[name] = Bucket(os.path.join(self._root, name))
        return bucket

    def _created(self, name: str) -> float:
        created = self._record(name).get("created")
        if isinstance(created, float):
            return created
        with suppress(FileNotFoundError):
            return os.stat(os.path.join(self._root, name)).st_mtime
        return 0.0

    def _record(self, name: str) -> dict[str, object]:
        hidden = Bucket(os.path.join(self._root, name)).hidden
        record = durable.read_json(Path(hidden, "bucket.json"))
        return record if isinstance(record, dict) else {}
