"""`trackside metrics`: a job's curves in the terminal."""

import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import click
import numpy

from trackside.cli.job_names import job_argument
from trackside.cli.machine_use import is_machine, with_unit
from trackside.cli.sparkline import sparkline
from trackside.cli.tables import Cell, print_table, print_text, together
from trackside.cli.text import as_json
from trackside.curves.event_reader import TOP, Curves, Follower, Series
from trackside.harmless import visible
from trackside.sdk.job import TrainingJob
from trackside.sdk.known_jobs import known_jobs
from trackside.status import Status

FOLLOW_SECONDS = 1.0
NUMBERS = ("LAST", "STEP", "MIN", "MAX", "POINTS")
COLUMNS = ("METRIC", *NUMBERS, "CURVE")
SPARE = ("POINTS", "STEP")
_CLEAR = "\x1b[H\x1b[2J"


@click.command(short_help="Show the curves of a job in the terminal.")
@job_argument()
@click.option("--tag", metavar="TEXT", default="", help="Only metrics with this in their name.")
@click.option("--system", is_flag=True, help="The machine's figures too.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("--json", is_flag=True, help="Print JSON.")
def metrics(job: str, tag: str, system: bool, follow: bool, json: bool) -> None:
    """Show a job's metrics: the last value, the least and the most, and the curve.

    What the machine did meanwhile is left out unless --system asks for it.

    \b
    Examples:
      trackside metrics train-2026-11-15-22-50-46-123
      trackside metrics train-2026-11-15-22-50-46-123 --tag loss -f
    """
    known = TrainingJob(job, known_jobs())
    follower = Follower(known.curves_uri)
    for curves in _readings(known, follower, follow=follow):
        shown = chosen(curves, tag, system=system)
        if follow and sys.stdout.isatty():
            print(_CLEAR, end="")
        if json:
            print(as_json([_summary(series) for series in shown]), flush=True)
        elif shown:
            print_table(COLUMNS, [*_rows(shown)], numbers=NUMBERS, spare=SPARE)
        else:
            print_text(_nothing(tag, hidden=len(chosen(curves, tag, system=True))))
    described = known.describe()
    if Status(described["TrainingJobStatus"]).is_final:  # else the rest may be on its way
        for path, num_bytes in follower.curves.unread_bytes.items():
            text = (
                f"The last {num_bytes:,} bytes of {path!r} are no whole record; they were skipped."
            )
            print(visible(text), file=sys.stderr)
    for pattern, why in described["Trackside"]["metrics_switched_off"].items():
        print(visible(f"The pattern {pattern!r} was switched off: it {why}."), file=sys.stderr)


def chosen(curves: Curves, tag: str, *, system: bool) -> list[Series]:
    """Those with `tag` in their name, by name; the machine's last, and only with `system`."""
    found = [
        series
        for series in curves.scalars.values()
        if tag in metric_name(series) and (system or not is_machine(series))
    ]
    return sorted(found, key=lambda series: (is_machine(series), metric_name(series)))


def metric_name(series: Series) -> str:
    """Run and tag; what is of the whole job, or scraped from its log, goes by its tag alone."""
    if series.run in (TOP, "trackside/algo-1"):
        return series.tag
    return f"{series.run.removeprefix('trackside/')}/{series.tag}"


def shown_value(series: Series, value: float | None) -> str:
    if value is None:
        return ""
    return with_unit(series.tag, value) if is_machine(series) else f"{value:.6g}"


def _readings(job: TrainingJob, follower: Follower, *, follow: bool) -> Iterator[Curves]:
    """Once; or each time that there is something new, until the job has ended."""
    while True:
        is_over = not follow or job.describe()["TrainingJobStatus"] not in (
            "InProgress",
            "Stopping",
        )
        if follower.update() or is_over:
            yield follower.curves
        if is_over:
            return
        time.sleep(FOLLOW_SECONDS)


def _rows(shown: list[Series]) -> Iterator[list[Cell]]:
    """On a terminal the machine's long names stand below what they have in common."""
    above = ""
    for series in shown:
        if not (is_machine(series) and sys.stdout.isatty()):
            yield _row(series, metric_name(series))
            continue
        if series.run != above:
            above = series.run
            yield [Cell(above), *(Cell("") for _ in COLUMNS[1:])]
        yield _row(series, together(f"  {series.tag}"))


def _row(series: Series, name: str) -> list[Cell]:
    told = _summary(series)
    return [
        Cell(name),
        Cell(shown_value(series, told["last"]), "bold"),
        Cell(str(told["step"])),
        Cell(shown_value(series, told["min"])),
        Cell(shown_value(series, told["max"])),
        Cell(str(told["points"])),
        Cell(sparkline(series.values), "cyan", at_width=partial(sparkline, series.values)),
    ]


def _summary(series: Series) -> dict[str, Any]:
    finite = series.values[numpy.isfinite(series.values)]
    return {
        "metric": metric_name(series),
        "run": series.run,
        "tag": series.tag,
        "last": float(series.values[-1]),
        "step": int(series.steps[-1]),
        "time": float(series.times[-1]),
        "min": float(finite.min()) if len(finite) else None,
        "max": float(finite.max()) if len(finite) else None,
        "points": len(series),
    }


def _nothing(tag: str, *, hidden: int) -> str:
    if hidden and tag:
        return f"Only figures of the machine have {tag!r} in their name; --system shows them."
    if tag:
        return f"No metric has {tag!r} in its name. Without --tag all are shown."
    advice = (
        "No metrics yet. Write them with a SummaryWriter, such as one for 'runs', or print "
        "them and name a pattern: `trackside run --metric 'loss=loss: ([0-9.]+)' …`."
    )
    return f"{advice} The machine's figures are there: --system." if hidden else advice
