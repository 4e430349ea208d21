"""The files of a job's hosts that are on this machine, for processes outside of the job: those that
read it, and those that start it. A job that runs elsewhere is read from storage instead.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from trackside.records.layout import FIRST_HOST, HostFolder, JobFolder

if TYPE_CHECKING:
    from trackside.records.hosts import HostRecord

_FIRST_ATTEMPT = 1


def files_of(folder: JobFolder, host: str, attempt: int) -> HostFolder:
    """What is written by, and for, one host in one attempt."""
    return folder.host(host, attempt)


def first_files(folder: JobFolder) -> HostFolder:
    """Of the lead in the first attempt, which every job has."""
    return files_of(folder, FIRST_HOST, _FIRST_ATTEMPT)


def files_so_far(folder: JobFolder, host: str, attempt: int) -> list[HostFolder]:
    """Of one host in this and all earlier attempts, the newest first."""
    return [files_of(folder, host, number) for number in range(attempt, 0, -1)]


def record_of(folder: JobFolder, host: str, attempt: int) -> "HostRecord | None":
    """How far the host is; None before it has announced anything, and if that is damaged."""
    from trackside.records import hosts  # nobody who starts a job needs it

    return hosts.read(files_of(folder, host, attempt).record)


def records_of(folder: JobFolder, hosts: Iterable[str], attempt: int) -> "dict[str, HostRecord]":
    """Of those hosts that have announced something."""
    found = {host: record_of(folder, host, attempt) for host in hosts}
    return {host: record for host, record in found.items() if record is not None}


def has_damaged_record(folder: JobFolder, host: str, attempt: int) -> bool:
    is_there = files_of(folder, host, attempt).record.exists()
    return is_there and record_of(folder, host, attempt) is None


def log_of(folder: JobFolder, host: str, attempt: int) -> Path:
    """Everything the script wrote, byte for byte."""
    return files_of(folder, host, attempt).log
