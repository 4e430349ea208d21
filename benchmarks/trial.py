"""How fast a trial is read: all values of 200 tensors over 1,000 steps, ours and two peers'.

The same values lie in one flat file for `np.memmap` and in a trial that smdebug 1.0.34 wrote.
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.report import Comparison, Target
from benchmarks.smdebug_peer import smdebug_environment, smdebug_python
from trackside.capture.trial import create_trial
from trackside.capture.writing.segments import StepRecord
from trackside.capture.writing.writer import SegmentWriter

NUM_TENSORS = 200
ELEMENTS = 256
ROUNDS = 3
"""The best of these counts: the machine's other work only ever makes a program slower."""

WRITE_WITH_SMDEBUG = """
import sys
import numpy as np
from smdebug.core.modes import ModeKeys
from smdebug.core.writer import FileWriter
flat, out, steps, tensors, size = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
values = np.memmap(flat, "<f4", "r", shape=(steps, tensors, size))
for step in range(steps):
    writer = FileWriter(trial_dir=out, step=step, worker="worker_0")
    for i, value in enumerate(values[step]):
        writer.write_tensor(
            tdata=np.array(value), tname=f"gradient/Net_layer{i}.weight",
            mode=ModeKeys.TRAIN, mode_step=step,
        )
    writer.close()
"""

READ_WITH_SMDEBUG = """
import sys, time
from smdebug.trials import create_trial
start = time.perf_counter()
trial = create_trial(sys.argv[1])
for name in trial.tensor_names():
    trial.tensor(name).values()
print("seconds", time.perf_counter() - start)
"""


def run(quick: bool) -> list[Comparison]:
    num_steps = 100 if quick else 1_000
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as name:
        folder = Path(name)
        _write(folder, num_steps)
        return [
            _values(folder, num_steps),
            _touched(folder, num_steps),
            _cube(folder, num_steps),
            _stored_cube(folder, num_steps),
        ]


def _values(folder: Path, num_steps: int) -> Comparison:
    """Arrays in hand: what `values()` gives. Only smdebug has looked at the bytes by then."""

    def ours() -> None:
        trial = create_trial(folder / "trial", home=folder)
        for name in trial.tensor_names():
            trial.tensor(name).values()

    def memmap() -> None:
        values = _mapped(folder, num_steps)
        for tensor in range(NUM_TENSORS):
            {step: values[step, tensor] for step in range(num_steps)}

    figures = {"trackside": _best(ours), "np.memmap": _best(memmap)}
    targets = [Target("np.memmap", 0.5)]
    smdebug = _smdebug_seconds(folder, num_steps)
    if smdebug is not None:
        figures["smdebug 1.0.34"] = smdebug
        targets.append(Target("smdebug 1.0.34", 20))
    return Comparison(
        f"Open a trial and read all values of {NUM_TENSORS} tensors over {num_steps:,} steps",
        "seconds",
        figures,
        targets=tuple(targets),
        notes=("smdebug runs with a compiled protobuf.",),
    )


def _touched(folder: Path, num_steps: int) -> Comparison:
    """Every byte looked at: the sum of each value."""

    def ours() -> None:
        trial = create_trial(folder / "trial", home=folder)
        for name in trial.tensor_names():
            for value in trial.tensor(name).values().values():
                value.sum()

    def memmap() -> None:
        values = _mapped(folder, num_steps)
        for tensor in range(NUM_TENSORS):
            for step in range(num_steps):
                values[step, tensor].sum()

    return Comparison(
        f"Sum each of {NUM_TENSORS * num_steps:,} values of {4 * ELEMENTS} bytes",
        "seconds",
        {
            "trackside": _best(ours),
            "np.memmap": _best(memmap),
        },
        targets=(Target("np.memmap", 0.5),),
    )


