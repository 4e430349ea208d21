"""Trials that the tests of this folder read: smdebug's own, and the same content in our format."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from trackside.capture.writing.segments import StepRecord
from trackside.capture.writing.writer import SegmentWriter

DATA = Path(__file__).parent / "data"
SMDEBUG_TRIAL = DATA / "smdebug_trial"
EXPECTED: dict[str, Any] = json.loads((DATA / "smdebug_trial_as_smdebug_reads_it.json").read_text())
MODES = {0: ("TRAIN", 0), 2: ("TRAIN", 2), 3: ("EVAL", 0), 6: ("TRAIN", 4), 8: ("EVAL", 2)}


def write_the_same(out_dir: str, home: Path) -> None:
    """What smdebug reads from its trial, written by us."""
    with SegmentWriter(out_dir, "worker_0", home=home) as writer:
        file = SMDEBUG_TRIAL / "collections/000000000/worker_0_collections.json"
        writer.put_collections(file.read_text())
        for step in EXPECTED["steps"]:
            for record in _records(step):
                writer.add(record)


def _records(step: int) -> list[StepRecord]:
    mode, mode_step = MODES[step]
    whole = StepRecord(step, mode, mode_step, 1e9 + step)
    records = [whole]
    for name, tensor in EXPECTED["tensors"].items():
        value = tensor["values"].get(str(step))
        shape = tensor["shape"].get(str(step))
        if value is not None and not isinstance(value, str):
            whole.tensors[name] = np.array(value, tensor["dtype"])
        elif isinstance(shape, list):
            whole.shapes[name] = tuple(shape)
        stored = tensor["reductions"].get(str(step))
        if stored:
            matrix = np.array([list(stored.values())], np.float32)
            records.append(
                StepRecord(
                    step,
                    mode,
                    mode_step,
                    1e9 + step,
                    reduced=(name,),
                    reductions=tuple(stored),
                    matrix=matrix,
                )
            )
    return records


def collections_json(num_workers: int = 1, **patterns: list[str]) -> str:
    described = {
        name: {"name": name, "include_regex": regex, "tensor_names": []}
        for name, regex in patterns.items()
    }
    return json.dumps({"collections": described, "_meta": {"num_workers": num_workers}})
