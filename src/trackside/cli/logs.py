"""`trackside logs`: prints the output of a job's script."""

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from trackside.cli.job_names import job_argument
from trackside.jobs.logs import LogLine
from trackside.records.log_lines import stamp
from trackside.sdk.job import TrainingJob
from trackside.sdk.known_jobs import known_reader

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader


@click.command
@job_argument()
@click.option("-f", "--follow", is_flag=True, help="Continue until the job has finished.")
@click.option("--host", metavar="HOST", help="Only this host, such as algo-2.")
@click.option("-t", "--timestamps", is_flag=True, help="Print when each line was written (UTC).")
@click.option("-a", "--all", "whole", is_flag=True, help="With -f at a terminal: print every line.")
@click.option("-n", "--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines.")
@click.option("--grep", metavar="REGEX", help="Only lines that match; (?i) ignores case.")
@click.option("-N", "--line-numbers", is_flag=True, help="With --grep: print where each line is.")
def logs(
    job: str,
    follow: bool,
    host: str | None,
    timestamps: bool,
    whole: bool,
    tail: int | None,
    grep: str | None,
    line_numbers: bool,
) -> None:
    """Print a job's log, byte for byte. With several hosts, each line starts with its host.

    Followed at a terminal, the script's thirty SM_ variables are left out, as with `run --wait`;
    with --all, in a pipe or a file every line is printed.

    \b
    Examples:
      trackside logs -f train-2026-11-15-22-50-46-123
      trackside logs train-2026-11-15-22-50-46-123 --host algo-2 --tail 50
      trackside logs train-2026-11-15-22-50-46-123 --grep 'loss: (nan|inf)' -N
    """
    known = known_reader()
    is_labelled = host is None and TrainingJob(job, known).num_hosts > 1
    if grep is not None:
        if follow or tail is not None:
            raise click.UsageError("--grep searches the log so far: leave out --follow and --tail.")
        from trackside.cli.log_search import HitStyle, print_hits

        return print_hits(known, job, host, grep, HitStyle(is_labelled, timestamps, line_numbers))
    lines = _selected(known, job, host, follow=follow, tail=tail)
    if follow and not whole:
        from trackside.sdk.print_events import shown_on

        lines = shown_on(sys.stdout, lines)
    _write(lines, is_labelled=is_labelled, is_stamped=timestamps)


def _selected(
    known: "JobReader", job: str, host: str | None, *, follow: bool, tail: int | None
) -> Iterator[LogLine]:
    if tail is None and not follow:
        return known.logs(job, host=host)
    if tail is None:
        return known.jobs().logs(job, host=host, follow=True)
    return _tail(known, job, host, follow=follow, tail=tail)


def _tail(
    known: "JobReader", job: str, host: str | None, *, follow: bool, tail: int
) -> Iterator[LogLine]:
    so_far = list(known.logs(job, host=host))
    yield from deque(so_far, maxlen=tail)
    if follow:
        after = {line.host: line.end for line in so_far}
        yield from known.jobs().logs(job, host=host, follow=True, after=after)


def _write(lines: Iterable[LogLine], *, is_labelled: bool, is_stamped: bool) -> None:
    out = sys.stdout.buffer
    begins = True
    for line in lines:
        if begins and is_stamped:
            out.write(stamp(line.time))
        if begins and is_labelled:
            out.write(f"{line.host} | ".encode())
        out.write(line.data)
        begins = line.data.endswith(b"\n") or is_labelled
        if begins and not line.data.endswith(b"\n"):
            out.write(b"\n")
        out.flush()
