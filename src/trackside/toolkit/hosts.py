"""Waits until the job's hosts are reachable: names resolve, ports accept connections."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial

from trackside.errors import ToolkitError

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 30.0
HOSTS_TABLE = "/etc/hosts"


def wait_for_names(hosts: Sequence[str], wait_seconds: float) -> None:
    """On SageMaker names may resolve only some time after the first host has started."""
    deadline = time.monotonic() + wait_seconds
    for host in hosts:
        _wait(partial(_resolves, host), deadline, f"Host {host!r} has no address")


def wait_for_each_other(
    hosts: Sequence[str], own: str, folder: str, wait_seconds: float, table: str = HOSTS_TABLE
) -> None:
    """By files in a folder that they share, each with the host's address. The name of a container
    is gone as soon as its script has ended, which may be before another host has looked for it:
    so the others' addresses are added to `table`, if this user may."""
    path = os.path.join(folder, own)
    with open(f"{path}.part", "w") as file:
        file.write(_address(own))
    os.replace(f"{path}.part", path)
    deadline = time.monotonic() + wait_seconds
    for host in hosts:
        present = partial(os.path.exists, os.path.join(folder, host))
        _wait(present, deadline, f"Host {host!r} has not started")
    with contextlib.suppress(OSError):
        _add_addresses([host for host in hosts if host != own], folder, table)


def _add_addresses(hosts: Sequence[str], folder: str, table: str) -> None:
    with open(table, "a") as file:
        for host in hosts:
            with open(os.path.join(folder, host)) as found:
                address = found.read()
            if address:
                file.write(f"{address}\t{host}\n")


def _address(host: str) -> str:
    try:
        return socket.gethostbyname(host)
    except OSError:
        return ""


def wait_for_port(host: str, port: int, wait_seconds: float) -> None:
    deadline = time.monotonic() + wait_seconds
    _wait(partial(accepts, host, port), deadline, f"Host {host!r} does not answer on port {port}")


def accepts(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=5):
            return True
    except OSError:
        return False


def _resolves(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True


def _wait(is_there: Callable[[], bool], deadline: float, complaint: str) -> None:
    pause = _FIRST_PAUSE_SECONDS
    while not is_there():
        left = deadline - time.monotonic()
        if left <= 0:
            raise ToolkitError(
                f"{complaint}. All hosts of the job have to be up on one network; "
                "TRACKSIDE_HOST_WAIT_SECONDS sets how long they may take."
            )
        time.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
