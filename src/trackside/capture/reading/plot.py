"""Draws a trial's figures over its steps, with matplotlib where it is installed."""

from typing import Any

import numpy as np

from trackside.capture.reading.cube import Cube
from trackside.capture.reading.extras import import_extra


def plot_cube(cube: Cube, title: str, ylabel: str, ax: Any = None) -> Any:
    """One line for each tensor; returns the axes, for the caller to go on with."""
    if ax is None:
        _, ax = import_extra("matplotlib.pyplot").subplots()
    steps = np.asarray(cube.steps)
    for column, name in enumerate(cube.names):
        saved = cube.saved[:, column]
        ax.plot(steps[saved], cube.values[saved, column], label=name, marker=".")
    ax.set(title=title, xlabel="step", ylabel=ylabel)
    if 0 < len(cube.names) <= 12:
        ax.legend(fontsize="small")
    return ax
