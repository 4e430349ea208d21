"""`python -m zoo [NAME ...] [--quick] [--seed N] [--agent]`: prints a table."""

import argparse
import math
import random
from pathlib import Path

from zoo.runner import QUICK, Results, Variant, as_table, examine
from zoo.specimen import specimens


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m zoo", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the scripts' names; all when none")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--seed", type=int, help="another seed than the scripts' own")
    parser.add_argument("--width", type=float, default=1.0, help="times the layers' width")
    parser.add_argument("--rate", type=float, default=1.0, help="times the learning rate")
    parser.add_argument("--agent", action="store_true", help="also ask `trackside mcp` about each")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no more after these")
    parser.add_argument("--shuffle", type=int, metavar="N", help="take them in a random order")
    parser.add_argument(
        "--results", type=Path, metavar="FILE", help="add each to this file, as a line of JSON"
    )
    parser.add_argument("--resume", action="store_true", help="run only what FILE does not have")
    arguments = parser.parse_args()
    names = QUICK if arguments.quick else arguments.names
    chosen = [each for each in specimens() if not names or any(part in each.key for part in names)]
    if not chosen:
        parser.error(f"no script has {' or '.join(names)} in its name; zoo/ holds all of them")
    variant = Variant(arguments.seed, arguments.width, arguments.rate)
    if arguments.shuffle is not None:
        random.Random(arguments.shuffle).shuffle(chosen)
    results = None if arguments.results is None else Results(arguments.results)
    if arguments.resume and results is None:
        parser.error("--resume goes on with a file of results; name it by --results FILE")
    if results is not None and arguments.results.exists() and not arguments.resume:
        parser.error(f"{arguments.results} exists; go on with it by --resume, or name another")
    seconds = 60 * arguments.minutes
    examined = examine(chosen, variant, by_agent=arguments.agent, seconds=seconds, results=results)
    print(as_table(examined))


if __name__ == "__main__":
    main()
