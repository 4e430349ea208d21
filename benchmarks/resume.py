"""`trackside audit-resume` on scripts that resume wrongly (16) and rightly (8).

There is no peer: the figures are how many verdicts are right. `python -m benchmarks resume`.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.report import Comparison
from benchmarks.resume_scripts import FAULTS, HERE, RIGHT

_QUICK = 2


def run(quick: bool) -> Iterable[Comparison]:
    faults, right = FAULTS[:_QUICK] if quick else FAULTS, RIGHT[:_QUICK] if quick else RIGHT
    notes: list[str] = []
    began = time.monotonic()
    num_named = 0
    for fault in faults:
        parts = audited(fault.text())
        is_named = parts[:1] != [] and parts[0] in fault.parts
        num_named += is_named
        notes.append(_row(fault.name, "/".join(fault.parts), parts, is_named))
    num_same = 0
    for name in right:
        parts = audited((HERE / name).read_text())
        num_same += not parts
        notes.append(_row(name, "nothing", parts, not parts))
    each = (time.monotonic() - began) / (len(faults) + len(right))
    table = ("| script | not restored | named | right |", "|---|---|---|---|", *notes)
    yield Comparison(
        f"Resume audit: {num_named} of {len(faults)} faults named first, {num_same} of "
        f"{len(right)} right scripts found the same",
        "seconds for an audit of three runs",
        {"trackside": each},
        notes=table,
    )


def audited(text: str) -> list[str]:
    """The parts that were not restored; `failed` if the audit could not be made."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(text)
        command = [sys.executable, "-m", "trackside.cli", "audit-resume", str(script), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        print(done.stderr, file=sys.stderr)
        return ["failed"]
    return [each["part"] for each in json.loads(done.stdout)["differences"]]


def _row(name: str, expected: str, parts: Sequence[str], is_right: bool) -> str:
    row = f"| {name} | {expected} | {', '.join(parts) or 'nothing'} | {is_right} |"
    print(row, file=sys.stderr, flush=True)
    return row
