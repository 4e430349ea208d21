"""Copies the user's source to <base>/code: from a folder, an archive, one file, or S3."""

import errno
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trackside.errors import DiskFull, StorageError, ToolkitError
from trackside.files.extract import extract
from trackside.toolkit import log
from trackside.toolkit.environment import Settings
from trackside.toolkit.object_store import open_bucket


def provide_source(source: str, code: str, settings: Settings) -> None:
    """Replace the code folder's content by the source; on any error it is unchanged.

    AWS keeps a code folder that is not empty and ignores the source; TRACKSIDE_KEEP_BAKED_CODE
    enables that.
    """
    if settings.keeps_baked_code and os.listdir(code):
        log.info(f"{code} is not empty and is kept; the source {source} is not fetched.")
        return
    path = source.removeprefix("file://")
    if os.path.isdir(path) and os.path.realpath(path) == os.path.realpath(code):
        return
    try:
        with _staging(code) as staging:
            content = os.path.join(staging, "content")
            os.mkdir(content)
            if source.startswith("s3://"):
                archive = os.path.join(staging, "archive")
                _download(source, archive, settings)
                _extract(archive, content)
            else:
                _copy(path, content)
            _replace(code, staging, content)
    except OSError as refused:
        if refused.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFull(f"No space left in {code!r} for the source {source!r}.") from refused


@contextmanager
def _staging(code: str) -> Iterator[str]:
    """A folder inside the code folder, which may itself be a mount: so renaming works."""
    staging = tempfile.mkdtemp(prefix=".incoming-", dir=code)
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _copy(path: str, content: str) -> None:
    if os.path.isdir(path):
        shutil.copytree(
            path,
            content,
            dirs_exist_ok=True,
            ignore_dangling_symlinks=True,
            ignore=shutil.ignore_patterns(".incoming-*"),
        )
    elif not os.path.isfile(path):
        raise ToolkitError(
            f"The source {path!r} does not exist. It can be a folder, a tar archive, a file "
            "or an s3:// address of an archive."
        )
    elif tarfile.is_tarfile(path):
        _extract(path, content)
    else:
        shutil.copy(path, content)


def _extract(archive: str, content: str) -> None:
    extract(Path(archive), Path(content), warn=log.warning)


def _replace(code: str, staging: str, content: str) -> None:
    for entry in os.scandir(code):
        if entry.path == staging:
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
    for name in os.listdir(content):
        os.rename(os.path.join(content, name), os.path.join(code, name))


def _download(uri: str, path: str, settings: Settings) -> None:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    key = key.lstrip("/")
    if not bucket or not key or key.endswith("/"):
        raise ToolkitError(f"The source {uri!r} is not one object. Name an archive in a bucket.")
    store = open_bucket(bucket, settings, f"The source {uri!r}")
    import obstore
    from obstore.exceptions import BaseError

    try:
        with open(path, "wb") as file:
            for piece in obstore.get(store, key).stream():
                file.write(piece)
    except FileNotFoundError as missing:
        raise StorageError(f"The source {uri!r} does not exist.") from missing
    except BaseError as refused:
        raise StorageError(f"The source {uri!r} cannot be read: {refused}") from refused
