"""Learnt invariants, an experiment: what held in every good run of a script, and what of it does
not hold in another run.

The relations are those of TrainCheck (OSDI 2025), over what capture saves anyway: a fact is always
the same, a count is always or never 0, one count is a multiple of another (once per step), a figure
is always finite, 0, another than 0, steady or changing, and equal or different across ranks. Pure:
`observed_run.py` reads the runs.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

FEWEST_POINTS = 8
"""Points of a figure before what all of them have in common is more than coincidence."""
FEWEST_COUNTED = 8
"""The same of counts: 2 backwards and 2 updates say little."""
BROKEN_SHARE = 0.5
"""Points that break a relation, of those of a run: another seed may break it at a few."""
MOST_TIMES = 64
"""A count that is a larger multiple of another is so by coincidence."""

Value = str | bool | None


@dataclass(frozen=True, slots=True)
class Observed:
    """One run, by names that mean the same in all runs of the script."""

    facts: Mapping[str, Value] = field(default_factory=dict)
    counts: Mapping[str, float] = field(default_factory=dict)
    """Of them only whether they are 0 is compared."""
    events: Mapping[str, int] = field(default_factory=dict)
    """Counts of what a training loop does again and again: one may be a multiple of another."""
    series: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Figures over the sampled steps."""
    ranks: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    """Figures of all ranks at the same steps: for each step, one of each rank."""


@dataclass(frozen=True, slots=True)
class Invariant:
    relation: str
    name: str
    value: Value | float = None
    other: str = ""
    """The count that `name` is a multiple of."""

    @property
    def text(self) -> str:
        return _TEXTS[self.relation].format(name=self.name, value=self.value, other=self.other)


@dataclass(frozen=True, slots=True)
class Broken:
    invariant: Invariant
    found: str
    """What is so instead."""


def infer(runs: Sequence[Observed]) -> list[Invariant]:
    """All that held in each of `runs`."""
    if not runs:
        return []
    first, *others = [set(_relations(run)) for run in runs]
    return sorted(first.intersection(*others), key=lambda each: (each.name, each.relation))


def check(invariants: Sequence[Invariant], run: Observed) -> list[Broken]:
    """Those that do not hold. What the run says nothing about is not broken."""
    broken = []
    for invariant in invariants:
        found = _CHECKS[invariant.relation](invariant, run)
        if found:
            broken.append(Broken(invariant, found))
    return broken


def _relations(run: Observed) -> Iterator[Invariant]:
    for name, value in run.facts.items():
        yield Invariant("constant", name, value)
    for name, count in run.counts.items():
        yield Invariant("happens" if count else "never", name)
    yield from _multiples(run.events)
    for name, values in run.series.items():
        if len(values) >= FEWEST_POINTS:
            yield from (
                Invariant(relation, name)
                for relation, breaks in _POINTS.items()
                if not any(breaks(values))
            )
    for name, rows in run.ranks.items():
        if len(rows) >= FEWEST_POINTS:
            equal = [_is_equal(row) for row in rows]
            if all(equal) or not any(equal):
                yield Invariant("equal ranks" if all(equal) else "different ranks", name)


def _multiples(events: Mapping[str, int]) -> Iterator[Invariant]:
    for one, other in combinations(sorted(events), 2):
        more, less = (one, other) if events[one] >= events[other] else (other, one)
        if events[less] < FEWEST_COUNTED:
            continue
        times = round(events[more] / events[less])
        if times <= MOST_TIMES and _is_multiple(events[more], events[less], times):
            yield Invariant("multiple", more, times, less)


def _is_multiple(more: int, less: int, times: float) -> bool:
    """But for a last one that a run has not come to."""
    return abs(more - times * less) <= times


def _check_constant(invariant: Invariant, run: Observed) -> str:
    if invariant.name not in run.facts:
        return "it is not there"
    value = run.facts[invariant.name]
    return "" if value == invariant.value else f"it is {value}"


def _check_happens(invariant: Invariant, run: Observed) -> str:
    return "it is 0" if run.counts.get(invariant.name, 1) == 0 else ""


def _check_never(invariant: Invariant, run: Observed) -> str:
    count = run.counts.get(invariant.name, 0)
    return f"it is {count:g}" if count else ""


def _check_multiple(invariant: Invariant, run: Observed) -> str:
    more, less = run.events.get(invariant.name), run.events.get(invariant.other)
    times = float(invariant.value or 1)
    if more is None or less is None or max(more, less) < FEWEST_COUNTED:
        return ""
    return "" if _is_multiple(more, less, times) else f"they are {more} and {less}"


def _check_points(invariant: Invariant, run: Observed) -> str:
    values = run.series.get(invariant.name, ())
    if len(values) < FEWEST_POINTS:
        return ""
    broken = list(_POINTS[invariant.relation](values))
    share = sum(broken) / len(broken)
    is_broken = any(broken) if invariant.relation == "finite" else share > BROKEN_SHARE
    return f"not so at {sum(broken)} of {len(broken)} points" if is_broken else ""


def _check_ranks(invariant: Invariant, run: Observed) -> str:
    rows = run.ranks.get(invariant.name, ())
    if len(rows) < FEWEST_POINTS:
        return ""
    wants_equal = invariant.relation == "equal ranks"
    broken = sum(_is_equal(row) is not wants_equal for row in rows)
    return f"not so at {broken} of {len(rows)} points" if broken > BROKEN_SHARE * len(rows) else ""


def _is_equal(row: Sequence[float]) -> bool:
    return all(value == row[0] for value in row)


def _changes(values: Sequence[float]) -> Iterator[bool]:
    return (later != earlier for earlier, later in zip(values, values[1:], strict=False))


_POINTS: dict[str, Callable[[Sequence[float]], Iterator[bool]]] = {
    "finite": lambda values: (not math.isfinite(value) for value in values),
    "zero": lambda values: (value != 0 for value in values),
    "not zero": lambda values: (value == 0 for value in values),
    "steady": _changes,
    "changing": lambda values: (not each for each in _changes(values)),
}
"""Which points break the relation."""

_CHECKS: dict[str, Callable[[Invariant, Observed], str]] = {
    "constant": _check_constant,
    "happens": _check_happens,
    "never": _check_never,
    "multiple": _check_multiple,
    **dict.fromkeys(_POINTS, _check_points),
    "equal ranks": _check_ranks,
    "different ranks": _check_ranks,
}

_TEXTS = {
    "constant": "{name} is {value}",
    "happens": "{name} is not 0",
    "never": "{name} is 0",
    "multiple": "{name} is {value:g} times {other}",
    "finite": "{name} is finite",
    "zero": "{name} is 0 at each point",
    "not zero": "{name} is not 0 at any point",
    "steady": "{name} stays the same",
    "changing": "{name} changes from each point to the next",
    "equal ranks": "{name} is the same on all ranks",
    "different ranks": "{name} differs between ranks",
}
