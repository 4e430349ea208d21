"""Stretches of time in which a script did something else than train, bounded in number."""

from typing import Any

MOST_SPANS = 256


class Spans:
    """When there are too many, each two neighbours become one, which covers both."""

    def __init__(self) -> None:
        self._spans: list[list[float]] = []
        self._is_open = False

    def add(self, start: float, end: float, step: int) -> None:
        """A whole one."""
        self._spans.append([start, end, step, step, 1])
        self._bound()

    def extend(self, now: float, step: int) -> None:
        """Something of this kind begins; it belongs to the open one if there is one."""
        if self._is_open:
            last = self._spans[-1]
            last[1], last[3] = now, step
            return
        self.add(now, now, step)
        self._is_open = True

    @property
    def is_open(self) -> bool:
        return self._is_open

    def end(self, now: float) -> None:
        if self._is_open:
            self._spans[-1][1] = now
            self._is_open = False

    def to_json(self) -> list[dict[str, Any]]:
        return [
            {
                "start": start,
                "end": end,
                "first_step": int(first),
                "last_step": int(last),
                "count": int(count),
            }
            for start, end, first, last, count in self._spans
        ]

    def _bound(self) -> None:
        if len(self._spans) <= MOST_SPANS:
            return
        newest = self._spans.pop()
        pairs = zip(self._spans[::2], self._spans[1::2], strict=True)
        joined = [[a[0], b[1], a[2], b[3], a[4] + b[4]] for a, b in pairs]
        self._spans = [*joined, newest]
