"""Where `trackside ui` of a home listens, and whether it runs already. Imports nothing slow."""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trackside.files.permissions import make_folder, private_opener

DEFAULT_PORT = 8477
_TRIED_PORTS = 20
_BACKLOG = 128


def bound(host: str, port: int | None) -> socket.socket:
    """A socket that listens; without a port, at the usual one or the next that is free."""
    ports = [port] if port is not None else [*range(DEFAULT_PORT, DEFAULT_PORT + _TRIED_PORTS), 0]
    for each in ports[:-1]:
        with suppress(OSError):
            return _bound(host, each)
    return _bound(host, ports[-1])


@contextmanager
def registered(path: Path, url: str) -> Iterator[str]:
    """Inside, later calls find this address. Yields the address of one that runs already, else an
    empty text."""
    make_folder(path.parent)
    with open(path, "a+", opener=private_opener) as record:
        try:
            fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield running(path)
            return
        record.truncate(0)
        record.write(json.dumps({"url": url, "pid": os.getpid()}))
        record.flush()
        yield ""
        record.truncate(0)


def running(path: Path) -> str:
    """The address of the one that runs on this home; empty when none does."""
    try:
        with open(path) as record:
            try:
                fcntl.flock(record, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return str(json.loads(record.read())["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return ""


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
