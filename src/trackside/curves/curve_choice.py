"""Which of a job's curves are shown: their names and order, duplicates removed, and which share a
chart. Pure; `metrics`, `compare` and the report show them.

A loss that the script logs and prints and that the hook captures is one curve, recognized by its
values.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from posixpath import commonpath, relpath
from typing import Protocol

import numpy

from trackside.curves.columns import Integers, Reals
from trackside.curves.downsample import in_order
from trackside.curves.event_reader import TOP, Curves, Series
from trackside.curves.machine_curves import is_machine_run
from trackside.curves.metric_direction import is_more_better

_LESS_IS_BETTER = re.compile(r"loss|nll|elbo|perplexity|ppl|error|cost|\b(mse|mae|rmse)\b")
_WORDS = re.compile(r"[/_:.\s-]+")
_PHASES = {
    "train": ("train", "training", "trn"),
    "val": ("val", "valid", "validation", "eval", "evaluation", "dev"),
    "test": ("test", "testing"),
}
_PHASE_OF = {word: phase for phase, words in _PHASES.items() for word in words}
_ORDER_OF_PHASES = ("train", "", "val", "test")
PREFERRED_PHASES = ("", "val", "test", "train")
"""Of a metric whose name has no phase."""
_MODES = ("TRAIN", "EVAL", "PREDICT", "GLOBAL")
"""Of the hook: its own runs, and the suffixes of its metrics."""
_OF_HOOK = re.compile(r"vitals/.*|.*_output_\d+")
_LOG = "trackside/"
STEP = "step"
"""The usual x-axis."""
_UNLIKE = 2.0
"""How much further one curve's steps may reach than another's in a chart over steps."""
_TIMES = ((7200.0, 3600.0, "hours"), (120.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))
MOST_COMPARED = 200
"""Points of the shorter curve, evenly spread."""
LEAST_DISTINCT = 3
"""With fewer distinct values, equal curves may be a coincidence."""
_SINGLE_PRECISION = 1e-5
_AS_STORED = 2e-7
"""The rounding of a decimal fraction in single precision, as in event files."""
_MOST_DECIMALS = 12
_MOST_EXACT = 64
"""Curves of the hook that are compared with every curve of the script, whatever their names: there
may be hundreds of both."""


class Origin(IntEnum):
    """The source of a curve, most interesting first."""

    SCRIPT = 0
    LOG = 1
    """Found in the script's output, or reported by it as a metric."""
    HOOK = 2
    MACHINE = 3


class Points(Protocol):
    """Of a curve: `Series`, or points that are read from a store when they are needed."""

    @property
    def run(self) -> str: ...
    @property
    def tag(self) -> str: ...
    @property
    def steps(self) -> Integers: ...
    @property
    def times(self) -> Reals: ...
    @property
    def values(self) -> Reals: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Curve:
    """`series` has no points that a resumed script has rewritten."""

    series: Points
    name: str
    origin: Origin
    phase: str
    """`train`, `val`, `test`, or "" if the name has none."""
    metric: tuple[str, ...]
    """The name without the phase: curves of one metric share a chart."""
    same_as: str = ""
    """The curve with the same values that is shown instead of this one."""


def best(series: Points) -> tuple[float, int] | None:
    """Value and step; None if no value is finite."""
    finite = numpy.flatnonzero(numpy.isfinite(series.values))
    if not len(finite):
        return None
    values = series.values[finite]
    at = finite[values.argmax() if is_more_better(series.tag) else values.argmin()]
    return float(series.values[at]), int(series.steps[at])


def all_curves(curves: Curves) -> list[Curve]:
    """The script's own first and losses before others; the hook's, then the machine's, last."""
    return chosen_curves([without_rewritten(series) for series in curves.scalars.values()])


def chosen_curves(given: Iterable[Points]) -> list[Curve]:
    """The same of curves without points that a resumed script has rewritten."""
    drawn = sorted(given, key=lambda series: (origin_of(series), series.run))
    top = _above_all(drawn)
    found: list[Curve] = []
    taken: set[str] = set()
    shown = _Shown()
    for series in drawn:
        curve = _curve(series, top, taken)
        if same_as := shown.instead_of(curve):
            curve = replace(curve, same_as=same_as)
        shown.add(curve)
        found.append(curve)
        taken.add(curve.name)
    return sorted(found, key=_rank)


def main_loss(curves: Iterable[Curve]) -> Curve | None:
    """The loss that stands for a training: the first in the order of `all_curves`."""
    known = [each for each in curves if each.origin is not Origin.MACHINE and not each.same_as]
    losses = (each for each in known if _is_loss(each))
    return next(losses, None) or next((each for each in known if _importance(each) == 0), None)


