"""Prometheus' text form, written by hand: counters and histograms that requests add to, and the
page they are read from."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its name, what it means, and each value with its labels."""

    name: str
    help: str
    samples: Iterable[tuple[Mapping[str, str], float]]
    kind: str = "gauge"

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.help, self.kind)
        for labels, value in self.samples:
            yield _line(self.name, labels, value)


class Counter:
    """Thread-safe, as is `Histogram`."""

    def __init__(self, name: str, help: str, labels: Sequence[str]) -> None:
        self._name, self._help, self._labels = name, help, labels
        self._values: dict[Labels, float] = {}
        self._lock = Lock()

    def add(self, *labels: str, amount: float = 1) -> None:
        with self._lock:
            self._values[labels] = self._values.get(labels, 0) + amount

    def lines(self) -> Iterator[str]:
        with self._lock:
            values = dict(self._values)
        samples = [(dict(zip(self._labels, each, strict=True)), values[each]) for each in values]
        return Family(self._name, self._help, samples, "counter").lines()


@dataclass(slots=True)
class _Observed:
    counts: list[int]
    total: float = 0.0


@dataclass(slots=True)
class Histogram:
    name: str
    help: str
    labels: Sequence[str]
    bounds: Sequence[float]
    """Ascending; what is above the last counts too."""
    _observed: dict[Labels, _Observed] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def observe(self, *labels: str, value: float) -> None:
        with self._lock:
            observed = self._observed.get(labels)
            if observed is None:
                observed = self._observed[labels] = _Observed([0] * (len(self.bounds) + 1))
            observed.counts[bisect_left(self.bounds, value)] += 1
            observed.total += value

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.help, "histogram")
        with self._lock:
            seen = [(each, [*one.counts], one.total) for each, one in self._observed.items()]
        for labels, counts, total in seen:
            named = dict(zip(self.labels, labels, strict=True))
            upto = 0
            for bound, count in zip((*self.bounds, math.inf), counts, strict=True):
                upto += count
                yield _line(f"{self.name}_bucket", {**named, "le": _number(bound)}, upto)
            yield _line(f"{self.name}_sum", named, total)
            yield _line(f"{self.name}_count", named, upto)


def page(metrics: Iterable[Family | Counter | Histogram]) -> bytes:
    return "".join(f"{line}\n" for metric in metrics for line in metric.lines()).encode()


def _head(name: str, help: str, kind: str) -> Iterator[str]:
    told = help.replace("\\", "\\\\").replace("\n", "\\n")
    yield f"# HELP {name} {told}"
    yield f"# TYPE {name} {kind}"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    told = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{told}}} {_number(value)}" if told else f"{name} {_number(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
