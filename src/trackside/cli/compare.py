"""`trackside compare`: several jobs side by side."""

import re
from collections.abc import Iterable
from typing import Any

import click
import numpy

from trackside.cli.job_names import job_argument
from trackside.cli.machine_use import machine_use, with_unit
from trackside.cli.metrics import chosen, metric_name
from trackside.cli.tables import Cell, print_side_by_side, status_style, together
from trackside.cli.text import as_json, duration
from trackside.curves.event_reader import Series, read
from trackside.sdk.job import TrainingJob
from trackside.sdk.known_jobs import known_jobs
from trackside.secret_names import hidden

_MORE_IS_BETTER = re.compile(
    r"acc|auc|f1|score|precision|recall|bleu|rouge|reward|map\b|iou|dice|r2"
)
_NOT_COMPARED = "sagemaker_"
"""Hyperparameters that say where the code is, not how it trains."""


@click.command(short_help="Show jobs side by side: settings, machine use, metrics.")
@job_argument("jobs", metavar="JOB...", nargs=-1, required=True)
@click.option("--tag", metavar="TEXT", default="", help="Only metrics with this in their name.")
@click.option("--system", is_flag=True, help="Every figure of the machine too.")
@click.option("--json", is_flag=True, help="Print JSON.")
def compare(jobs: tuple[str, ...], tag: str, system: bool, json: bool) -> None:
    """Compare jobs: hyperparameters that differ, machine use, each metric's last and best value.

    The best is the greatest for names such as accuracy, and the least for all others; the best
    of the jobs is green.

    \b
    Examples:
      trackside compare train-a train-b
      trackside compare train-a train-b train-c --tag val/ --json
    """
    known = known_jobs()
    found = {name: _looked_at(TrainingJob(name, known), tag, system) for name in jobs}
    if json:
        print(as_json(found))
        return
    columns = list(found.values())
    sections = {
        "HYPERPARAMETER": _hyperparameters(columns),
        "MACHINE, MEAN (PEAK)": _machine(columns),
        "METRIC, LAST (BEST)": _metrics(columns),
    }
    rows = _about(columns)
    for title, section in sections.items():
        if section:
            empty = [Cell("")] * len(columns)
            rows += [[Cell(""), *empty], [Cell(title, "bold"), *empty], *section]
    print_side_by_side(("", *found), rows)


def best(series: Series) -> tuple[float, int] | None:
    """Value and step; None when no value is finite."""
    finite = numpy.flatnonzero(numpy.isfinite(series.values))
    if not len(finite):
        return None
    values = series.values[finite]
    at = finite[values.argmax() if _is_more_better(series.tag) else values.argmin()]
    return float(series.values[at]), int(series.steps[at])


def _is_more_better(name: str) -> bool:
    return _MORE_IS_BETTER.search(name.lower()) is not None


def _looked_at(job: TrainingJob, tag: str, system: bool) -> dict[str, Any]:
    described = job.describe()
    curves = read(job.curves_uri)
    return {
        "status": described["TrainingJobStatus"],
        "seconds": described.get("TrainingTimeInSeconds"),
        "hosts": job.num_hosts,
        "hyperparameters": {
            name: value
            for name, value in described.get("HyperParameters", {}).items()
            if not name.startswith(_NOT_COMPARED)
        },
        "machine": machine_use(curves),
        "metrics": {
            metric_name(series): _figures(series) for series in chosen(curves, tag, system=system)
        },
    }


def _figures(series: Series) -> dict[str, Any]:
    found = best(series)
    return {
        "tag": series.tag,
        "last": float(series.values[-1]),
        "step": int(series.steps[-1]),
        "best": None if found is None else found[0],
        "best_step": None if found is None else found[1],
    }


def _about(jobs: list[dict[str, Any]]) -> list[list[Cell]]:
    statuses = [Cell(job["status"], status_style(job["status"])) for job in jobs]
    rows = [[Cell("status"), *statuses], _row("trained for", map(_trained, jobs))]
    if len({job["hosts"] for job in jobs}) > 1:
        rows.append(_row("hosts", (str(job["hosts"]) for job in jobs)))
    return rows


def _trained(job: dict[str, Any]) -> str:
    return "" if job["seconds"] is None else duration(job["seconds"])


def _hyperparameters(jobs: list[dict[str, Any]]) -> list[list[Cell]]:
    """Rows of what differs."""
    rows = []
    for name in _names(jobs, "hyperparameters"):
        values = [job["hyperparameters"].get(name) for job in jobs]
        if len({*values}) > 1:
            shown = ("" if value is None else hidden(name, value) for value in values)
            rows.append(_row(name, shown))
    return rows


def _machine(jobs: list[dict[str, Any]]) -> list[list[Cell]]:
    def shown(use: dict[str, Any] | None) -> str:
        if use is None:
            return ""
        mean, peak = (together(with_unit(use["tag"], use[each])) for each in ("mean", "peak"))
        return f"{mean} ({peak})"

    labels = list(dict.fromkeys(label for job in jobs for label in job["machine"]))
    rows = [(label, [job["machine"].get(label) for job in jobs]) for label in labels]
    return [
        _row(label, map(shown, uses))
        for label, uses in rows
        if any(use["peak"] for use in uses if use is not None)
    ]


def _metrics(jobs: list[dict[str, Any]]) -> list[list[Cell]]:
    rows = []
    for name in _names(jobs, "metrics"):
        figures = [job["metrics"].get(name) for job in jobs]
        winners = _winners(name, [one and one["best"] for one in figures])
        cells = [
            Cell(_metric(one), "green" if won else "")
            for one, won in zip(figures, winners, strict=True)
        ]
        rows.append([Cell(name), *cells])
    return rows


def _metric(figures: dict[str, Any] | None) -> str:
    if figures is None:
        return ""
    best = "" if figures["best"] is None else f" ({figures['best']:.6g})"
    return f"{figures['last']:.6g}{best}"


def _winners(name: str, bests: list[float | None]) -> list[bool]:
    """Nobody wins where all are equal, or alone."""
    known = [value for value in bests if value is not None]
    if len({*known}) < 2:
        return [False] * len(bests)
    winner = max(known) if _is_more_better(name) else min(known)
    return [value == winner for value in bests]


def _names(jobs: list[dict[str, Any]], key: str) -> list[str]:
    return sorted({name for job in jobs for name in job[key]})


def _row(name: str, cells: Iterable[str]) -> list[Cell]:
    return [Cell(name), *map(Cell, cells)]