def _cube(folder: Path, num_steps: int) -> Comparison:
    """The same sums in one call, of a trial that is open, as a rule's is."""
    trial = create_trial(folder / "trial", home=folder)

    def whole() -> None:
        _mapped(folder, num_steps).sum(axis=2, dtype=np.float64)

    return Comparison(
        f"Sum each of {NUM_TENSORS * num_steps:,} values at once",
        "seconds",
        {"trackside": _best(lambda: trial.cube(reduction="sum")), "np.memmap": _best(whole)},
        targets=(Target("np.memmap", 0.5),),
    )


def _stored_cube(folder: Path, num_steps: int) -> Comparison:
    """One of five stored reductions of all tensors at all steps, and of the last tenth alone."""
    shape = (num_steps, NUM_TENSORS, 5)
    values = np.random.default_rng(0).standard_normal(shape)
    values.tofile(folder / "reductions")
    names = tuple(f"gradient/Net_layer{i}.weight" for i in range(NUM_TENSORS))
    columns = ("l2", "max", "mean", "min", "std")
    with SegmentWriter(str(folder / "reduced"), "worker_0", home=folder) as writer:
        writer.put_collections({"collections": {}})
        for step, matrix in enumerate(values):
            writer.add(StepRecord(step, "TRAIN", step, time.time(), {}, names, columns, matrix))
    trial = create_trial(folder / "reduced", home=folder)

    def memmap() -> None:
        np.array(np.memmap(folder / "reductions", "<f8", "r", shape=shape)[:, :, 0])

    return Comparison(
        f"Read one stored reduction of {NUM_TENSORS} tensors over {num_steps:,} steps",
        "seconds",
        {
            "trackside": _best(lambda: trial.cube(reduction="l2")),
            "trackside, the last tenth": _best(
                lambda: trial.cube(reduction="l2", after_step=num_steps * 9 // 10)
            ),
            "np.memmap": _best(memmap),
        },
        targets=(Target("np.memmap", 0.5),),
    )


def _write(folder: Path, num_steps: int) -> None:
    shape = (num_steps, NUM_TENSORS, ELEMENTS)
    flat = np.memmap(folder / "flat", "<f4", "w+", shape=shape)
    random = np.random.default_rng(0)
    with SegmentWriter(str(folder / "trial"), "worker_0", home=folder) as writer:
        writer.put_collections({"collections": {}})
        for step in range(num_steps):
            flat[step] = values = random.standard_normal(shape[1:], dtype=np.float32)
            named = {f"gradient/Net_layer{i}.weight": value for i, value in enumerate(values)}
            writer.add(StepRecord(step, "TRAIN", step, time.time(), tensors=named))
    flat.flush()


def _mapped(folder: Path, num_steps: int) -> "np.memmap[tuple[int, ...], np.dtype[np.float32]]":
    return np.memmap(folder / "flat", "<f4", "r", shape=(num_steps, NUM_TENSORS, ELEMENTS))


def _smdebug_seconds(folder: Path, num_steps: int) -> float | None:
    """None where its environment cannot be made: it needs packages of another age."""
    python = smdebug_python()
    if python is None:
        return None
    out = folder / "smdebug"
    sizes = [str(number) for number in (num_steps, NUM_TENSORS, ELEMENTS)]
    command = [str(python), "-c", WRITE_WITH_SMDEBUG, str(folder / "flat"), str(out), *sizes]
    subprocess.run(command, check=True, capture_output=True, env=smdebug_environment())
    collections = out / "collections" / "000000000" / "worker_0_collections.json"
    collections.parent.mkdir(parents=True)
    collections.write_text(json.dumps({"collections": {}, "_meta": {"num_workers": 1}}))
    (out / "training_job_end.ts").touch()
    done = subprocess.run(
        [str(python), "-c", READ_WITH_SMDEBUG, str(out)],
        check=True,
        capture_output=True,
        text=True,
        env=smdebug_environment(),
    )
    return float(done.stdout.rpartition("seconds ")[2])


def _best(read: Callable[[], None]) -> float:
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        read()
        times.append(time.perf_counter() - start)
    return min(times)
