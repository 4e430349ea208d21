"""The cells of a heat map of tensor against step, for the report and the page: which rows, in which
order, how steps are joined to columns, and where the colours begin and end.
"""

import math
import re
from collections.abc import Sequence

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.reading.anatomy import Anatomy, AnatomyFile
from trackside.capture.reading.cube import Cube
from trackside.capture.trial import Trial
from trackside.quick_dataclass import dataclass

MOST_RAW_BYTES = 2 << 30
"""Most values to read where no reductions are stored."""
COMPUTED = ("abs_mean", "l2", "mean", "std", "min", "max")
"""Figures that are offered of tensors whose values were saved."""
SIGNED = frozenset({"min", "max", "mean", "sum", "prod", "median"})
_PREFERRED = ("abs_mean", "l2")
_OF_MODULE = re.compile(r"_(?:in|out)put_\d+$")


@dataclass(frozen=True, slots=True)
class HeatGrid:
    """`levels[i, j]` is what is drawn of row i in column j: NaN where nothing was saved, +inf where
    a value is not finite, and -inf for zero where levels are logarithms.

    All columns cover the same number of steps, so that a map is to scale although the save
    interval changed.
    """

    levels: Array
    steps: Array
    """The saved step that each column shows: its first."""
    starts: Array
    """First step of each column."""
    is_log: bool


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps levels to colours."""

    low: float
    high: float
    """The lowest and the highest level."""
    dark: float
    bright: float
    """Where the darkest and the brightest colour are reached."""

    @classmethod
    def of(cls, levels: Array, around: float | None = None) -> "Scale":
        """`around`: the level that has the colour in the middle."""
        finite = levels[np.isfinite(levels)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
        if high - low < 1e-9:
            low, high = low - 0.5, high + 0.5
        # A few extreme cells must not give all others the same colour.
        dark, bright = np.percentile(finite, [1, 99]).tolist() if len(finite) else (low, high)
        if bright - dark < 1e-9:
            dark, bright = low, high
        if around is not None:
            reach = max(abs(dark - around), abs(bright - around))
            dark, bright = around - reach, around + reach
        return cls(low, high, dark, bright)


def heat_grid(
    cube: Cube,
    most_columns: int,
    *,
    is_log: bool,
    first: float = -math.inf,
    last: float = math.inf,
) -> HeatGrid | None:
    """From the steps of the cube from `first` to `last`; None if there are none.

    Of several saved steps in a column, a cell has the value that is largest, regardless of its
    sign, or is not finite if one of them is not: no extreme is lost.
    """
    steps = np.array(cube.steps, np.int64)
    begin, end = np.searchsorted(steps, first), np.searchsorted(steps, last, side="right")
    steps = steps[begin:end]
    if not len(steps) or not cube.names:
        return None
    starts, places, column_of = _columns(steps, most_columns)
    levels = _joined(cube.values[begin:end], cube.saved[begin:end], places, is_log)
    return HeatGrid(levels[column_of].T, steps[places][column_of], starts, is_log)


def coded(
    levels: Array, low: float, high: float, num_levels: int, codes: tuple[int, int, int], kind: str
) -> Array:
    """Whole numbers from 0 at `low` to `num_levels` at `high`; `codes` of zero, of what is not
    finite and of what was not saved.
    """
    zero, not_finite, not_saved = codes
    with np.errstate(invalid="ignore"):
        scaled = np.clip(np.rint((levels - low) * (num_levels / (high - low))), 0, num_levels)
    cells = np.where(np.isfinite(levels), scaled, not_saved).astype(kind)
    cells[levels == np.inf] = not_finite
    cells[levels == -np.inf] = zero
    return cells


def figures_of(trial: Trial, names: Sequence[str]) -> list[str]:
    """Stored reductions of these tensors; without any, and with few enough values, those that can
    be computed. The one to draw comes first."""
    wanted = set(names)
    stored: dict[str, None] = {}
    num_bytes = 0
    for name, record in trial.tensor_records():
        if name in wanted:
            for cube in record.cubes:
                stored |= dict.fromkeys(cube.columns)
            for run in record.runs:
                num_bytes += 4 * len(run.steps) * math.prod(run.block.shape)
    found = list(stored) or (list(COMPUTED) if 0 < num_bytes <= MOST_RAW_BYTES else [])
    return [each for each in _PREFERRED if each in found] + [
        each for each in found if each not in _PREFERRED
    ]


def in_model_order(trial: Trial, names: Sequence[str]) -> list[str]:
    """As the model has them, if the hook recorded that; else as they were saved. smdebug saves
    gradients from the last layer to the first, so its own are sorted by name."""
    if trial.is_smdebug:
        return sorted(names, key=natural)
    anatomy = AnatomyFile(trial.location).read()
    places = _places(anatomy) if anatomy is not None else {}
    saved = {name: number for number, (name, _) in enumerate(trial.tensor_records())}
    return sorted(
        names, key=lambda name: (places.get(_base(name), math.inf), saved.get(name, math.inf), name)
    )


def natural(name: str) -> list[tuple[int, str]]:
    """Layer 2 before layer 10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def spread(count: int, most: int) -> list[int]:
    """So many of the places, evenly."""
    places = np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))
    return [int(place) for place in places]


def _base(name: str) -> str:
    """The parameter or module that a tensor is about."""
    if name.startswith("vitals/activation/"):
        return name.removeprefix("vitals/activation/").rpartition("/")[0]
    return _OF_MODULE.sub("", name.removeprefix("gradient/"))


def _places(anatomy: Anatomy) -> dict[str, int]:
    """Parameters follow each other as in the model; so do modules."""
    places = {facts.name: number for number, facts in enumerate(anatomy.parameters)}
    for number, module in enumerate(anatomy.modules):
        for name in (module.name, *(f"{model}_{module.name}" for model in anatomy.models)):
            places.setdefault(name, number)
    return places


def _columns(steps: Array, most: int) -> tuple[Array, Array, Array]:
    """The first step of each column; where in `steps` each group of joined steps begins; and which
    group each column shows. A column without a saved step shows the group before."""
    if len(steps) == 1:
        return steps, np.zeros(1, int), np.zeros(1, int)
    closest = int(np.diff(steps).min())
    span = int(steps[-1] - steps[0])
    num_columns = min(most, span // closest + 1)
    starts = steps[0] + (span + closest) * np.arange(num_columns) / num_columns
    first = np.searchsorted(steps, starts - 1e-6)
    has_own = np.append(first[1:], len(steps)) > first
    return starts, first[has_own], np.cumsum(has_own) - 1


def _joined(values: Array, saved: Array, places: Array, is_log: bool) -> Array:
    """Of each group of steps."""
    is_bad = _reduced(np.logical_or, saved & ~np.isfinite(values), places)
    if is_log:
        with np.errstate(divide="ignore", invalid="ignore"):
            levels: Array = np.log10(_reduced(np.fmax, np.abs(values), places))
    else:
        high, low = _reduced(np.fmax, values, places), _reduced(np.fmin, values, places)
        levels = np.where(-low > high, low, high)
    levels[is_bad] = np.inf
    return levels


def _reduced(join: np.ufunc, rows: Array, places: Array) -> Array:
    """Groups of rows, each from one place to the next, as one. Several times faster than
    `reduceat`, which does not join many columns at once."""
    sizes = np.diff(places, append=len(rows))
    found: Array = rows[places]
    for further in range(1, int(sizes.max())):
        longer = np.flatnonzero(sizes > further)
        if len(longer) == len(found):
            join(found, rows[places + further], out=found)
        else:
            found[longer] = join(found[longer], rows[places[longer] + further])
    return found
