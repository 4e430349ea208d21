"""Scripts that print numbered lines, and the count of which of them arrived."""

import re
from collections import Counter
from dataclasses import dataclass

MARK = "drill-line"

NUMBERED = f"""
import argparse, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--lines", type=int, default=100)
parser.add_argument("--pause", type=float, default=0.01)
parser.add_argument("--hold-at", type=int, default=-1)
parser.add_argument("--go", default="")
options = parser.parse_args()
for number in range(options.lines):
    print("{MARK}", number, flush=True)
    while number == options.hold_at and not os.path.exists(options.go):
        time.sleep(0.02)
    time.sleep(options.pause)
with open("/opt/ml/model/model.txt", "w") as file:
    file.write(f"trained {{options.lines}} lines")
"""
"""`-p lines=N -p pause=SECONDS`; with `-p hold-at=K -p go=FILE` it waits after line K until the
file exists."""


@dataclass(frozen=True, slots=True)
class LineCount:
    expected: int
    lost: tuple[int, ...]
    doubled: tuple[int, ...]
    strange: int
    """Lines with the mark that are torn, or of a number that was never printed."""
    in_order: bool

    @property
    def is_exact(self) -> bool:
        return not self.lost and not self.doubled and not self.strange and self.in_order

    def __str__(self) -> str:
        order = "" if self.in_order else ", out of order"
        strange = f", {self.strange} torn" if self.strange else ""
        return (
            f"{self.expected:,} lines, {len(self.lost):,} lost, "
            f"{len(self.doubled):,} doubled{strange}{order}"
        )


def count_lines(log: bytes, expected: int, mark: str = MARK) -> LineCount:
    """Which of the lines 0 … expected - 1 are in the log, and how often."""
    marked = [line for line in log.split(b"\n") if mark.encode() in line]
    whole = [re.fullmatch(rb"%s (\d+)\r?" % mark.encode(), line) for line in marked]
    numbers = [int(found[1]) for found in whole if found]
    times = Counter(numbers)
    known = [number for number in numbers if number < expected]
    return LineCount(
        expected,
        lost=tuple(number for number in range(expected) if number not in times),
        doubled=tuple(number for number, count in times.items() if count > 1),
        strange=len(marked) - len(known),
        in_order=known == sorted(known),
    )
