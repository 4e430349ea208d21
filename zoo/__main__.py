"""`python -m zoo [NAME ...] [--quick] [--seed N] [--width X] [--rate X]`: prints a table."""

import argparse

from zoo.runner import QUICK, Variant, as_table, examine
from zoo.specimen import specimens


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m zoo", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the scripts' names; all when none")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--seed", type=int, help="another seed than the scripts' own")
    parser.add_argument("--width", type=float, default=1.0, help="times the layers' width")
    parser.add_argument("--rate", type=float, default=1.0, help="times the learning rate")
    arguments = parser.parse_args()
    names = QUICK if arguments.quick else arguments.names
    chosen = [each for each in specimens() if not names or any(part in each.key for part in names)]
    if not chosen:
        parser.error(f"no script has {' or '.join(names)} in its name; zoo/ holds all of them")
    variant = Variant(arguments.seed, arguments.width, arguments.rate)
    print(as_table(examine(chosen, variant)))


if __name__ == "__main__":
    main()
