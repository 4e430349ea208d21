"""Scripts by name, or a part of the kept series: one line for each run."""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from zoo.specimen import specimens

from benchmarks.report import as_table
from benchmarks.same_numbers.compare import MODES, Compared, as_line, compare
from benchmarks.same_numbers.kept import DEFAULT, KeptResults
from benchmarks.same_numbers.series import compare_and_keep, series, summary


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_numbers", description=__doc__)
    parser.add_argument("names", nargs="*", help="texts, one of which a script's name contains")
    parser.add_argument("--mode", choices=MODES, action="append", help="may be repeated")
    parser.add_argument("--forked", action="store_true", help="captured, but not as a job: cheaper")
    parser.add_argument("--kept", type=Path, default=DEFAULT, help="file of results, to go on with")
    parser.add_argument("--scripts", type=int, help="of the series; all when not given")
    parser.add_argument("--part", default="1/1", help="1/2 and 2/2 run beside each other")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no run after these")
    arguments = parser.parse_args()
    for compared in _named(arguments) if arguments.names else _series(arguments):
        print(as_line(compared), flush=True)
    if not arguments.names:
        print(as_table(summary(KeptResults(arguments.kept).results(specimens()))))


def _named(arguments: argparse.Namespace) -> Iterator[Compared]:
    if arguments.forked:
        from benchmarks.same_numbers.forked import compare_forked as chosen
    else:
        chosen = compare
    for specimen in specimens():
        if any(name in specimen.key for name in arguments.names):
            for mode in arguments.mode or MODES[:1]:
                yield chosen(specimen, mode)


def _series(arguments: argparse.Namespace) -> Iterator[Compared]:
    kept = KeptResults(arguments.kept)
    part, num_parts = map(int, arguments.part.split("/"))
    ends = time.monotonic() + arguments.seconds
    for specimen, mode in kept.missing(series(arguments.scripts), part - 1, num_parts):
        if time.monotonic() > ends:
            return
        if not arguments.mode or mode in arguments.mode:
            yield compare_and_keep(kept, specimen, mode)


if __name__ == "__main__":
    main()