def last_value(curves: Curves, name: str) -> float | None:
    """Of the curve with this name or, without one, of the metric that it names: `val_loss` is
    `loss/val`, and `loss` prefers validation to training.
    """
    found = [each for each in all_curves(curves) if not each.same_as]
    phase, metric = phase_and_metric(name)
    alike = [each for each in found if each.metric == metric and phase in ("", each.phase)]
    alike.sort(key=lambda each: PREFERRED_PHASES.index(each.phase))
    exact = [each for each in found if each.name == name or each.series.tag == name]
    chosen = next(iter([*exact, *alike]), None)
    return None if chosen is None else float(chosen.series.values[-1])


def groups(curves: Iterable[Curve]) -> list[list[Curve]]:
    """Those of one metric together, in the order of the first."""
    found: dict[tuple[object, ...], list[Curve]] = {}
    for curve in curves:
        origin = max(curve.origin, Origin.LOG)
        alone = curve.name if curve.origin is Origin.MACHINE else ""
        found.setdefault((origin, curve.metric, alone), []).append(curve)
    return list(found.values())


def title_of(group: Sequence[Curve]) -> str:
    """Of its chart."""
    return group[0].name if len(group) == 1 else " ".join(group[0].metric)


def labels_of(group: Sequence[Curve]) -> list[str]:
    """Labels for its lines: their phases, if those are distinct."""
    phases = [curve.phase for curve in group]
    is_enough = len({*phases}) == len(phases) and all(phases)
    return phases if is_enough else [curve.name for curve in group]


def drawn_over(group: Sequence[Curve]) -> tuple[str, list[Reals]]:
    """The x-axis: steps or, if one curve counts batches and another epochs, the time since the
    first point.
    """
    steps = [curve.series.steps.astype(float) for curve in group]
    spans = [float(each.max()) for each in steps if len(each) > 1]
    times = [curve.series.times for curve in group]
    begin = min(float(each.min()) for each in times)
    passed = max(float(each.max()) for each in times) - begin
    is_unlike = bool(spans) and max(spans) > _UNLIKE * max(min(spans), 1.0)
    if not is_unlike or not 0 < passed < float("inf"):
        return STEP, steps
    _, unit, name = next(each for each in _TIMES if passed >= each[0])
    return name, [(each - begin) / unit for each in times]


def headline(curves: Iterable[Curve], most: int) -> list[Curve]:
    """Those whose last values summarize a job: quality metrics, then losses; validation before
    training. The hook's only if the script has none."""
    known = [each for each in curves if not each.same_as and _importance(each) < 2]
    own = [each for each in known if each.origin <= Origin.LOG]
    chosen = own or [each for each in known if each.origin is Origin.HOOK]
    order = ("val", "test", "", "train")
    chosen.sort(key=lambda each: (-_importance(each), order.index(each.phase), each.name))
    return chosen[:most]


def is_machine(series: Points) -> bool:
    return is_machine_run(series.run)


def origin_of(series: Points) -> Origin:
    if is_machine(series):
        return Origin.MACHINE
    if series.run.startswith(_LOG):
        is_mode = series.tag.rpartition("_")[2] in _MODES
        return Origin.HOOK if is_mode else Origin.LOG
    is_hook = series.run in _MODES and _OF_HOOK.fullmatch(series.tag)
    return Origin.HOOK if is_hook else Origin.SCRIPT


def _above_all(drawn: Iterable[Points]) -> str:
    """The common folder of all of the script's own runs: it is left out of names."""
    runs = {each.run for each in drawn if origin_of(each) is Origin.SCRIPT}
    return commonpath(runs) if runs and TOP not in runs else ""


def _curve(series: Points, top: str, taken: set[str]) -> Curve:
    origin = origin_of(series)
    name = _name(series, top if origin is Origin.SCRIPT else "")
    if name in taken and origin is Origin.LOG:
        name = f"log/{name}"
    return Curve(series, name, origin, *phase_and_metric(name))


def without_rewritten(series: Series) -> Series:
    """Without points that a resumed script has written again."""
    kept = in_order(series.steps)
    if kept is None:
        return series
    parts = (series.steps[kept], series.times[kept], series.values[kept])
    return Series(series.run, series.tag, *parts)


def _name(series: Points, top: str) -> str:
    """Run and tag; only the tag for what belongs to the whole job, or to its only host."""
    if series.run in (TOP, top, f"{_LOG}algo-1"):
        return series.tag
    run = relpath(series.run, top) if top else series.run.removeprefix(_LOG)
    return f"{run}/{series.tag}"


def phase_and_metric(name: str) -> tuple[str, tuple[str, ...]]:
    """`("val", ("loss",))` for `val_loss`, `loss/validation` or `runs/val/loss`'s like."""
    words = [word for word in _WORDS.split(name.lower()) if word]
    index = next((at for at, word in enumerate(words) if word in _PHASE_OF), None)
    if index is None or len(words) == 1:
        return "", tuple(words)
    phase = _PHASE_OF[words.pop(index)]
    if len(words) > 1 and words[index : index + 1] and words[index].isdigit():
        del words[index]  # as of `validation_0-logloss`
    if len(words) > 1 and words[-1] in ("step", "epoch"):
        words.pop()
    return phase, tuple(words)


