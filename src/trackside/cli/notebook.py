"""`%load_ext trackside`: sets up a notebook's kernel as `trackside env` does a shell."""

import importlib
import importlib.util
import os
import socket
import sys
from collections.abc import Iterable
from types import ModuleType
from urllib.parse import urlsplit

from trackside import smdebug_alias
from trackside.cli.env import DEFAULT_REGION, forget_access, make_access
from trackside.clients import redirect
from trackside.clients.environment import (
    Change,
    GiveBack,
    Keep,
    Set,
    Unset,
    changes,
    restored,
)
from trackside.settings import Settings, environment

_CONNECT_SECONDS = 2.0
_kept: dict[str, str] = {}
"""The user's own keys of this kernel: hidden from programs that it starts."""


def set_up() -> None:
    environ = environment()
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or DEFAULT_REGION
    access = make_access(Settings.load(), environ, region)
    _apply(changes(access, environ))
    for handlers in _botocore_handlers():
        redirect.register(handlers)
    sys.path.insert(0, str(smdebug_alias.FOLDER))
    print(f"AWS clients of this notebook talk to {access.url}")
    if not _answers(access.url):
        print("Nobody answers there yet: `trackside server` in a terminal starts this machine's.")


def take_back() -> None:
    environ = environment()
    forget_access(Settings.load(), environ)
    _apply(restored(environ))
    for handlers in _botocore_handlers():
        redirect.unregister(handlers)
    sys.path[:] = [entry for entry in sys.path if entry != str(smdebug_alias.FOLDER)]


def _answers(url: str) -> bool:
    address = urlsplit(url)
    port = address.port or (443 if address.scheme == "https" else 80)
    try:
        socket.create_connection((address.hostname or "", port), _CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def _apply(changes: Iterable[Change]) -> None:
    for change in changes:
        match change:
            case Set(name, value):
                os.environ[name] = value
            case Keep(name):
                _kept[name] = os.environ[name]
            case GiveBack(name) if name in _kept:
                os.environ[name] = _kept.pop(name)
            case GiveBack(name) | Unset(name):
                os.environ.pop(name, None)


def _botocore_handlers() -> list[ModuleType]:
    """None in a kernel without boto3, which needs no redirection."""
    if importlib.util.find_spec("botocore") is None:
        return []
    return [importlib.import_module("botocore.handlers")]
