"""A job's machine usage in short: the mean and peak of each figure of `machine_curves`."""

import re
from collections.abc import Iterable
from typing import Any

import numpy

from trackside.curves.curve_choice import is_machine
from trackside.curves.event_reader import Curves, Series
from trackside.curves.machine_curves import FIGURES, with_unit


def machine_use(curves: Curves) -> dict[str, dict[str, Any]]:
    """Label to tag, mean and peak: over all hosts, most interesting first."""
    series = [one for one in curves.scalars.values() if is_machine(one) and len(one)]
    by_tag: dict[str, list[Series]] = {}
    for one in series:
        by_tag.setdefault(one.tag, []).append(one)
    return {
        label: {"tag": tag, **_figures(by_tag[tag])}
        for label, tag in _listed(by_tag).items()
        if tag in by_tag
    }


def latest_use(curves: Curves) -> dict[str, str]:
    """Label to the last value with its unit, the mean over all hosts, most interesting first."""
    lasts: dict[str, list[float]] = {}
    for one in curves.scalars.values():
        if is_machine(one) and len(one):
            lasts.setdefault(one.tag, []).append(float(one.values[-1]))
    return {
        label: with_unit(tag, float(numpy.mean(lasts[tag])))
        for label, tag in _listed(lasts).items()
        if tag in lasts
    }


def _listed(tags: Iterable[str]) -> dict[str, str]:
    """Label to tag: the machine's, then each GPU's."""
    numbers = sorted({int(found[1]) for tag in tags if (found := re.match(r"gpu_(\d+)/", tag))})
    labelled = [figure for figure in FIGURES if figure.label]
    listed = {figure.label: figure.tag for figure in labelled if not figure.is_of_gpu}
    for number in map(str, numbers):
        for figure in labelled:
            if figure.is_of_gpu:
                listed[figure.label.replace("*", number)] = figure.tag.replace("*", number)
    return listed


def _figures(of_hosts: list[Series]) -> dict[str, float]:
    means = [_mean(series) for series in of_hosts]
    return {
        "mean": float(numpy.mean(means)),
        "peak": float(max(series.values.max() for series in of_hosts)),
    }


def _mean(series: Series) -> float:
    """Each point is a mean since the previous one, at varying intervals."""
    lasted = numpy.diff(series.times, prepend=series.times[0] - 1.0).clip(min=0.0)
    if not lasted.any():
        return float(series.values.mean())
    return float(numpy.average(series.values, weights=lasted))
