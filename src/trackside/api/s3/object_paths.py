"""The path of an object below a bucket's root, by its key. Does no I/O.

A plain file has the key's own path. A key that cannot be a file path is a file in the hidden
folder, named by the key in percent-encoding, or by its hash.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from urllib.parse import quote

from trackside.storage.folder import HIDDEN
from trackside.storage.partial_file import is_temporary

ODD_KEYS = (HIDDEN, "keys")
"""The folder of those that are not plain."""
HASHED = "%hash-"
"""The prefix of names that do not contain their key. No percent-encoding starts like this."""
_NAME_MOST_BYTES = 255
_NOT_PLAIN = re.compile(r"[\x00-\x1f\x7f]|(?:\A|/)\.{0,2}(?:/|\Z)")

ObjectPath = tuple[str, ...]
"""Names below the root, the last of them a file's."""


def possible_paths(key: str) -> Iterator[ObjectPath]:
    """A plain file is the newer one, should there be both."""
    plain = plain_path(key)
    if plain is not None:
        yield plain
    yield encoded_path(key)


def plain_path(key: str) -> ObjectPath | None:
    if _NOT_PLAIN.search(key) is not None or key.partition("/")[0] == HIDDEN:
        return None
    names = key.split("/")
    if is_temporary(names[-1]):
        return None
    if len(key) > _NAME_MOST_BYTES // 4 and any(
        len(os.fsencode(name)) > _NAME_MOST_BYTES for name in names
    ):
        return None
    return tuple(names)


def encoded_path(key: str) -> ObjectPath:
    return (*ODD_KEYS, _odd_name(key))


def _odd_name(key: str) -> str:
    name = quote(os.fsencode(key), safe="")
    if name in (".", "..") or is_temporary(name):
        name = name.replace(".", "%2E")
    if len(name) <= _NAME_MOST_BYTES:
        return name
    return f"{HASHED}{hashlib.sha256(os.fsencode(key)).hexdigest()}"
