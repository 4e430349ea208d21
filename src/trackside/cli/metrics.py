"""`trackside metrics`: a job's curves in the terminal."""

import csv
import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
import numpy

from trackside.cli.job_names import job_argument
from trackside.cli.metric_view import COLUMNS, NUMBERS, SPARE, table_rows, view
from trackside.cli.styled_text import Text
from trackside.cli.tables import print_table, print_text, status_style
from trackside.cli.terminal import LiveLines, Terminal, is_unicode
from trackside.cli.text import as_json
from trackside.curves.curve_choice import Curve
from trackside.curves.event_reader import Curves, Follower
from trackside.errors import StoreUnreachable
from trackside.records.status import Status
from trackside.sdk.job import TrainingJob
from trackside.sdk.known_jobs import known_reader
from trackside.texts.terminal_text import visible
from trackside.views.curves.chosen_curves import chosen
from trackside.views.query.query import parse_text_query

logger = logging.getLogger(__name__)

FOLLOW_SECONDS = 1.0
_ALSO_FOR_LIVE = 2
"""Lines above the curves: the job and its progress."""


@click.command(short_help="Show the curves of a job in the terminal.")
@job_argument()
@click.option("--tag", metavar="TEXT", default="", help="Only metrics whose name contains this.")
@click.option("-g", "--grep", metavar="QUERY", help="Only metrics whose name matches this query.")
@click.option("--system", is_flag=True, help="Also the machine's metrics.")
@click.option("--all", "everything", is_flag=True, help="Also curves that are equal to others.")
@click.option("-f", "--follow", is_flag=True, help="Redraw until the job finishes.")
@click.option("--json", is_flag=True, help="Print each metric's values as JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print every point as CSV.")
def metrics(
    job: str,
    tag: str,
    grep: str | None,
    system: bool,
    everything: bool,
    follow: bool,
    json: bool,
    as_csv: bool,
) -> None:
    """Show a job's metrics: charts of those that its script wrote or printed, a table of the
    others.

    The script's own curves come first, then what the hook measured and, with --system, the
    machine's metrics. A loss that several of them have is shown once. Not at a terminal, the output
    is a table.

    \b
    Examples:
      trackside metrics last
      trackside metrics last --tag loss -f
      trackside metrics last --grep 'val -~/^vitals/'
      trackside metrics last --csv > curves.csv
    """
    if json and as_csv:
        raise click.UsageError("--json and --csv cannot be given together.")
    query = None if grep is None else parse_text_query(grep)
    known = TrainingJob(job, known_reader())
    follower = Follower(known.curves_uri)
    is_drawn = sys.stdout.isatty() and not (json or as_csv)
    live = LiveLines(Terminal.of_stdout()) if is_drawn and follow else None
    if not is_unicode():
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # it is a terminal's
    try:
        for described, curves in _readings(known, follower, follow=follow):
            shown = chosen(curves, tag, system=system, query=query)
            if json:
                print(as_json([summary(curve) for curve in shown]), flush=True)
                continue
            kept = [curve for curve in shown if everything or not curve.same_as]
            if as_csv:
                _write_points(kept)
            elif live is not None:
                live.show(_frame(known.name, described, kept, live.most_lines))
            else:
                hidden = chosen(curves, tag, system=True, query=query)
                _print(kept or _nothing(tag or grep or "", len(hidden)), is_drawn)
    except KeyboardInterrupt:
        print()  # after the ^C that the terminal echoes
        raise
    _print_skipped(known.describe(), follower)


def summary(curve: Curve) -> dict[str, Any]:
    series = curve.series
    finite = series.values[numpy.isfinite(series.values)]
    return {
        "metric": curve.name,
        "run": series.run,
        "tag": series.tag,
        "origin": curve.origin.name.lower(),
        "same_as": curve.same_as or None,
        "last": float(series.values[-1]),
        "step": int(series.steps[-1]),
        "time": float(series.times[-1]),
        "min": float(finite.min()) if len(finite) else None,
        "max": float(finite.max()) if len(finite) else None,
        "points": len(series),
    }


def _readings(
    job: TrainingJob, follower: Follower, *, follow: bool
) -> Iterator[tuple[Mapping[str, Any], Curves]]:
    """Once; or whenever there is something new, until the job has ended. Then a store that is away
    ends nothing."""
    if not follow:
        described = job.describe()
        follower.update()
        yield described, follower.curves
        return
    first, is_away = True, False
    while True:
        try:
            described = job.describe()
            is_new = follower.update() > 0
        except StoreUnreachable as error:
            if not is_away:
                logger.warning("The curves go on when their store is back. %s", error)
            is_away = True
        else:
            is_over = Status(described["TrainingJobStatus"]).is_final
            if is_new or is_over or first:
                yield described, follower.curves
            if is_over:
                return
            first = is_away = False
        time.sleep(FOLLOW_SECONDS)


def _print(shown: Sequence[Curve] | str, is_drawn: bool) -> None:
    if isinstance(shown, str):
        print_text(shown)
    elif is_drawn:
        terminal = Terminal.of_stdout()
        for line in view(shown, terminal.width, is_ascii=not is_unicode()):
            terminal.print(line)
    else:
        rows = [*table_rows(shown, is_grouped=False, is_ascii=not is_unicode())]
        print_table(COLUMNS, rows, numbers=NUMBERS, spare=SPARE)


def _frame(
    name: str, described: Mapping[str, Any], shown: Sequence[Curve], most_lines: int
) -> list[Text]:
    status = described["TrainingJobStatus"]
    head = Text(name, "bold").append("  ")
    head.append(described["SecondaryStatus"], status_style(status))
    if not shown:
        return [head, Text("No metrics yet.")]
    columns = Terminal.of_stdout().width
    room = most_lines - _ALSO_FOR_LIVE
    return [head, Text(""), *view(shown, columns, room, is_ascii=not is_unicode())]


def _write_points(shown: Sequence[Curve]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("metric", "step", "time", "value"))
    for curve in shown:
        series = curve.series
        columns = (series.steps, series.times, series.values)
        points = zip(*(column.tolist() for column in columns), strict=True)
        writer.writerows((curve.name, *point) for point in points)


def _print_skipped(described: Mapping[str, Any], follower: Follower) -> None:
    if Status(described["TrainingJobStatus"]).is_final:  # otherwise the rest may still arrive
        for path, num_bytes in follower.curves.unread_bytes.items():
            text = (
                f"The last {num_bytes:,} bytes of {path!r} are no whole record; they were skipped."
            )
            print(visible(text), file=sys.stderr)
    for pattern, why in described["Trackside"]["metrics_switched_off"].items():
        print(visible(f"The pattern {pattern!r} was switched off: it {why}."), file=sys.stderr)


def _nothing(tag: str, hidden: int) -> str:
    if hidden and tag:
        return f"Only figures of the machine have {tag!r} in their name; --system shows them."
    if tag:
        return f"No metric has {tag!r} in its name. Without --tag and --grep all are shown."
    advice = (
        "No metrics yet. Write them with a SummaryWriter, such as one for 'runs', or print "
        "them and name a pattern: `trackside run --metric 'loss=loss: ([0-9.]+)' …`."
    )
    return f"{advice} The machine's figures are there: --system." if hidden else advice
