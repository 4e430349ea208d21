"""The evidence of a diagnosis as text for a coding agent: a few values of each curve, the layers
with extreme values, and what else was found.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from trackside.capture.trial_layout import VITALS
from trackside.texts.terminal_text import one_line
from trackside.texts.truncation import shortened
from trackside.views.job.evidence import layer_of
from trackside.views.job.job_sources import JobSources
from trackside.views.job.job_view import Diagnosis, Job

if TYPE_CHECKING:
    from trackside.capture.trial import Trial
    from trackside.curves.columns import Integers, Reals
    from trackside.curves.curve_choice import Curve

Points = tuple[str, "Integers", "Reals"]
"""Name, steps and values."""

POINTS = 8
"""Of a curve."""
EXTREMES = 3
"""Layers with the least values, and with the greatest."""
_MOST_FINDINGS = 6
_MOST_MESSAGE = 240


def evidence_lines(view: Job, diagnosis: Diagnosis, sources: JobSources) -> Iterator[str]:
    yield f"{one_line(diagnosis.cause)} in {view.shown}: {diagnosis.sentence}"
    if facts := _facts(diagnosis):
        yield facts
    shown = [*diagnosis.evidence.curves, *diagnosis.evidence.vitals]
    found = {**dict(_curves(sources.chosen())), **dict(_vitals(sources.trial, shown))}
    if any(identity in found for identity in shown):
        yield "value@step:"
    for identity in shown:
        if identity in found:
            name, steps, values = found[identity]
            yield f"  {one_line(name)}: {points_text(steps, values, diagnosis.step)}"
    yield from _layers(diagnosis, sources.trial)
    yield from _others(diagnosis)
    if view.command:
        yield f"repeat: {view.command}"


def points_text(steps: "Integers", values: "Reals", at: int | None = None) -> str:
    """A few points, evenly spread, with the one at a step: `1.09@0 0.94@59 … 1.04@295`."""
    import numpy

    if not len(steps):
        return "no points"
    chosen = {int(each) for each in numpy.linspace(0, len(steps) - 1, min(POINTS, len(steps)))}
    if at is not None:
        chosen.add(min(int(numpy.searchsorted(steps, at)), len(steps) - 1))
    if len(finite := numpy.flatnonzero(numpy.isfinite(values))):
        chosen |= {int(finite[values[finite].argmin()]), int(finite[values[finite].argmax()])}
    if len(finite) < len(steps):
        chosen.add(int(numpy.flatnonzero(~numpy.isfinite(values))[0]))
    return " ".join(f"{values[each]:.4g}@{steps[each]}" for each in sorted(chosen))


def _facts(diagnosis: Diagnosis) -> str:
    known = {
        "tensor": one_line(diagnosis.tensor),
        "worker": one_line(diagnosis.worker),
        "mode": diagnosis.mode,
        "value": "" if diagnosis.value is None else f"{diagnosis.value:.5g}",
        "threshold": "" if diagnosis.threshold is None else f"{diagnosis.threshold:.5g}",
        "line": diagnosis.line,
    }
    return ", ".join(f"{name} {text}" for name, text in known.items() if text)


def _curves(curves: "Sequence[Curve]") -> "Iterator[tuple[str, Points]]":
    from trackside.views.curves.curve_list import curve_id

    for curve in curves:
        series = curve.series
        yield curve_id(series.run, series.tag), (curve.name, series.steps, series.values)


def _vitals(trial: "Trial | None", wanted: Collection[str]) -> "Iterator[tuple[str, Points]]":
    if trial is None:
        return
    import numpy

    from trackside.views.curves.curve_list import vital_id

    for mode in trial.modes():
        for name in trial.tensor_names(regex=f"^{VITALS}", mode=mode):
            if (identity := vital_id(name, mode.name)) in wanted:
                cube = trial.cube([name])
                is_there = cube.saved[:, 0] & numpy.array(
                    [trial.mode(step) is mode for step in cube.steps], bool
                )
                steps = numpy.array(cube.steps)[is_there]
                yield identity, (f"{name} ({mode.name})", steps, cube.values[is_there, 0])


def _layers(diagnosis: Diagnosis, trial: "Trial | None") -> Iterator[str]:
    """Of the heat map: the layers with the least and the greatest values at the finding's step."""
    heat = diagnosis.evidence.heat
    if heat is None or trial is None:
        return
    values = _at_step(trial, heat.kind, heat.figure, diagnosis.step or 0)
    if not values:
        return
    ranked = sorted(values.items(), key=lambda item: (not math.isfinite(item[1]), item[1]))
    low, high = ranked[:EXTREMES], ranked[EXTREMES:][-EXTREMES:]
    yield f"{heat.figure} of {heat.kind}, {len(values)} tensors, near step {diagnosis.step or 0}:"
    yield f"  least {_listed(low)}" + (f"; greatest {_listed(high)}" if high else "")


def _at_step(trial: "Trial", kind: str, figure: str, step: int) -> dict[str, float]:
    from trackside.capture.exceptions import SMDebugError

    pattern = rf"^vitals/activation/.*/{figure}$"
    try:
        if kind == "activations":
            names, reduction = trial.tensor_names(regex=pattern), "mean"
        else:
            names, reduction = trial.tensor_names(collection=kind), figure
        cube = trial.cube(names, reduction) if names else None
    except (SMDebugError, ValueError):
        return {}
    if cube is None or not cube.steps:
        return {}
    row = min(range(len(cube.steps)), key=lambda number: abs(cube.steps[number] - step))
    return {
        layer_of(name) if kind == "activations" else name: float(cube.values[row, column])
        for column, name in enumerate(cube.names)
        if cube.saved[row, column]
    }


def _listed(layers: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{one_line(name)} {value:.3g}" for name, value in layers)


def _others(diagnosis: Diagnosis) -> Iterator[str]:
    """The findings that it explains."""
    others = [each for each in diagnosis.findings if each.rule != diagnosis.cause]
    if others:
        yield "explains:"
    for each in others[:_MOST_FINDINGS]:
        at = "" if each.step is None else f" at step {each.step}"
        yield f"  {one_line(each.rule)}{at}: {shortened(one_line(each.message), _MOST_MESSAGE)}"
