"""Runs the scripts with `trackside run --rule all --findings`, two at a time, and counts which
mistakes were found, with which cause, in which layer, how late, and the false alarms.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.specimen import Specimen, Variant

QUICK = (
    "broken/rate_zero",
    "broken/softmax_before_cross_entropy",
    "broken/graph_cut_detach",
    "broken/diverging_rate",
    "healthy/frozen_backbone",
)
_AT_ONCE = 2
_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Examined:
    specimen: Specimen
    findings: tuple[dict[str, Any], ...]
    diagnoses: tuple[dict[str, Any], ...]
    output: str

    @property
    def cause(self) -> str:
        """The first that was named."""
        return str(self.diagnoses[0]["cause"]) if self.diagnoses else ""

    @property
    def is_noticed(self) -> bool:
        return bool(self.findings)

    @property
    def is_right(self) -> bool:
        """The right cause before any other; nothing at all for a healthy one."""
        if self.specimen.is_healthy:
            return not self.findings
        return self.cause in self.specimen.causes

    @property
    def is_right_place(self) -> bool:
        if not self.is_right:
            return False
        return bool(re.search(self.specimen.where, str(self.diagnoses[0]["tensor"])))

    @property
    def steps_late(self) -> int:
        """From the last step at which it may have gone wrong to the one that is named."""
        step = int(self.diagnoses[0]["step"] or 0) if self.diagnoses else 0
        return max(0, step - self.specimen.begins[1])


def examine(chosen: Iterable[Specimen], variant: Variant = Variant()) -> list[Examined]:  # noqa: B008
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(_AT_ONCE) as threads:
        root = Path(folder)
        return list(threads.map(lambda each: _examine(each, variant, root), chosen))


def as_table(examined: Sequence[Examined]) -> str:
    return "\n".join(
        [
            "| script | expected | first cause named | where | from step | late |",
            "|---|---|---|---|---:|---:|",
            *map(_row, examined),
            "",
            *_totals(examined),
        ]
    )


def _examine(specimen: Specimen, variant: Variant, root: Path) -> Examined:
    folder = root / specimen.key
    folder.mkdir(parents=True)
    script = folder / "train.py"
    script.write_text(specimen.source(variant))
    lines = folder / "findings.jsonl"
    command = [sys.executable, "-m", "trackside.cli", "run", str(script)]
    name = re.sub(r"[^A-Za-z0-9]+", "-", specimen.key)
    done = subprocess.run(
        [*command, "--rule", "all", "--findings", str(lines), "--name", name],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        env={**os.environ, "TRACKSIDE_HOME": str(root / "home")},
    )
    records = [json.loads(line) for line in lines.read_text().splitlines()]
    examined = Examined(
        specimen,
        tuple(each for each in records if "diagnosis" not in each),
        tuple(each for each in records if "diagnosis" in each),
        done.stdout + done.stderr,
    )
    print(_row(examined), file=sys.stderr, flush=True)
    return examined


def _row(each: Examined) -> str:
    named = f"**{each.cause}**" if each.cause and not each.is_right else each.cause
    place = step = late = ""
    if each.diagnoses:
        place = str(each.diagnoses[0]["tensor"])
        step, late = str(each.diagnoses[0]["step"]), str(each.steps_late)
    expected = " or ".join(each.specimen.causes) or "nothing"
    return f"| {each.specimen.key} | {expected} | {named} | {place} | {step} | {late} |"


def _totals(examined: Sequence[Examined]) -> Iterator[str]:
    broken = [each for each in examined if not each.specimen.is_healthy]
    healthy = [each for each in examined if each.specimen.is_healthy]
    if broken:
        noticed = sum(each.is_noticed for each in broken)
        right = sum(each.is_right for each in broken)
        place = sum(each.is_right_place for each in broken)
        late = sorted(each.steps_late for each in broken if each.is_right)
        yield (
            f"Of {len(broken)} broken trainings {noticed} were noticed, {right} with the right "
            f"cause first, {place} at the right layer, at most {max(late, default=0)} steps late."
        )
    if healthy:
        alarms = sum(not each.is_right for each in healthy)
        yield f"Of {len(healthy)} healthy trainings {alarms} had a false alarm."
