"""What a benchmark returns: figures of one run, ours and the peers', shown as ratios."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Target:
    """Ours must be at least `ratio` times as good as the peer, in this run."""

    peer: str
    ratio: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One claim: the figure of each program, measured one after the other in the same run."""

    title: str
    unit: str
    figures: dict[str, float]
    """Program to figure; ours is called `trackside`."""
    higher_is_better: bool = False
    targets: tuple[Target, ...] = ()
    notes: tuple[str, ...] = ()

    def ratio(self, peer: str) -> float:
        """How many times better ours is than the peer's."""
        ours, theirs = self.figures["trackside"], self.figures[peer]
        return ours / theirs if self.higher_is_better else theirs / ours


def as_table(comparison: Comparison) -> str:
    goals = {target.peer: target.ratio for target in comparison.targets}
    lines = [
        f"### {comparison.title}",
        "",
        f"| program | {comparison.unit} | ours is better by | target | met |",
        "|---|---:|---:|---:|---|",
    ]
    for name, figure in comparison.figures.items():
        if name == "trackside":
            lines.append(f"| **trackside** | {figure:,.3g} | | | |")
            continue
        ratio = comparison.ratio(name)
        goal = goals.get(name)
        verdict = "" if goal is None else "yes" if ratio >= goal else "**no**"
        shown = "" if goal is None else f"{goal:.2f} x"
        lines.append(f"| {name} | {figure:,.3g} | {ratio:.2f} x | {shown} | {verdict} |")
    return "\n".join([*lines, "", *comparison.notes, ""])


def write_json(comparisons: Sequence[Comparison], path: Path) -> None:
    record = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "comparisons": [asdict(comparison) for comparison in comparisons],
    }
    path.write_text(json.dumps(record, indent=2) + "\n")
