"""Trials of damaged or hostile files: whatever is in them, the rest is read."""

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tests.fuzz import bounded
from tests.fuzz.mutations import (
    ODD_NUMBERS,
    damaged,
    damaged_json,
    damaged_message,
    damaged_value,
)
from tests.fuzz.rounds import rounds
from trackside.capture.exceptions import SMDebugError
from trackside.capture.reading.anatomy import read_anatomy
from trackside.capture.reading.segment_reader import TornSegment, header_size, parse_header
from trackside.capture.reading.table import tensor_table
from trackside.capture.trial import Trial, create_trial
from trackside.capture.writing.segments import METADATA_KEY, StepRecord, lay_out
from trackside.curves import records

SMDEBUG_TRIAL = Path(__file__).parents[1] / "capture" / "data" / "smdebug_trial"


def segment(rng: Random, first_step: int) -> bytes:
    """As a hook writes it, with something of every kind."""
    steps = [
        StepRecord(
            step=first_step + number,
            mode=rng.choice(("TRAIN", "EVAL")),
            mode_step=first_step + number,
            time=1.7e9 + number,
            tensors={
                "w": np.full((2, 3), number, np.float32),
                "c": np.full(2, 1 + 2j),
                "é": np.zeros((0, 4), np.int8),
            },
            reduced=("w", "b"),
            reductions=("mean", "l2"),
            matrix=np.full((2, 2), float(number)),
            shapes={"s": (3, 4)},
            scalars={"loss": 0.5},
        )
        for number in range(rng.randint(1, 5))
    ]
    return b"".join(bytes(part) for part in lay_out(steps, "worker_0").parts)


def damaged_segment(rng: Random, data: bytes) -> bytes:
    """Anywhere; or in its header, which says the right length for what it then is."""
    if rng.random() < 0.3:
        return damaged(rng, data)
    size = header_size(data, len(data))
    header = json.loads(data[8:size])
    if rng.random() < 0.5:
        described = json.loads(header["__metadata__"][METADATA_KEY])
        if rng.random() < 0.3:
            described["steps"] = _odd_steps(rng, described["steps"])
        text = damaged_json(rng, described).decode(errors="replace")
        header["__metadata__"][METADATA_KEY] = text
        written = json.dumps(header).encode()
    else:
        written = damaged_json(rng, _odd_entry(rng, header))
    length = rng.choice((len(written), len(written), len(written), *ODD_NUMBERS))
    return struct.pack("<Q", length % 2**64) + written + data[size:]


def _odd_steps(rng: Random, steps: list[Any]) -> list[Any]:
    numbers = sorted(rng.choice((0, 1, 2, 10**6, 10**11, 2**62, 2**63, 10**30)) for _ in steps)
    return [[number, *rest] for number, (_, *rest) in zip(numbers, steps, strict=True)]


def _odd_entry(rng: Random, header: dict[str, Any]) -> dict[str, Any]:
    """Another shape of the same size, or of none; another type."""
    key = rng.choice([key for key in header if key != "__metadata__"])
    entry = dict(header[key])
    match rng.randrange(4):
        case 0:
            entry["shape"] = rng.choice(
                (
                    [-n for n in entry["shape"]],
                    [*entry["shape"], 1],
                    [1] * 70,
                    [0, 2**62, 2**62],
                    [],
                )
            )
        case 1:
            entry["dtype"] = rng.choice(("F64", "F32", "U8", "BF16", "F8_E4M3", "C64", "X", ""))
        case 2:
            start, end = entry["data_offsets"]
            entry["data_offsets"] = rng.choice(([start + 1, end + 1], [end, start], [start, 2**64]))
        case _:
            entry = damaged_value(rng, entry)
    return {**header, key: entry}


def what_a_header_says_can_be_read(rng: Random, folder: Path) -> None:
    data = damaged_segment(rng, segment(rng, 0))
    try:
        contents = parse_header(data[: header_size(data[:8], len(data))], len(data))
    except TornSegment:
        return
    for run in contents.tensors:
        assert len(run.entry.view(data)) == len(run.steps)
    for cube in contents.reductions:
        shape = cube.entry.view(data).shape
        assert shape == (len(cube.steps), len(cube.tensors), len(cube.columns))


def a_damaged_segment_costs_itself(rng: Random, folder: Path) -> None:
    """Of three the middle one is damaged; all questions are answered from the others."""
    trial = _new_folder(folder)
    (trial / "collections").mkdir()
    (trial / "segments" / "worker_0").mkdir(parents=True)
    good = [segment(rng, 0), segment(rng, 10), segment(rng, 20)]
    for number, data in enumerate(good):
        name = f"1763251200123-{number:06d}-{10 * number:012d}.safetensors"
        data = damaged_segment(rng, data) if number == 1 else data
        (trial / "segments" / "worker_0" / name).write_bytes(data)
    (trial / "training_job_end.ts").touch()
    found = create_trial(str(trial))
    _ask_everything(found)
    assert {0, 20} <= {*found.steps()}
    assert found.tensor("w").value(0).shape == (2, 3)


