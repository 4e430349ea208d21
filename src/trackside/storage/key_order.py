"""The names in a folder as object keys: in the byte order of keys, within a prefix and a start.

A folder's key ends in a slash: 'a-b' comes before 'a/x', though 'a' comes before 'a-b'.
"""

import os
from typing import NamedTuple

from trackside.quick_dataclass import dataclass
from trackside.storage.partial_file import is_temporary


class Name(NamedTuple):
    key: bytes
    """The name as a part of a key; that of a folder with its slash."""
    name: str
    is_folder: bool


def names_in_key_order(folder: int | str, *, follow_links: bool) -> list[Name]:
    """Without the temporary names of unfinished files, and without links unless they are followed.

    `folder` is a path or an open descriptor.
    """
    names = []
    with os.scandir(folder) as scan:
        for item in scan:
            if item.is_dir(follow_symlinks=follow_links):
                names.append(Name(os.fsencode(item.name) + b"/", item.name, True))
            elif (follow_links or not item.is_symlink()) and not is_temporary(item.name):
                names.append(Name(os.fsencode(item.name), item.name, False))
    names.sort()
    return names


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys of one listing: those that start with `prefix` and come after `after`."""

    prefix: bytes = b""
    after: bytes = b""

    def has_key(self, key: bytes) -> bool:
        return key > self.after and key.startswith(self.prefix)

    def has_keys_below(self, folder: bytes) -> bool:
        """Whether any key that starts with `folder`, which ends in a slash, can be in the range."""
        shorter = min(len(folder), len(self.prefix))
        fits = folder[:shorter] == self.prefix[:shorter]
        return fits and (folder > self.after or self.after.startswith(folder))
