"""`trackside compare`: several jobs side by side."""

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import click

from trackside.cli.job_names import job_argument
from trackside.cli.machine_use import machine_use
from trackside.cli.metrics import chosen
from trackside.cli.tables import Cell, print_side_by_side, status_style, together
from trackside.cli.text import as_json, duration
from trackside.curves.curve_choice import Curve, best
from trackside.curves.event_reader import read
from trackside.curves.machine_curves import with_unit
from trackside.curves.metric_direction import is_more_better
from trackside.sdk.job import TrainingJob
from trackside.sdk.known_jobs import known_reader
from trackside.texts.secret_names import hidden, hide_in_arguments
from trackside.texts.shown_names import shown_name

_ORIGINS = ("script", "log", "hook", "machine")
_NOT_COMPARED = "sagemaker_"
"""Hyperparameters that say where the code is, not how it trains."""


@click.command(short_help="Show jobs side by side: settings, machine use, metrics.")
@job_argument("jobs", metavar="JOB...", nargs=-1, required=True)
@click.option("--tag", metavar="TEXT", default="", help="Only metrics whose name contains this.")
@click.option("--system", is_flag=True, help="Also every metric of the machine.")
@click.option("--json", is_flag=True, help="Print JSON.")
def compare(jobs: tuple[str, ...], tag: str, system: bool, json: bool) -> None:
    """Compare jobs: each metric's last and best value, hyperparameters, machine use.

    The best is the greatest for names such as accuracy, and the least for all others; the best
    of the jobs is green. Hyperparameters that differ come first.

    \b
    Examples:
      trackside compare train-a last
      trackside compare train-a train-b train-c --tag val/ --json
    """
    known = known_reader()
    found = {shown_name(name): _looked_at(TrainingJob(name, known), tag, system) for name in jobs}
    if json:
        print(as_json(found))
        return
    columns = list(found.values())
    sections = {
        "METRIC, LAST (BEST)": _metrics(columns),
        **_hyperparameters(columns),
        "MACHINE, MEAN (PEAK)": _machine(columns),
    }
    rows = _about(columns)
    for title, section in sections.items():
        if section:
            empty = [Cell("")] * len(columns)
            rows += [[Cell(""), *empty], [Cell(title, "bold"), *empty], *section]
    print_side_by_side(("", *found), rows)


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
        "arguments": described["Trackside"]["options"].get("Arguments", []),
        "metrics": {
            curve.name: _figures(curve)
            for curve in chosen(curves, tag, system=system)
            if not curve.same_as
        },
        "machine": machine_use(curves),
    }


def _figures(curve: Curve) -> dict[str, Any]:
    series, found = curve.series, best(curve.series)
    return {
        "tag": series.tag,
        "origin": curve.origin.name.lower(),
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


def _hyperparameters(jobs: Sequence[dict[str, Any]]) -> dict[str, list[list[Cell]]]:
    """A row per name, and one for the script's other arguments."""
    names = sorted({name for job in jobs for name in job["hyperparameters"]})
    values = {name: [_shown_parameter(job, name) for job in jobs] for name in names}
    if any(job["arguments"] for job in jobs):
        given = (shlex.join(hide_in_arguments(job["arguments"])) for job in jobs)
        values["arguments behind --"] = [*given]
    if len(jobs) == 1:
        return {"HYPERPARAMETER": [_row(name, shown) for name, shown in values.items()]}
    # Masked values may still differ, which is worth a row.
    unlike = {name for name in names if len({job["hyperparameters"].get(name) for job in jobs}) > 1}
    unlike |= {name for name, shown in values.items() if len({*shown}) > 1}
    return {
        "HYPERPARAMETER THAT DIFFERS": [
            _row(name, shown, "bold") for name, shown in values.items() if name in unlike
        ],
        "HYPERPARAMETER, SAME IN ALL": [
            _row(name, shown) for name, shown in values.items() if name not in unlike
        ],
    }


def _shown_parameter(job: dict[str, Any], name: str) -> str:
    value = job["hyperparameters"].get(name)
    return "" if value is None else hidden(name, value)


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
    for name in _metric_names(jobs):
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
    last, best = figures["last"], figures["best"]
    return f"{last:.6g}" if best in (None, last) else f"{last:.6g} ({best:.6g})"


def _winners(name: str, bests: list[float | None]) -> list[bool]:
    """There is no winner if all are equal, or for a single job."""
    known = [value for value in bests if value is not None]
    if len({*known}) < 2:
        return [False] * len(bests)
    winner = max(known) if is_more_better(name) else min(known)
    return [value == winner for value in bests]


def _metric_names(jobs: Sequence[dict[str, Any]]) -> list[str]:
    """In each job's own order, but the script's own curves before other measurements."""
    origins = {
        name: _ORIGINS.index(figures["origin"])
        for job in jobs
        for name, figures in job["metrics"].items()
    }
    return sorted(origins, key=lambda name: origins[name])


def _row(name: str, cells: Iterable[str], style: str = "") -> list[Cell]:
    return [Cell(name, style), *(Cell(text, style) for text in cells)]