def damaged_words_beside_the_segments(rng: Random, folder: Path) -> None:
    """Collections and anatomy."""
    trial = _new_folder(folder)
    for name in ("collections", "anatomy", "segments/worker_0"):
        (trial / name).mkdir(parents=True)
    (trial / "segments/worker_0/1763251200123-000000-000000000000.safetensors").write_bytes(
        segment(rng, 0)
    )
    collections = {
        "collections": {
            "mine": {"name": "mine", "include_regex": ["^w"], "tensor_names": ["c"]},
            "other": {"name": "other", "include_regex": [], "save_config": {"TRAIN": {}}},
        },
        "_meta": {"num_workers": 1},
    }
    anatomy = {
        "world_size": 1,
        "modules": [{"name": "a", "type": "Linear", "given": [1, 2]}],
        "parameters": [{"name": "a.weight", "shape": [2, 3], "numel": 6}],
        "optimizers": [{"index": 0, "type": "SGD", "groups": [{"lr": 0.1}]}],
        "broadcast": [[1, 2], [3]],
    }
    (trial / "collections/worker_0.json").write_bytes(damaged_json(rng, collections))
    (trial / "anatomy/worker_0.json").write_bytes(damaged_json(rng, anatomy))
    (trial / "training_job_end.ts").touch()
    found = create_trial(str(trial))
    _ask_everything(found)
    assert found.steps()
    known = read_anatomy(trial)
    assert known is None or isinstance(known.tables, frozenset)


def a_damaged_smdebug_trial_is_read(rng: Random, folder: Path) -> None:
    trial = _new_folder(folder)
    shutil.rmtree(trial)
    shutil.copytree(SMDEBUG_TRIAL, trial)
    _damage_smdebug(rng, trial)
    _ask_everything(create_trial(str(trial)))


def _damage_smdebug(rng: Random, trial: Path) -> None:
    indexes = sorted(trial.glob("index/*/*.json"))
    if rng.random() < 0.4:
        chosen = rng.choice([*indexes, *trial.glob("collections/*/*.json")])
        with open(chosen) as file:
            content = json.load(file)
        chosen.write_bytes(damaged_json(rng, content))
        return
    events = rng.choice(sorted(trial.glob("events/*/*.tfevents")))
    data = events.read_bytes()
    places = [*records.contents(data)]
    if rng.random() < 0.4 or not places:
        events.write_bytes(damaged(rng, data))
        return
    # The payload changes within sound frames, and the index knows how long it has become.
    start, end = rng.choice(places)
    frame = records.frame(damaged_message(rng, data[start:end]))
    events.write_bytes(data[: start - 12] + frame + data[end + 4 :])
    for index in indexes:
        content = json.loads(index.read_bytes())
        if content["meta"]["event_file_name"] == events.relative_to(trial).as_posix():
            for item in content["tensor_payload"]:
                if item["start_idx"] == start - 12:
                    item["length"] = len(frame)
                elif item["start_idx"] >= end:
                    item["start_idx"] += len(frame) - (end + 4 - (start - 12))
            index.write_text(json.dumps(content))


def _new_folder(folder: Path) -> Path:
    trial = folder / "trial"
    shutil.rmtree(trial, ignore_errors=True)
    trial.mkdir()
    return trial


def _ask_everything(trial: Trial) -> None:
    """What a person or a rule may ask; only smdebug's own exceptions are answers."""
    names = trial.tensor_names()
    tensor_table(trial)
    trial.to_pandas()
    trial.modes()
    trial.cube(names, "mean")
    trial.cube(names, "abs_l2", after_step=1)
    for name in [*trial.collections()]:
        trial.tensor_names(collection=name)
    for name in names:
        tensor = trial.tensor(name)
        for ask in (tensor.values, tensor.shapes, tensor.steps):
            _answered(ask)
        for step in tensor.steps()[:5]:
            for options in (tensor.value, tensor.shape, tensor.dtype, tensor.workers):
                _answered(options, step)
            _answered(tensor.reduction_values, step)


def _answered(ask: Callable[..., Any], *arguments: Any) -> None:
    try:
        ask(*arguments)
    except SMDebugError:
        return


def test_every_entry_of_a_valid_header_can_be_read():
    bounded.play(what_a_header_says_can_be_read, rounds(600))


def test_a_damaged_segment_costs_itself():
    bounded.play(a_damaged_segment_costs_itself, rounds(60))


def test_a_damaged_metadata_file_affects_only_itself():
    bounded.play(damaged_words_beside_the_segments, rounds(60))


def test_a_damaged_smdebug_trial_is_read(monkeypatch):
    monkeypatch.setenv("SMDEBUG_MISSING_EVENT_FILE_RETRY_LIMIT", "0")
    bounded.play(a_damaged_smdebug_trial_is_read, rounds(40))
