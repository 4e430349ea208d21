"""Which curves a job has, by kind, with their ids: metrics and the machine's figures from event
files; vitals and losses that the hook saved.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trackside.capture.trial_layout import VITALS
from trackside.views.job.evidence import KnownCurve

if TYPE_CHECKING:  # numpy is imported when curves are read
    from trackside.capture.trial import Trial
    from trackside.curves.curve_choice import Curve


def known_curves(curves: "Sequence[Curve]", trial: "Trial | None") -> list[KnownCurve]:
    """Most interesting first; a loss that several of them have is there once."""
    saved = list(_from_trial(trial))
    twice = {each.name for each in saved}
    events = (_known(curve) for curve in curves if not curve.same_as)
    return [*(each for each in events if each.kind != "vital" or each.name not in twice), *saved]


def time_of_step(curves: "Sequence[Curve]", step: int) -> float | None:
    """When a step was logged, by the loss or any other curve over steps; None if unknown."""
    import numpy

    from trackside.curves.curve_choice import Origin

    for curve in curves:
        series = curve.series
        if curve.origin is not Origin.MACHINE and len(series) and series.steps[-1] >= step:
            return float(series.times[int(numpy.searchsorted(series.steps, step))])
    return None


def _known(curve: "Curve") -> KnownCurve:
    from trackside.curves.curve_choice import Origin
    from trackside.views.curves.curve_list import curve_id

    series = curve.series
    identity = curve_id(series.run, series.tag)
    if curve.origin is Origin.MACHINE:
        host = series.run.rpartition("/")[2]
        return KnownCurve(identity, series.tag, "machine", host=host)
    is_loss = any("loss" in word for word in curve.metric)
    if curve.origin is Origin.HOOK:
        name = series.tag.removeprefix(VITALS)
        return KnownCurve(identity, name, "vital", curve.phase, is_loss, mode=series.run)
    return KnownCurve(identity, curve.name, "metric", curve.phase, is_loss)


def _from_trial(trial: "Trial | None") -> Iterator[KnownCurve]:
    """Batches of training and of evaluation are curves of their own."""
    if trial is None:
        return
    from trackside.views.curves.curve_list import vital_id

    for mode in trial.modes():
        for name in trial.tensor_names(regex=f"^{VITALS}", mode=mode):
            identity = vital_id(name, mode.name)
            yield KnownCurve(identity, name.removeprefix(VITALS), "vital", mode=mode.name)
