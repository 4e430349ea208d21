"""What a case of the drill is, and how it can end.

The numbers are those of the table in `docs/reliability.md`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.drill.ground import Ground


class Verdict(Enum):
    HELD = "held"
    PARTLY = "partly"
    """Nothing is lost, but something of what is promised was not seen."""
    BROKE = "BROKE"
    NOT_SHOWN = "not shown"
    """It was not tried, or could not be tried here."""


@dataclass(frozen=True, slots=True)
class Result:
    verdict: Verdict
    figure: str
    """What was counted, such as "1,000 kills, 20 jobs, 0 lines lost, 0 doubled"."""
    seen: str = ""
    """What broke or is missing, and where the evidence is."""


@dataclass(frozen=True, slots=True)
class Case:
    number: int | None
    """In the drill; None for what has no number there."""
    name: str
    """One short phrase."""
    run: Callable[["Ground"], Result]
    seconds: float
    """About how long it takes on two cores."""
    nightly: bool = False
    """Too long for every day: `--part nightly`, or by its name."""


class Broke(Exception):
    """Raised in a case: a promise was not kept. Says what was seen."""


class NotShown(Exception):
    """Raised in a case: this machine cannot show it. Says why."""


def held(figure: str) -> Result:
    return Result(Verdict.HELD, figure)


def partly(figure: str, seen: str) -> Result:
    return Result(Verdict.PARTLY, figure, seen)


def broke(figure: str, seen: str) -> Result:
    return Result(Verdict.BROKE, figure, seen)


def not_shown(reason: str) -> Result:
    return Result(Verdict.NOT_SHOWN, "", reason)


def check(condition: object, seen: str) -> None:
    """What a case promises; unlike an assertion it is not lost under `python -O`."""
    if not condition:
        raise Broke(seen)
