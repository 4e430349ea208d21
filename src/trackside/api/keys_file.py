"""Access keys in one file of a server's folder, sealed with the machine's own key.

Changes made by another process are seen at the next call.
"""

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from trackside.api.access_key import AccessKey, Change
from trackside.api.encryption import Seal, machine_key
from trackside.errors import TracksideError
from trackside.files import damaged_files, durable
from trackside.files.json_record import DamagedRecord, parsed, record
from trackside.files.permissions import make_folder, private_opener


class DamagedKeys(TracksideError):
    code = "damaged_keys"


class KeysFile:
    problem = ""
    """Never: the file is local."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "keys.json"
        self.seal = Seal(lambda: machine_key(folder / "master.key"))
        self._name = os.fspath(self.path)  # called for every request
        self._lock = Lock()
        self._seen: tuple[int, int] | None = None
        self._damage = ""
        """What is wrong with the file. The keys that were read before stay valid."""
        self._keys: dict[str, AccessKey] = {}

    def known(self) -> Mapping[str, AccessKey]:
        with self._lock:
            self._refresh()
            return self._keys

    def change(self, apply: Change) -> None:
        """One process at a time, so that no key is lost between reading and writing."""
        make_folder(self.path.parent)
        lock = self.path.with_suffix(".lock")
        with self._lock, open(lock, "wb", opener=private_opener) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            self._seen = None
            self._refresh()
            if self._damage:
                raise DamagedKeys(
                    f"The access keys in {self._name!r} are damaged: {self._damage}. Put a copy "
                    "from a backup, or move it away to start without keys."
                )
            keys = dict(self._keys)
            apply(keys)
            durable.write_json(self.path, [key.to_record() for key in keys.values()])
            self._seen = None

    def _refresh(self) -> None:
        try:
            status = os.stat(self._name)
        except FileNotFoundError:
            self._keys, self._seen, self._damage = {}, None, ""
            return
        seen = (status.st_mtime_ns, status.st_ino)
        if seen != self._seen:
            self._seen = seen
            try:
                self._keys, self._damage = _read(self.path.read_bytes()), ""
            except DamagedRecord as error:
                self._damage = str(error)
                damaged_files.say_once(
                    self.path, f"{error}; the keys that were read before stay valid"
                )


def _read(data: bytes) -> dict[str, AccessKey]:
    records = parsed(data)
    if not isinstance(records, list):
        raise DamagedRecord("it is not a list")
    keys = [record(AccessKey, each) for each in records]
    return {key.id: key for key in keys}
