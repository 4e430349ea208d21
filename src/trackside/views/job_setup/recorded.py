"""What was recorded about a job when it was submitted and while it ran, read from storage: its
packages, machines, data, and how its code differed from the commit.

Jobs of older versions lack some of it, and files may be damaged: then there is nothing.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from trackside.errors import TracksideError
from trackside.files import damaged_files
from trackside.files.json_record import DamagedRecord
from trackside.jobs.described_locations import keys_of
from trackside.records import channel_data, machine, script_packages
from trackside.records.channel_data import ChannelData
from trackside.records.layout import FIRST_HOST
from trackside.records.script_packages import ScriptPackages
from trackside.storage.locate import locate_object_to_read

MOST_DIFF_BYTES = 2 << 20
_MOST_RECORD_BYTES = 4 << 20
_T = TypeVar("_T")


class Recorded:
    """Of one job, by its description. Each method reads again."""

    def __init__(self, described: Mapping[str, Any], home: Path) -> None:
        self._keys = keys_of(described)
        self._home = home

    def packages(self, host: str = FIRST_HOST) -> ScriptPackages | None:
        """Known about a second after the script's start."""
        return self._read(self._keys.packages(host), script_packages.from_bytes)

    def machine(self, host: str = FIRST_HOST) -> dict[str, str]:
        found = self._read(self._keys.machine(host), machine.from_bytes)
        return {} if found is None else found.facts

    def channel(self, name: str) -> ChannelData | None:
        limit = channel_data.MOST_BYTES
        return self._read(self._keys.data_list(name), channel_data.from_bytes, limit)

    def git_diff(self) -> bytes | None:
        """Already without secrets."""
        return self._fetch(self._keys.git_diff, MOST_DIFF_BYTES)

    def has_git_diff(self) -> bool:
        place = locate_object_to_read(self._keys.git_diff, home=self._home)
        try:
            place.store.stat(place.key)
        except TracksideError:
            return False
        return True

    def _read(
        self, uri: str, parse: Callable[[bytes], _T], most_bytes: int = _MOST_RECORD_BYTES
    ) -> _T | None:
        data = self._fetch(uri, most_bytes)
        if data is None:
            return None
        try:
            return parse(data)
        except DamagedRecord as error:
            damaged_files.say_once(uri, f"{error}; it is left out")
            return None

    def _fetch(self, uri: str, most_bytes: int) -> bytes | None:
        place = locate_object_to_read(uri, home=self._home)
        try:
            return place.store.get(place.key, 0, most_bytes)
        except TracksideError:
            return None
