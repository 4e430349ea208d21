"""Reads files that may be damaged: damaged ones are skipped, and logged once. Those of a later
format are refused: who takes them for missing would begin again what is under way.

`files/json_record.py` detects damage; `files/durable.py` writes.
"""

import logging
from pathlib import Path
from typing import Any, TypeVar

from trackside.errors import DamagedJob
from trackside.files.json_record import (
    DamagedRecord,
    NewerFormat,
    check_format,
    numbered_record,
    parsed,
    parsed_object,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MOST_LOGGED = 10_000

_logged: set[tuple[str, str]] = set()


def read(kind: type[T], path: Path) -> T | None:
    """The record in a file; None without a file, or if it is damaged, which is logged.

    `DamagedJob` if it is of a later format.
    """
    try:
        return numbered_record(kind, parsed(path.read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except NewerFormat as error:
        raise DamagedJob(f"{str(path)!r} cannot be read: {error}.") from error
    except DamagedRecord as error:
        say_once(path, f"{error}; it is left out")
        return None


def read_object(path: Path) -> dict[str, Any] | None:
    """The same of a JSON object without declared fields."""
    try:
        found = parsed_object(path.read_bytes())
        check_format(found)
        return found
    except (FileNotFoundError, NotADirectoryError):
        return None
    except NewerFormat as error:
        raise DamagedJob(f"{str(path)!r} cannot be read: {error}.") from error
    except DamagedRecord as error:
        say_once(path, f"{error}; it is left out")
        return None


def say_once(where: object, what: str) -> None:
    """Log that something is damaged, once per process: files are read repeatedly."""
    problem = (str(where), what)
    if problem in _logged:
        return
    if len(_logged) >= _MOST_LOGGED:
        _logged.clear()
    _logged.add(problem)
    logger.warning("%s is damaged: %s.", *problem)


def counted(number: int, what: str) -> str:
    """`1 damaged line was`, `2 damaged lines were`."""
    return f"1 damaged {what} was" if number == 1 else f"{number:,} damaged {what}s were"
