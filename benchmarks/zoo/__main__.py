"""`python -m benchmarks.zoo [NAME ...] [--seed N] [--width X] [--rate X]`: some, in variants."""

import argparse

from benchmarks.zoo.runner import Variant, as_table, examine
from benchmarks.zoo.specimen import specimens


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zoo", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the scripts' names; all when none")
    parser.add_argument("--seed", type=int, help="another seed than the scripts' own")
    parser.add_argument("--width", type=float, default=1.0, help="times the layers' width")
    parser.add_argument("--rate", type=float, default=1.0, help="times the learning rate")
    arguments = parser.parse_args()
    chosen = [
        each
        for each in specimens()
        if not arguments.names or any(part in each.key for part in arguments.names)
    ]
    variant = Variant(arguments.seed, arguments.width, arguments.rate)
    print(as_table(examine(chosen, variant)))


if __name__ == "__main__":
    main()
