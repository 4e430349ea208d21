"""Handles defects of capture: logged once, counted, written to a file, never raised."""

import json
import logging
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from time import time
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from trackside.capture.trial_layout import FAILURES
from trackside.files.durable import write_json
from trackside.files.permissions import BY_UMASK

_LIMIT = 100
"""Failures after which capture is switched off for the rest of the process."""

logger = logging.getLogger(__name__)


class Failures:
    """`send` takes name and text of a file, where the trial is in no folder of this machine."""

    def __init__(self, folder: Path | None) -> None:
        self.send: Callable[[str, str], None] | None = None
        self._marker = None if folder is None else folder / FAILURES
        self._kinds: dict[tuple[str, str], dict[str, Any]] = {}
        self.count = 0

    @property
    def is_switched_off(self) -> bool:
        return self.count >= _LIMIT

    def report(self, where: str, error: BaseException) -> None:
        self.count += 1
        kind = self._kinds.get((where, type(error).__name__))
        if kind is not None:
            kind["count"] += 1
            if kind["count"] & (kind["count"] - 1) == 0:  # the file is updated without growing work
                self._leave_marker()
            return
        self._kinds[where, type(error).__name__] = {
            "where": where,
            "kind": type(error).__name__,
            "message": str(error),
            "first_time": time(),
            "trace": "".join(traceback.format_exception(error)),
            "count": 1,
        }
        logger.warning(
            "Capture had a problem in %s and continues without it; training is not affected. "
            "%s: %s (logged once; counted in %s)",
            where,
            type(error).__name__,
            error,
            self._marker or (FAILURES if self.send else "memory"),
            exc_info=error,
        )
        self._leave_marker()

    def _leave_marker(self) -> None:
        content = {"count": self.count, "errors": [*self._kinds.values()]}
        if self._marker is None:
            if self.send is not None:
                self.send(FAILURES, json.dumps(content))
            return
        try:
            self._marker.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._marker, content, mode=BY_UMASK)
        except OSError:  # the disk may be the problem itself; the log has it
            logger.debug("The marker %s could not be written.", self._marker, exc_info=True)


class Guarded(Protocol):
    failures: Failures


P = ParamSpec("P")
G = TypeVar("G", bound=Guarded)


def guarded(method: Callable[Concatenate[G, P], None]) -> Callable[Concatenate[G, P], None]:
    """The boundary between the training loop and capture. Only interrupts pass it."""

    @wraps(method)
    def call(self: G, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if self.failures.is_switched_off:
            return
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 this is the capture boundary
            self.failures.report(method.__name__.strip("_"), error)

    return call
