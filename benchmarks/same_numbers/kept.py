"""Results of comparisons in a file, so that a long series can be stopped and gone on with.

Several processes may append to it. A result counts as long as its script is the same.
"""

import hashlib
import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zoo.specimen import Specimen, Variant

from benchmarks.same_numbers.compare import Compared

DEFAULT = Path(__file__).parents[1] / ".data" / "same_numbers.jsonl"


class KeptResults:
    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, specimen: Specimen, compared: Compared) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = {**asdict(compared), "script": script_digest(specimen), "commit": commit()}
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def missing(
        self, runs: Iterable[tuple[Specimen, str]], part: int = 0, num_parts: int = 1
    ) -> Iterator[tuple[Specimen, str]]:
        """What has no result, of every `num_parts`-th run only, looked up when it is its turn."""
        for number, (specimen, mode) in enumerate(runs):
            if number % num_parts == part and not self._has(specimen, mode):
                yield specimen, mode

    def results(self, chosen: Iterable[Specimen]) -> list[Compared]:
        """The last of each script and mode."""
        digests = {each.key: script_digest(each) for each in chosen}
        last = {
            (line["key"], line["mode"]): _compared(line)
            for line in self._lines()
            if digests.get(line["key"]) == line["script"]
        }
        return list(last.values())

    def _has(self, specimen: Specimen, mode: str) -> bool:
        return any(each.mode == mode for each in self.results([specimen]))

    def _lines(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        return [json.loads(line) for line in self._path.read_text().splitlines()]


def script_digest(specimen: Specimen) -> str:
    return hashlib.sha256(specimen.source(Variant()).encode()).hexdigest()[:16]


def commit() -> str:
    """Of the clone, with a mark if files were changed since."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    found = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return found.stdout.strip()


def _compared(line: dict[str, Any]) -> Compared:
    return Compared(line["key"], line["mode"], line["verdict"], tuple(line["parts"]), line["way"])
