"""Warns of other jobs that run in the same folder, for `trackside run --in-place`."""

import os

from trackside.jobs.records import UNREADABLE
from trackside.records.status import Status
from trackside.sdk.known_jobs import jobs_of_this_machine


def warnings(name: str, folder: str) -> list[str]:
    """A sentence when other unfinished jobs run in this folder as well."""
    others = [other for other in _running(name) if os.path.realpath(folder) == other[1]]
    if not others:
        return []
    names = ", ".join(repr(other) for other, _ in others)
    runs = "runs" if len(others) == 1 else "run"
    return [
        f"{names} {runs} in this folder too: what one writes the other reads, and each keeps the "
        "new files of both. Give them different names, or leave --in-place away."
    ]


def _running(name: str) -> list[tuple[str, str]]:
    jobs = jobs_of_this_machine("--in-place")
    found = []
    for row in jobs.list(status=Status.IN_PROGRESS):
        try:
            folder = jobs.record(row.name).spec.options.in_place
        except UNREADABLE:
            continue  # it was just deleted
        if folder is not None and row.name != name:
            found.append((row.name, os.path.realpath(folder)))
    return found