class _Shown:
    """Curves that are shown, by what another curve must share with them to be compared: with
    thousands, few pairs are.
    """

    def __init__(self) -> None:
        self._alike: dict[object, dict[int, Curve]] = {}
        self._num_added = self._num_exact = 0

    def add(self, curve: Curve) -> None:
        if curve.origin is Origin.MACHINE or curve.same_as:
            return
        self._num_added += 1
        sets: list[object] = [(curve.origin, curve.series.tag), curve.metric, curve.origin]
        for key in [*sets, "loss"] if _is_loss(curve) else sets:
            self._alike.setdefault(key, {})[self._num_added] = curve

    def instead_of(self, curve: Curve) -> str:
        """The name of the first earlier curve with the same values, if any."""
        if curve.origin is Origin.MACHINE:
            return ""
        found = self._alike.get((curve.origin, curve.series.tag), {})
        found = found | self._alike.get(curve.metric, {})
        if curve.origin is Origin.HOOK and _is_loss(curve):
            found = found | self._alike.get("loss", {})
        if curve.origin is Origin.HOOK and self._num_exact < _MOST_EXACT:
            self._num_exact += 1
            found = found | self._alike.get(Origin.SCRIPT, {})
        alike = (found[number] for number in sorted(found))
        return next((other.name for other in alike if _is_duplicate(curve, other)), "")


def _is_duplicate(curve: Curve, other: Curve) -> bool:
    if curve.origin is other.origin and curve.origin is not Origin.HOOK:
        # Two logs of one script: nothing was rounded, and no point is missing.
        is_one = curve.series.tag == other.series.tag
        is_one = is_one and len(curve.series) == len(other.series) > 1
        return is_one and _has_same_values(curve, other)
    if curve.phase and other.phase and curve.phase != other.phase:
        return False
    is_one = _is_loss(curve) and _is_loss(other) if curve.origin is Origin.HOOK else False
    if curve.metric == other.metric or is_one:
        return _has_same_values(curve, other)
    is_exact = curve.origin is Origin.HOOK and other.origin is Origin.SCRIPT
    is_exact = is_exact and _is_distinctive(curve.series.values)
    return is_exact and _has_same_values(curve, other)


def _has_same_values(curve: Curve, other: Curve) -> bool:
    return _is_same(curve.series.values, other.series.values)


def _is_loss(curve: Curve) -> bool:
    return any("loss" in word for word in curve.metric)


def _rank(curve: Curve) -> tuple[object, ...]:
    if curve.origin is Origin.MACHINE:
        return (curve.origin, curve.name)
    return (
        max(curve.origin, Origin.LOG),
        _importance(curve),
        len(curve.metric),
        curve.metric,
        _ORDER_OF_PHASES.index(curve.phase),
        curve.name,
    )


def _importance(curve: Curve) -> int:
    """Quality metrics and losses come before everything else."""
    metric = " ".join(curve.metric)
    if _LESS_IS_BETTER.search(metric):
        return 0
    return 1 if is_more_better(metric) else 2


def _is_distinctive(values: Reals) -> bool:
    """Whether its values alone identify the curve."""
    return len(numpy.unique(values[numpy.isfinite(values)])) >= LEAST_DISTINCT


def _is_same(one: Reals, other: Reals) -> bool:
    """Whether the values of the shorter are among those of the longer in the same order, up to
    rounding. Values that are not finite are skipped.
    """
    one, other = (values[numpy.isfinite(values)] for values in (one, other))
    part, whole = sorted((one, other), key=len)
    if not len(part):
        return False
    chosen = numpy.unique(numpy.linspace(0, len(part) - 1, MOST_COMPARED).astype(int))
    rounding = max(_rounding(one), _rounding(other))
    return _is_among(part[chosen], whole, rounding)


def _is_among(part: Reals, whole: Reals, rounding: float) -> bool:
    start = 0
    for value in part:
        allowed = rounding + abs(value) * _SINGLE_PRECISION
        found = _first_near(whole, start, value, allowed)
        if found is None:
            return False
        start = found + 1
    return True


def _first_near(whole: Reals, start: int, value: float, allowed: float) -> int | None:
    """Usually it is one of the next."""
    length = 64
    while start < len(whole):
        near = numpy.abs(whole[start : start + length] - value) <= allowed
        if near.any():
            return start + int(near.argmax())
        start, length = start + length, length * 4
    return None


def _rounding(values: Reals) -> float:
    """Half of the last decimal printed; 0 for values that were not rounded."""
    sample = values[:MOST_COMPARED]
    for decimals in range(_MOST_DECIMALS):
        if numpy.allclose(sample, sample.round(decimals), rtol=_AS_STORED, atol=0.0):
            return 0.5 * 10.0**-decimals * (1 + _SINGLE_PRECISION)
    return 0.0
