"""The processes of jobs, known by the folder that they were started with.

A supervisor that came second, or has not said who it is, is in no record; here it is found.
"""

import os
from contextlib import suppress
from pathlib import Path

import psutil

from tests.wait import until


def processes_of(place: Path) -> list[psutil.Process]:
    """Those that work in this folder or below: supervisors, evaluators of rules."""
    found = psutil.process_iter(["cmdline"])
    return [
        each
        for each in found
        if _is_below(each.info["cmdline"] or (), str(place)) or _is_standby(each, str(place))
    ]


def until_they_have_left(place: Path) -> None:
    """From then on the folder belongs to the test alone."""
    until(lambda: not processes_of(place))


def end_processes_of(place: Path) -> None:
    """SIGKILL, until there are none: one may just be starting another."""

    def is_over() -> bool:
        for process in (alive := processes_of(place)):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return not alive

    until(is_over)


def _is_standby(process: psutil.Process, place: str) -> bool:
    """A supervisor that was forked has its maker's command line; it holds its host's lock."""
    if not any(
        each.endswith("trackside") or "trackside." in each for each in process.info["cmdline"] or ()
    ):
        return False
    with suppress(psutil.Error):
        return _is_below(tuple(each.path for each in process.open_files()), place)
    return False


def _is_below(arguments: tuple[str, ...], place: str) -> bool:
    return any(each == place or each.startswith(place + os.sep) for each in arguments)
