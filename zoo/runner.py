"""Runs the scripts with `trackside run --rule all --findings`, two at a time, and counts which
mistakes were found, with which cause, in which layer, how late, and the false alarms.
"""

import json
import math
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from zoo.agent import MOST_BYTES, MOST_CALLS, Asked, ask
from zoo.specimen import Specimen, Variant, specimens

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
    asked: Asked | None = None
    """What an agent was told; None if none asked."""

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


class Results:
    """A file with a line of JSON for each script, so that a run that was ended can go on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def read(self) -> dict[str, Examined]:
        """By the script's key; of several runs of one, the last. A line that was cut short, and a
        script that the zoo has no more, are left out."""
        scripts = {each.key: each for each in specimens()}
        found = {}
        for line in self._path.read_text().splitlines() if self._path.exists() else ():
            with suppress(ValueError):
                made = json.loads(line)
                if made["script"] in scripts:
                    found[made["script"]] = _examined(scripts[made["script"]], made)
        return found

    def add(self, examined: Examined) -> None:
        made = {
            "script": examined.specimen.key,
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            "load": round(os.getloadavg()[0], 1),
            "findings": examined.findings,
            "diagnoses": examined.diagnoses,
            "asked": None if examined.asked is None else asdict(examined.asked),
        }
        with self._lock, self._path.open("a") as file:
            file.write(f"{json.dumps(made)}\n")


def _examined(specimen: Specimen, made: dict[str, Any]) -> Examined:
    asked = made["asked"]
    return Examined(
        specimen,
        tuple(made["findings"]),
        tuple(made["diagnoses"]),
        output="",
        asked=None if asked is None else Asked(**{**asked, "answers": tuple(asked["answers"])}),
    )


def examine(
    chosen: Iterable[Specimen],
    variant: Variant = Variant(),  # noqa: B008
    *,
    by_agent: bool = False,
    seconds: float = math.inf,
    results: Results | None = None,
) -> list[Examined]:
    """`by_agent` also asks `trackside mcp` about each. After `seconds`, no more are started. Those
    that `results` has are not run again; the others are added to it, each as soon as it is done.
    """
    ends = time.monotonic() + seconds
    known = {} if results is None else results.read()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(_AT_ONCE) as threads:
        root = Path(folder)

        def examined(specimen: Specimen) -> Examined | None:
            if specimen.key in known or time.monotonic() >= ends:
                return known.get(specimen.key)
            try:
                found = _examine(specimen, variant, root, by_agent=by_agent)
            except (subprocess.TimeoutExpired, OSError, ValueError) as error:
                print(f"{specimen.key} was not examined: {error}", file=sys.stderr, flush=True)
                return None
            if results is not None:
                results.add(found)
            return found

        return [each for each in threads.map(examined, chosen) if each is not None]


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


def _examine(specimen: Specimen, variant: Variant, root: Path, *, by_agent: bool) -> Examined:
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
        ask(root / "home", name, specimen.causes) if by_agent else None,
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
    yield from _agent_totals(broken, healthy)
    if healthy:
        alarms = sum(not each.is_right for each in healthy)
        yield f"Of {len(healthy)} healthy trainings {alarms} had a false alarm."


def _agent_totals(broken: Sequence[Examined], healthy: Sequence[Examined]) -> Iterator[str]:
    asked = [each.asked for each in broken if each.asked is not None]
    if asked:
        enough = sum(each.is_enough for each in asked)
        calls = [each.num_calls for each in asked if each.is_named]
        sizes = sorted(each.size_bytes for each in asked if each.is_named)
        yield (
            f"An agent was told the cause of {enough} of {len(asked)} broken trainings "
            f"({enough / len(asked):.0%}) in at most {MOST_CALLS} calls and {MOST_BYTES} bytes: "
            f"in one call {calls.count(1)}, median {sizes[len(sizes) // 2] if sizes else 0} bytes, "
            f"at most {sizes[-1] if sizes else 0}."
        )
    blamed = [each for each in healthy if each.asked is not None and each.asked.first]
    if healthy and healthy[0].asked is not None:
        yield f"It was told a cause for {len(blamed)} of {len(healthy)} healthy ones."
