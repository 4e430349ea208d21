"""The drill's lines, its summary and its table for `docs/reliability.md`."""

import os
import platform
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from benchmarks.drill.case import Case, Result, Verdict


@dataclass(frozen=True, slots=True)
class Outcome:
    case: Case
    result: Result
    seconds: float


def as_line(outcome: Outcome) -> str:
    result = outcome.result
    reported = "; ".join(text for text in (result.figure, result.seen) if text)
    start = f"{_label(outcome.case):>4}  {result.verdict.value:<9}  {outcome.case.name}"
    return f"{start}: {reported}  [{outcome.seconds:.1f} s]"


def as_summary(outcomes: Sequence[Outcome]) -> str:
    counts = Counter(outcome.result.verdict for outcome in outcomes)
    parts = [f"{counts[verdict]} {verdict.value}" for verdict in Verdict]
    seconds = sum(outcome.seconds for outcome in outcomes)
    return f"{len(outcomes)} cases in {seconds:.0f} s: {', '.join(parts)}"


def as_markdown(outcomes: Sequence[Outcome]) -> str:
    lines = [
        f"Run on {datetime.now(UTC).date().isoformat()}; {machine()}.",
        "",
        "| | case | verdict | counted | not seen |",
        "|---:|---|---|---|---|",
    ]
    for outcome in sorted(outcomes, key=_order):
        case, result = outcome.case, outcome.result
        cells = (_label(case), case.name, result.verdict.value, result.figure, result.seen)
        lines.append(f"| {' | '.join(_cell(text) for text in cells)} |")
    return "\n".join([*lines, "", as_summary(outcomes) + ".", ""])


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    kernel = platform.release().split(".")[0]
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {kernel}.x, "
        f"Python {platform.python_version()}"
    )


def _label(case: Case) -> str:
    return "–" if case.number is None else str(case.number)


def _order(outcome: Outcome) -> tuple[bool, int]:
    return outcome.case.number is None, outcome.case.number or 0


def _cell(text: str) -> str:
    """Without the folders of this run, which nobody else has."""
    text = re.sub(r" \(\S*/evidence/\S*\)", "", text)
    text = re.sub(r"/\S*?trackside-drill-\w+", "…", text)
    return " ".join(text.replace("|", "\\|").split())
