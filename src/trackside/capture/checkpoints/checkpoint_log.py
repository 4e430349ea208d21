"""The list of what a script has saved and loaded, bounded, for the anatomy file."""

import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from trackside.capture.checkpoints.spans import Spans

MOST_EVENTS = 256
"""Then only the first half and the newest are kept."""
_NUM_NEWS = 32
"""Events that are written at once; later ones are written with what else is new."""
_MOST_RETURNS = 8
"""Returns to a file that are counted: who goes back after every epoch does so on purpose."""


@dataclass(slots=True)
class Event:
    """One call. `docs/capture.md` explains the fields."""

    action: str
    """save or load."""
    what: str
    """file, or the kind of object that was given a state."""
    start: float
    seconds: float = 0.0
    step: int = -1
    path: str = ""
    holds: list[str] = field(default_factory=list)
    type: str = ""
    num_keys: int = 0
    num_matched: int = 0
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    num_missing: int = 0
    num_unexpected: int = 0
    num_learnt_missing: int = 0
    prefix: str = ""
    rates: list[float] = field(default_factory=list)
    is_own: bool = False
    is_trained: bool = False
    is_idle: bool = False
    holder: Callable[[], Any] | None = None
    """Weakly, the module that was given the state."""

    def to_json(self) -> dict[str, Any]:
        return {
            name: getattr(self, name)
            for name in self.__dataclass_fields__
            if name != "holder" and getattr(self, name) not in ("", [], 0, 0.0, False)
        }


class CheckpointLog:
    """`step` returns the number of the running step; -1 before the first."""

    def __init__(self) -> None:
        self.step: Callable[[], int] = lambda: -1
        self.num_news = self._count = 0
        self.num_returns = 0
        """How often a file that was saved while it trained was loaded again."""
        self.saves = Spans()
        self._events: list[Event] = []

    def add(self, event: Event) -> None:
        event.step = self.step()
        event.seconds = max(0.0, time.time() - event.start)
        self._count += 1
        self.num_news = min(self._count, _NUM_NEWS)
        if event.action == "save":
            self.saves.add(event.start, event.start + event.seconds, event.step)
        elif self._is_return(event):
            self.num_returns = min(self.num_returns + 1, _MOST_RETURNS)
        self._events.append(event)
        if len(self._events) > MOST_EVENTS:
            del self._events[MOST_EVENTS // 2]

    def clear(self) -> None:
        self._events, self.saves = [], Spans()
        self.num_news = self._count = self.num_returns = 0

    def _is_return(self, event: Event) -> bool:
        is_file = event.what == "file" and bool(event.path)
        return is_file and any(
            each.action == "save" and each.path == event.path and each.step >= 0
            for each in self._events
        )

    @property
    def is_full(self) -> bool:
        """What is loaded that often, as a copy of a model at every step, is not looked into."""
        return self._count > MOST_EVENTS

    def to_json(self, trained: Iterable[int]) -> list[dict[str, Any]]:
        """`trained` are the identities of the parameters that are watched."""
        known = set(trained)
        for event in self._events:
            holder = None if event.holder is None else event.holder()
            if holder is not None:
                event.is_trained |= any(id(each) in known for each in holder.parameters())
        return [event.to_json() for event in self._events]


def weakly(module: Any) -> Callable[[], Any] | None:
    try:
        return weakref.ref(module)
    except TypeError:
        return None
