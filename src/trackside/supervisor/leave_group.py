"""Removes the home of a host that was made for one job: `trackside.supervisor --leave`."""

import os
import shutil
from pathlib import Path

from trackside.records.group import read_group
from trackside.records.journal import Journal
from trackside.records.layout import Home, JobFolder
from trackside.records.status import Secondary
from trackside.settings import keep_files_private
from trackside.supervisor.free_disk import keeps_files


def main() -> int:
    keep_files_private()
    # Not by the settings: variables of the group are still set here, and are none of them.
    remove_home(Home(Path(os.environ["TRACKSIDE_HOME"])))
    return 0


def remove_home(home: Home) -> None:
    """Of a group's host, when all of its jobs have ended and nothing of them is left to upload, or
    they go on elsewhere."""
    for root in home.jobs.iterdir():
        history = Journal(JobFolder(root).journal).read()
        is_over = history.state.is_final or history.state.secondary is Secondary.INTERRUPTED
        if not is_over or keeps_files(history) or read_group(JobFolder(root)) is None:
            return
    shutil.rmtree(home.root, ignore_errors=True)
