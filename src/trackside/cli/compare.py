"""`trackside compare`: several jobs side by side."""

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.job_names import job_argument
from trackside.cli.tables import Cell, print_side_by_side, status_style, together
from trackside.cli.text import as_json, duration
from trackside.curves.machine_curves import with_unit
from trackside.curves.metric_direction import is_more_better
from trackside.sdk.known_jobs import known_reader
from trackside.texts.secret_names import hidden, hide_in_arguments
from trackside.texts.shown_names import shown_name, wire_name
from trackside.views.comparison.compare import Difference, differences, looked_at
from trackside.views.comparison.compared_setup import facts_of

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

_ORIGINS = ("script", "log", "hook", "machine")
_TITLES = {
    "code": "CODE THAT DIFFERS",
    "git": "GIT, WHERE IT DIFFERS",
    "package": "PACKAGE THAT DIFFERS",
    "data": "DATA THAT DIFFERS",
    "environment": "ENVIRONMENT THAT DIFFERS",
    "host": "HOST, WHERE IT DIFFERS",
}
_MOST_ROWS = 30
"""Of one kind."""


@click.command(short_help="Show jobs side by side: settings, machine use, metrics.")
@job_argument("jobs", metavar="JOB...", nargs=-1, required=True)
@click.option("--tag", metavar="TEXT", default="", help="Only metrics whose name contains this.")
@click.option("--system", is_flag=True, help="Also every metric of the machine.")
@click.option("--json", is_flag=True, help="Print JSON.")
def compare(jobs: tuple[str, ...], tag: str, system: bool, json: bool) -> None:
    """Compare jobs: each metric's last and best value, hyperparameters, machine use, and where
    their code, git commit, packages, data, environment and hosts differ.

    The best is the greatest for names such as accuracy, and the least for all others; the best
    of the jobs is green. Hyperparameters that differ come first.

    \b
    Examples:
      trackside compare train-a last
      trackside compare train-a train-b train-c --tag val/ --json
    """
    known = known_reader()
    names = [wire_name(name) for name in jobs]
    found = {shown_name(name): looked_at(name, known, tag, system) for name in names}
    differing = _differences(known, names)
    for number, job in enumerate(found.values()):
        job["differs"] = _differing(differing, number)
    if json:
        print(as_json(found))
        return
    columns = list(found.values())
    sections = {
        "METRIC, LAST (BEST)": _metrics(columns),
        **_hyperparameters(columns),
        **{title: _shown_rows(differing, kind) for kind, title in _TITLES.items()},
        "MACHINE, MEAN (PEAK)": _machine(columns),
    }
    rows = _about(columns)
    for title, section in sections.items():
        if section:
            empty = [Cell("")] * len(columns)
            rows += [[Cell(""), *empty], [Cell(title, "bold"), *empty], *section]
    print_side_by_side(("", *found), rows)


def _differences(known: "JobReader", names: Sequence[str]) -> list[Difference]:
    """Of all but what has a section of its own."""
    names = list(dict.fromkeys(names))
    facts = [facts_of(known, known.describe(name)) for name in names]
    return [row for row in differences(facts)[0] if row.kind in _TITLES]


def _differing(rows: Sequence[Difference], number: int) -> dict[str, dict[str, str | None]]:
    found: dict[str, dict[str, str | None]] = {}
    for row in rows:
        found.setdefault(row.kind, {})[row.name] = row.values[number]
    return found


def _shown_rows(rows: Sequence[Difference], kind: str) -> list[list[Cell]]:
    chosen = [row for row in rows if row.kind == kind]
    shown = [_row(row.name, (value or "" for value in row.values)) for row in chosen[:_MOST_ROWS]]
    if len(chosen) > _MOST_ROWS:
        more = f"and {len(chosen) - _MOST_ROWS:,} more: --json shows all"
        shown.append(_row(more, [""] * len(chosen[0].values)))
    return shown


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
