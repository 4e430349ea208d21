"""Draws a trial's figures over its steps, with matplotlib where it is installed."""

from typing import Any

import numpy as np

from trackside.capture.reading.cube import Cube
from trackside.capture.reading.extras import import_extra

MOST_NAMED = 12
"""Lines with a name in the legend; of more, the first and the last."""


def plot_cube(cube: Cube, title: str, ylabel: str, ax: Any = None) -> Any:
    """One line for each tensor; returns the axes, for the caller to go on with."""
    if ax is None:
        _, ax = import_extra("matplotlib.pyplot").subplots()
    steps = np.asarray(cube.steps)
    styles = _styles(len(cube.names))
    for column, (name, style) in enumerate(zip(cube.names, styles, strict=True)):
        saved = cube.saved[:, column]
        ax.plot(steps[saved], cube.values[saved, column], label=name, **style)
    ax.set(title=title, xlabel="step", ylabel=ylabel)
    lines = ax.get_lines()
    if len(lines) > MOST_NAMED:
        ax.legend(handles=[lines[0], lines[-1]], fontsize="small")
    elif lines:
        ax.legend(fontsize="small")
    return ax


def _styles(count: int) -> list[dict[str, Any]]:
    """A few have a colour each; of many, the colour tells how far down the list one is."""
    if count <= MOST_NAMED:
        return [{"marker": "."}] * count
    shades = import_extra("matplotlib").colormaps["viridis"](np.linspace(0, 1, count))
    return [{"color": shade, "linewidth": 0.8} for shade in shades]
