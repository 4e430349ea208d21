"""Heat maps of layer against step: the size of gradients and weights, as the trial has them."""

import base64
import json
import re
from collections.abc import Mapping, Sequence

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.modes import ModeKeys
from trackside.capture.trial import Trial
from trackside.quick_dataclass import dataclass
from trackside.rules.report.facts import Material
from trackside.rules.report.findings import onsets
from trackside.rules.report.heat_cells import (
    Scale,
    coded,
    figures_of,
    heat_grid,
    in_model_order,
    spread,
)
from trackside.rules.report.markup import Html, element
from trackside.rules.report.sections import section

MOST_COLUMNS = 400
MOST_ROWS = 300
ROOMY = 60
"""With more rows, each is lower and the map scrolls."""
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
    figures = figures_of(trial, saved)
    if not figures:
        return None
    names = in_model_order(trial, saved)
    chosen = [names[place] for place in spread(len(names), MOST_ROWS)]
    cube = trial.cube(chosen, figures[0], mode=ModeKeys.GLOBAL)
    grid = heat_grid(cube, MOST_COLUMNS, is_log=True)
    if grid is None:
        return None
    left_out = len(names) - len(chosen)
    return HeatMap(title, figures[0], tuple(chosen), grid.steps, grid.starts, grid.levels, left_out)


def heat_map_card(drawn: HeatMap, began: Mapping[int, str] | None = None) -> Html:
    """`began`: findings by the step at which they start."""
    scale = Scale.of(drawn.levels)
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


def _legend(scale: Scale) -> Html:
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
    labels = [f"{round(float(starts[place])):,}" for place in spread(len(starts), 6)]
    return [element("span", text) for text in [f"step {labels[0]}", *labels[1:]]]


def _encoded(levels: Array, low: float, high: float) -> str:
    return _packed(coded(levels, low, high, LEVELS, (ZERO, NOT_FINITE, NOT_SAVED), "<u2"))


def _packed(array: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _label(name: str) -> str:
    return re.sub("^(gradient|vitals/activation)/", "", name)
