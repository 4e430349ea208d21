"""`trackside compare`: several jobs side by side."""

import re
from typing import Any

import click
import numpy

from trackside.cli.metrics import chosen, metric_name, number
from trackside.cli.tables import Cell, print_table, status_style
from trackside.cli.text import as_json, duration
from trackside.curves.event_reader import Series, read
from trackside.sdk.job import TrainingJob
from trackside.sdk.local import local_jobs

_MORE_IS_BETTER = re.compile(
    r"acc|auc|f1|score|precision|recall|bleu|rouge|reward|map\b|iou|dice|r2"
)
_NOT_COMPARED = "sagemaker_"
"""Hyperparameters that say where the code is, not how it trains."""


@click.command
@click.argument("jobs", nargs=-1, required=True)
@click.option("--tag", metavar="TEXT", default="", help="Only metrics with this in their name.")
@click.option("--json", is_flag=True, help="Print JSON.")
def compare(jobs: tuple[str, ...], tag: str, json: bool) -> None:
    """Compare jobs: the hyperparameters that differ, and each metric's last and best value.

    The best is the greatest for names such as accuracy, and the least for all others.

    \b
    Examples:
      trackside compare train-a train-b
      trackside compare train-a train-b train-c --tag val/ --json
    """
    known = local_jobs()
    found = {name: _looked_at(TrainingJob(name, known), tag) for name in jobs}
    if json:
        print(as_json(found))
        return
    columns = ("", *found)
    rows = [
        _row("status", [job["status"] for job in found.values()], is_status=True),
        _row("trained", [_trained(job["seconds"]) for job in found.values()]),
    ]
    print_table(columns, rows)
    for title, key in (("HYPERPARAMETER", "hyperparameters"), ("METRIC, LAST (BEST)", "metrics")):
        if table := _table(found, key):
            print()
            print_table((title, *found), table)


def best(series: Series) -> tuple[float, int] | None:
    """Value and step; None when no value is finite."""
    finite = numpy.flatnonzero(numpy.isfinite(series.values))
    if not len(finite):
        return None
    values = series.values[finite]
    is_more = _MORE_IS_BETTER.search(series.tag.lower()) is not None
    at = finite[values.argmax() if is_more else values.argmin()]
    return float(series.values[at]), int(series.steps[at])


def _looked_at(job: TrainingJob, tag: str) -> dict[str, Any]:
    described = job.describe()
    return {
        "status": described["TrainingJobStatus"],
        "seconds": described.get("TrainingTimeInSeconds"),
        "hyperparameters": {
            name: value
            for name, value in described.get("HyperParameters", {}).items()
            if not name.startswith(_NOT_COMPARED)
        },
        "metrics": {
            metric_name(series): _figures(series) for series in chosen(read(job.curves_uri), tag)
        },
    }


def _figures(series: Series) -> dict[str, Any]:
    found = best(series)
    return {
        "last": float(series.values[-1]),
        "step": int(series.steps[-1]),
        "best": None if found is None else found[0],
        "best_step": None if found is None else found[1],
    }


def _table(found: dict[str, dict[str, Any]], key: str) -> list[list[Cell]]:
    """Rows of what differs; metrics are always shown."""
    names = sorted({name for job in found.values() for name in job[key]})
    rows = [(name, [_shown(job[key].get(name)) for job in found.values()]) for name in names]
    return [_row(name, cells) for name, cells in rows if key == "metrics" or len({*cells}) > 1]


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        best = "" if value["best"] is None else f" ({number(value['best'])})"
        return f"{number(value['last'])}{best}"
    return "" if value is None else str(value)


def _row(name: str, cells: list[str], *, is_status: bool = False) -> list[Cell]:
    return [Cell(name), *(Cell(text, status_style(text) if is_status else "") for text in cells)]


def _trained(seconds: int | None) -> str:
    return "" if seconds is None else duration(seconds)
