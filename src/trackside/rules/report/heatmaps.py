"""Heat maps of layer against step: the size of gradients and weights, as the trial has them."""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.modes import ModeKeys
from trackside.capture.trial import Trial
from trackside.rules.report.facts import Material
from trackside.rules.report.findings import onsets
from trackside.rules.report.markup import Html, element
from trackside.rules.report.sections import section

MOST_COLUMNS = 400
MOST_ROWS = 300
ROOMY = 60
"""With more rows, each is lower and the map scrolls."""
MOST_RAW_BYTES = 2 << 30
"""Most values to read where no reductions are stored; with more, the map is left out."""
FIGURES = ("abs_mean", "l2")
"""The first stored one is drawn."""
LEVELS = 65_000
"""A cell is a whole number up to this, from the map's least to its greatest value; above are …"""
NOT_SAVED, NOT_FINITE, ZERO = 65_535, 65_534, 65_533


@dataclass(frozen=True, slots=True)
class HeatMap:
    """`levels[i, j]` is the base-10 logarithm of the value of `names[i]` at `steps[j]`.

    All columns cover the same number of steps, so that a map is to scale although the save
    interval changed.
    """

    title: str
    figure: str
    names: tuple[str, ...]
    steps: Array
    """Saved steps."""
    starts: Array
    """First step of each column."""
    levels: Array
    left_out: int = 0
    """Number of rows that are not drawn."""


def layers_section(material: Material) -> Html | None:
    if material.trial is None:
        return None
    trial = material.trial
    kinds = {
        "Gradients": trial.tensor_names(collection="gradients"),
        "Weights": trial.tensor_names(collection="weights"),
        "Biases": trial.tensor_names(collection="biases"),
        "Spread of activations": trial.tensor_names(regex="^vitals/activation/.*/std$"),
    }
    maps = [heat_map(trial, names, title) for title, names in kinds.items()]
    marks = onsets(material.findings)
    drawn = [heat_map_card(each, marks) for each in maps if each is not None]
    if not drawn:
        return None
    about = (
        "Each row is a tensor over the steps; dark is small, bright is large. A row that "
        "darkens stops learning, one that brightens may explode. Marks at the top: a finding "
        "starts."
    )
    return section("layers", "Layers", about, *drawn)


def heat_map(trial: Trial, saved: Sequence[str], title: str) -> HeatMap | None:
    """None if there is nothing to draw, or only more values than are read here."""
    names = sorted(saved, key=_natural)
    figure = _figure_of(trial, names)
    if not names or figure is None:
        return None
    chosen = [names[place] for place in _spread(len(names), MOST_ROWS)]
    cube = trial.cube(chosen, figure, mode=ModeKeys.GLOBAL)
    if not len(cube.steps):
        return None
    starts, steps, levels = _to_scale(np.array(cube.steps), _levels(cube.values, cube.saved))
    left_out = len(names) - len(chosen)
    return HeatMap(title, figure, tuple(chosen), steps, starts, levels.T, left_out)


