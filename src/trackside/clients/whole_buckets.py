"""Lets TensorBoard read a whole bucket: `tensorboard --logdir s3://bucket`, with a slash or not.

TensorBoard's own reader needs a path in the bucket: it cannot split `s3://bucket`, and for
`s3://bucket/` it requests keys that start with a slash. This module also runs in interpreters
without Trackside, with any Python from 3.7.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

_SCHEME = "s3://"


def register(gfile: ModuleType) -> None:
    """Patches TensorBoard's file system module; one with another interface is not changed."""
    system = getattr(gfile, "S3FileSystem", None)
    if all(hasattr(system, name) for name in ("bucket_and_path", "exists", "isdir", "listdir")):
        _extend(system, gfile)


def _extend(system: Any, gfile: Any) -> None:
    divided, is_folder, listed = system.bucket_and_path, system.isdir, system.listdir

    def bucket_and_path(self: Any, url: Any) -> tuple[str, str]:
        text = url.decode() if isinstance(url, bytes) else str(url)
        place = text[len(_SCHEME) :] if text.startswith(_SCHEME) else text
        found: tuple[str, str] = divided(self, text if "/" in place else text + "/")
        return found

    def isdir(self: Any, dirname: Any) -> bool:
        _, path = self.bucket_and_path(dirname)
        return bool(is_folder(self, dirname) if path else self.exists(dirname))

    def listdir(self: Any, dirname: Any) -> list[str]:
        bucket, path = self.bucket_and_path(dirname)
        if path:
            found: list[str] = listed(self, dirname)
            return found
        client = gfile.boto3.client("s3", endpoint_url=getattr(self, "_s3_endpoint", None))
        names: list[str] = []
        for page in client.get_paginator("list_objects").paginate(Bucket=bucket, Delimiter="/"):
            names += [each["Prefix"][:-1] for each in page.get("CommonPrefixes", [])]
            names += [each["Key"] for each in page.get("Contents", [])]
        return names

    system.bucket_and_path, system.isdir, system.listdir = bucket_and_path, isdir, listdir
