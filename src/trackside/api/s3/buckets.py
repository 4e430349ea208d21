"""All buckets: the folders of one folder, also those that a job made by writing into them."""

import json
import logging
import os
import re
import shutil
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trackside.api.call import ServiceError
from trackside.api.s3.beneath import NO_FILE, open_file, open_folder
from trackside.api.s3.bucket import TIME_MOST, Bucket, OpenObject
from trackside.api.s3.errors import s3_error
from trackside.files import durable
from trackside.storage.folder import HIDDEN, FolderStore
from trackside.storage.partial_file import PartialFile, sweep

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
_NEW = re.compile(r"(?!\d+\.\d+\.\d+\.\d+\Z)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
"""Stricter than for reading: other programs reject capitals in `s3://` URLs."""
REGION = re.compile(r"[A-Za-z0-9-]{1,64}")
"""What may be the name of one."""


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
            folders = [each.name for each in scan if each.is_dir(follow_symlinks=False)]
            names = [name for name in folders if name[0] != "."]
            return [BucketInfo(name, self._created(name)) for name in sorted(names)]
        return []

    def get(self, name: str) -> Bucket:
        """NoSuchBucket when there is none, InvalidBucketName for a name that might escape the
        root."""
        bucket = self._named(name)
        if not _is_folder(bucket.root):
            self._known.pop(name, None)
            text = f"The specified bucket does not exist: {name!r}."
            if os.path.islink(bucket.root):
                text += " Its folder is a link, and links are not followed: mount the other there."
            raise s3_error("NoSuchBucket", text)
        return bucket

    def open(self, name: str, key: str) -> OpenObject:
        """An existing object shows that its bucket exists, too."""
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
        hidden = Path(path, HIDDEN)
        hidden.mkdir()
        record = json.dumps({"created": time.time(), "region": region}, indent=1).encode()
        with PartialFile(hidden / "bucket.json") as file:  # `BucketCleanup` removes it after a kill
            file.write_at(record + b"\n", 0)
            file.publish(durable=True)
        durable.sync_folder(Path(path))
        durable.sync_folder(Path(self._root))

    def delete(self, name: str) -> None:
        """BucketNotEmpty when it holds an object; one that is put meanwhile is never lost."""
        bucket = self.get(name)
        if next(FolderStore(Path(bucket.root)).list(), None) is not None or bucket.has_odd():
            raise s3_error("BucketNotEmpty")
        try:
            with suppress(*NO_FILE), open_folder(bucket.root, (HIDDEN,)) as hidden:
                os.rmdir("keys", dir_fd=hidden.descriptor)
            shutil.rmtree(os.path.join(bucket.root, HIDDEN), ignore_errors=True)
            for folder, _, _ in os.walk(bucket.root, topdown=False):
                sweep(folder)
                os.rmdir(folder)
        except OSError:
            raise s3_error("BucketNotEmpty") from None
        self._known.pop(name, None)

    def region(self, name: str) -> str:
        """Empty where it is not known."""
        region = self._record(name).get("region")
        return region if isinstance(region, str) and REGION.fullmatch(region) else ""

    def _named(self, name: str) -> Bucket:
        bucket = self._known.get(name)
        if bucket is None:
            if _NAME.fullmatch(name) is None or ".." in name:
                raise s3_error("InvalidBucketName", f"{name!r} is not a bucket name.")
            bucket = self._known[name] = Bucket(os.path.join(self._root, name))
        return bucket

    def _created(self, name: str) -> float:
        created = self._record(name).get("created")
        if isinstance(created, float) and 0 <= created <= TIME_MOST:
            return created
        with suppress(FileNotFoundError):
            return os.stat(os.path.join(self._root, name)).st_mtime
        return 0.0

    def _record(self, name: str) -> dict[str, object]:
        try:
            path = (HIDDEN, "bucket.json")
            descriptor = open_file(os.path.join(self._root, name), path, os.O_RDONLY)
            with open(descriptor, "rb") as file:
                record = json.load(file)
        except NO_FILE:
            return {}
        except (ValueError, RecursionError) as error:
            logger.warning("the record of bucket %r is damaged: %s", name, error)
            return {}
        return record if isinstance(record, dict) else {}


def _is_folder(path: str) -> bool:
    """Not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False