def heat_map_card(drawn: HeatMap, began: Mapping[int, str] | None = None) -> Html:
    """`began`: findings by the step at which they start."""
    scale = _Scale.of(drawn.levels)
    notes = f"log10 of {drawn.figure}, {len(drawn.names)} tensors"
    if drawn.left_out:
        notes += f"; {drawn.left_out} further tensors between these are left out"
    is_roomy = len(drawn.names) <= ROOMY
    notes += "" if is_roomy else "; scroll for all of them"
    row_height = max(14, 60 // len(drawn.names)) if is_roomy else 11
    canvas = element(
        "canvas",
        role="img",
        aria_label=f"{drawn.title} by layer and step",
        width=len(drawn.steps),
        height=len(drawn.names),
        style=f"height:{row_height * len(drawn.names)}px",
        data_heat=_encoded(drawn.levels, scale.low, scale.high),
        data_low=scale.low,
        data_high=scale.high,
        data_dark=scale.dark,
        data_bright=scale.bright,
        data_figure=drawn.figure,
        data_steps=_packed(drawn.steps.astype("<i4")),
        data_names=json.dumps(drawn.names),
    )
    labels = [element("li", _label(name), title=name) for name in drawn.names]
    kind = "layers" if is_roomy else "layers dense"
    rows = element("ol", *labels, class_=kind, style=f"--row:{row_height}px")
    marks = [_mark(drawn.starts, step, rules) for step, rules in (began or {}).items()]
    picture = element(
        "div",
        element("div", *marks, class_="marks") if marks else None,
        canvas,
        element("div", *_ticks(drawn.starts), class_="steps"),
        class_="picture",
    )
    return element(
        "figure",
        element("figcaption", drawn.title, element("small", notes)),
        element(
            "div",
            rows,
            picture,
            class_="heat marked" if marks else "heat",
            tabindex=None if is_roomy else 0,  # scrolling must also work by keyboard
        ),
        _legend(scale),
        class_="card wide",
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps levels to colours."""

    low: float
    high: float
    """The lowest and the highest level."""
    dark: float
    bright: float
    """Where the darkest and the brightest colour are reached."""

    @classmethod
    def of(cls, levels: Array) -> "_Scale":
        finite = levels[np.isfinite(levels)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
        if high - low < 1e-9:
            low, high = low - 0.5, high + 0.5
        # A few extreme cells must not give all others the same colour.
        dark, bright = np.percentile(finite, [1, 99]).tolist() if len(finite) else (low, high)
        return cls(low, high, low, high) if bright - dark < 1e-9 else cls(low, high, dark, bright)


def _legend(scale: _Scale) -> Html:
    return element(
        "div",
        element("span", f"{10**scale.dark:.1e}"),
        element("b", class_="scale"),
        element("span", f"{10**scale.bright:.1e}"),
        element("i", class_="notfinite"),
        element("span", "not finite"),
        element("i", class_="zero"),
        element("span", "zero"),
        class_="legend",
    )


def _mark(starts: Array, step: int, rules: str) -> Html:
    percent = 100 * (int(np.searchsorted(starts, step, side="right")) - 0.5) / len(starts)
    place = f"left:{min(max(percent, 0.0), 100.0):.2f}%"
    return element("i", style=place, title=f"step {step:,}: {rules}")


def _ticks(starts: Array) -> list[Html]:
    labels = [f"{round(float(starts[place])):,}" for place in _spread(len(starts), 6)]
    return [element("span", text) for text in [f"step {labels[0]}", *labels[1:]]]


def _figure_of(trial: Trial, names: list[str]) -> str | None:
    """A stored reduction; without one, and with few enough values, it is computed."""
    wanted = set(names)
    stored: set[str] = set()
    num_bytes = 0
    for name, record in trial.tensor_records():
        if name in wanted:
            stored.update(*(cube.columns for cube in record.cubes))
            for run in record.runs:
                num_bytes += 4 * len(run.steps) * int(np.prod(run.block.shape, dtype=np.int64))
    for figure in FIGURES:
        if figure in stored:
            return figure
    return FIGURES[0] if 0 < num_bytes <= MOST_RAW_BYTES else None


def _levels(values: Array, saved: Array) -> Array:
    """Logarithms; -inf for zero, +inf for values that are not finite, NaN if not saved."""
    with np.errstate(divide="ignore", invalid="ignore"):
        levels = np.log10(np.abs(values))
    levels[~np.isfinite(values)] = np.inf
    levels[~saved] = np.nan
    return levels


def _to_scale(steps: Array, levels: Array) -> tuple[Array, Array, Array]:
    """Columns of equally many steps, at most `MOST_COLUMNS`: the first step of each, the saved
    step that it shows, and its levels.

    Several saved steps in a column are averaged, unless one of them is not finite. A column
    without a saved step repeats the one before.
    """
    if len(steps) == 1:
        return steps, steps, levels
    closest = int(np.diff(steps).min())
    num_columns = min(MOST_COLUMNS, int(steps[-1] - steps[0]) // closest + 1)
    starts = steps[0] + (steps[-1] - steps[0] + closest) * np.arange(num_columns) / num_columns
    first = np.searchsorted(steps, starts - 1e-6)
    last = np.append(first[1:], len(steps))
    shown = np.maximum(np.where(last > first, first, first - 1), 0)
    columns = [
        _joined(levels[begin:end]) if end > begin + 1 else levels[at]
        for begin, end, at in zip(first, last, shown, strict=True)
    ]
    return starts, steps[shown], np.array(columns)


def _joined(rows: Array) -> Array:
    finite = np.isfinite(rows)
    count = finite.sum(axis=0)
    total = np.where(finite, rows, 0.0).sum(axis=0)
    means: Array = np.divide(total, count, out=np.full(rows.shape[1], np.nan), where=count > 0)
    means[(count == 0) & (rows == -np.inf).any(axis=0)] = -np.inf
    means[(rows == np.inf).any(axis=0)] = np.inf
    return means


def _encoded(levels: Array, low: float, high: float) -> str:
    cells = np.full(levels.shape, NOT_SAVED, "<u2")
    finite = np.isfinite(levels)
    cells[finite] = np.round((levels[finite] - low) / (high - low) * LEVELS)
    cells[levels == np.inf] = NOT_FINITE
    cells[levels == -np.inf] = ZERO
    return _packed(cells)


def _packed(array: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _spread(count: int, most: int) -> list[int]:
    places = np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))
    return [int(place) for place in places]


def _natural(name: str) -> list[tuple[int, str]]:
    """Layer 2 before layer 10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _label(name: str) -> str:
    return re.sub("^(gradient|vitals/activation)/", "", name)
