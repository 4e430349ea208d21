"""Where a job's hosts are: their addresses, their network interface, and what they share.

`group.json` is in the job's folder on each host of a placement whose hosts share no files; without
it, all hosts are on this machine. A `Bundle` is what such a host gets to make that folder.
"""

import json
import sys
import zlib
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from trackside.files import damaged_files, durable
from trackside.files.json_record import (
    DamagedRecord,
    NewerFormat,
    numbered,
    numbered_record,
    parsed_object,
)
from trackside.quick_dataclass import dataclass
from trackside.records.layout import JobFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    addresses: dict[str, str]
    """By host."""
    interface: str
    host: str = ""
    """The host that this folder is of; empty when it is all hosts'."""
    attempt: int = 1
    epoch: int = 1
    """How many groups were placed for the job, with this one."""
    shares_files: bool = True
    ends_at: float = 0.0
    """When the engine ends the group, in seconds since 1970; 0 if it sets no limit."""
    notice: str = ""
    """The file that says, from the engine's notice on, of which host it takes the machine back;
    empty where the notice is only a signal."""

    @property
    def is_one_machine(self) -> bool:
        """Whether the hosts reach each other without a network."""
        return all(map(_is_loopback, self.addresses.values()))

    def write(self, folder: JobFolder) -> None:
        durable.write_record(folder.group, self)


def read_group(folder: JobFolder) -> GroupRecord | None:
    """None when the folder is all hosts', on this machine."""
    return damaged_files.read(GroupRecord, folder.group)


def group_of(folder: JobFolder, hosts: Sequence[str]) -> GroupRecord:
    return read_group(folder) or GroupRecord(
        addresses=loopback_addresses(folder.root.name, hosts), interface=loopback_interface()
    )


def loopback_addresses(job: str, hosts: Sequence[str]) -> dict[str, str]:
    """An address of this machine for every host, distinct from other jobs' where possible."""
    if sys.platform != "linux":  # elsewhere only 127.0.0.1 is available
        return dict.fromkeys(hosts, "127.0.0.1")
    number = zlib.crc32(job.encode())
    first, second = 1 + number % 254, number // 254 % 250
    return {
        host: f"127.{first}.{second + index // 250}.{1 + index % 250}"
        for index, host in enumerate(hosts)
    }


def loopback_interface() -> str:
    return "lo" if sys.platform == "linux" else "lo0"


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address in ("::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What the hosts of a group need that have no folder of the job. It has secrets: it is passed
    privately, and never on a command line."""

    spec: dict[str, Any] = field(repr=False)
    """The whole request."""
    journal: str
    """So far."""
    hosts: dict[str, str] = field(repr=False)
    """The nonce of each host, in their order."""
    attempt: int
    epoch: int
    environment: dict[str, str] = field(repr=False)
    """What the job needs of the submitter's."""
    addresses: dict[str, str] = field(default_factory=dict)
    """Empty when they are known only on the hosts."""
    interface: str = ""
    """Empty for the one that has the host's address."""
    shares_files: bool = False

    def to_json(self) -> str:
        return json.dumps(numbered(self))

    @classmethod
    def parse(cls, text: str) -> "Bundle":
        """`DamagedRecord` when it is none, or of a later version of Trackside."""
        try:
            return numbered_record(cls, parsed_object(text))
        except NewerFormat as error:
            raise DamagedRecord(f"{error} on this host, the submitter's") from error
