"""Where a job's hosts are: their addresses, their network interface, and what they share.

`group.json` is in the job's folder on each host of a placement whose hosts share no files; without
it, all hosts are on this machine.
"""

from dataclasses import asdict

from trackside.files import damaged_files, durable
from trackside.quick_dataclass import dataclass
from trackside.records.layout import JobFolder

FORMAT = 1


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
    format: int = FORMAT

    def write(self, folder: JobFolder) -> None:
        durable.write_json(folder.group, asdict(self))


def read_group(folder: JobFolder) -> GroupRecord | None:
    """None when the folder is all hosts', on this machine."""
    return damaged_files.read(GroupRecord, folder.group)
