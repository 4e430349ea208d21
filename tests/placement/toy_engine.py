"""A child of `test_engine_child.py`: it plays an engine's library."""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from trackside.placement.engine_child import ConnectionLost, serve


def echo(text: str) -> dict[str, object]:
    sys.stdout.write("noise of the library\n")
    sys.stdout.flush()
    return {"text": text, "pid": os.getpid()}


def fail(kind: str) -> None:
    kinds: dict[str, type[Exception]] = {
        "refused": ValueError,
        "away": ConnectionError,
        "lost": ConnectionLost,
        "other": KeyError,
    }
    raise kinds[kind]("the reason")


def die() -> None:
    sys.stderr.write("fatal: the head is gone\n")
    sys.stderr.flush()
    os._exit(1)


def hang() -> None:
    time.sleep(600)


if __name__ == "__main__":
    functions: dict[str, Callable[..., Any]] = {
        "echo": echo,
        "fail": fail,
        "die": die,
        "hang": hang,
    }
    serve(functions, (ConnectionError,), library="no_such_library")
