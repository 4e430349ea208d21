"""Runs a script plainly and as a watched job, and compares what both have left."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.specimen import Specimen, Variant

_SITE = Path(__file__).parent / "site"
_SECONDS = 600
MODES = ("train", "eval", "compile", "amp")


@dataclass(frozen=True, slots=True)
class Compared:
    key: str
    mode: str
    verdict: str
    """`same`, `differs`, or why it says nothing: `fails` plainly, `varies` from one plain run to
    the next, is `not watched`, or its watched run has `not ended` in time."""
    parts: tuple[str, ...] = ()
    """Those that differ."""
    way: str = "job"
    """Or `forked`: captured, but without evaluator and supervisor."""


def as_line(compared: Compared) -> str:
    return f"{compared.mode:8} {compared.key:45} {compared.verdict} {', '.join(compared.parts)}"


def compare(specimen: Specimen, mode: str) -> Compared:
    with tempfile.TemporaryDirectory(
        prefix="trackside-bench-",
        ignore_cleanup_errors=True,  # a supervisor may still tidy up
    ) as name:
        folder = Path(name)
        (folder / "train.py").write_text(specimen.source(Variant()))
        plain = _run(folder, mode, [sys.executable, "train.py"])
        if not plain:
            return Compared(specimen.key, mode, "fails")
        watched = _run(folder, mode, _job())
        parts = differences(plain, watched)
        if not parts:
            return Compared(specimen.key, mode, "same")
        if differences(plain, _run(folder, mode, [sys.executable, "train.py"])):
            return Compared(specimen.key, mode, "varies")
        return Compared(specimen.key, mode, "differs", parts)


def _job() -> list[str]:
    command = [sys.executable, "-m", "trackside.cli", "run", "train.py", "--wait", "--rule", "all"]
    return [*command, "--name", f"same-{os.urandom(4).hex()}"]


def _run(folder: Path, mode: str, command: list[str]) -> list[dict[str, Any]]:
    """What each process of it left, in the order of what they printed and trained."""
    with tempfile.TemporaryDirectory(dir=folder) as left:
        environment = {
            **os.environ,
            "TRACKSIDE_HOME": str(folder / "home"),
            "PYTHONPATH": str(_SITE),
            "SAME_NUMBERS_FOLDER": left,
            "SAME_NUMBERS_MODE": mode,
        }
        subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, check=False, timeout=_SECONDS
        )
        texts = [path.read_text() for path in Path(left).glob("*.json")]
    return [json.loads(text) for text in sorted(texts)]


def differences(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> tuple[str, ...]:
    if len(one) != len(other):
        return (f"{len(one)} and {len(other)} processes",)
    pairs = list(zip(one, other, strict=True))
    return tuple(sorted({key for a, b in pairs for key in a if a[key] != b.get(key)}))
