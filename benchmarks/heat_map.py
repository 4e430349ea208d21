"""How fast a heat map of 1,000 layers over 4,000 steps is made of a trial's stored figures, as the
page asks for it: opened for the first time, drawn again with another figure, and zoomed.

The same figures lie in one flat file for numpy and matplotlib.
"""

import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.report import Comparison, Target
from trackside.capture.trial import Trial, create_trial
from trackside.capture.writing.segments import StepRecord
from trackside.capture.writing.writer import SegmentWriter
from trackside.views.tensors.heat_map import HeatRequest, heat_frame

NUM_LAYERS = 1_000
COLUMNS = ("abs_mean", "l2", "max", "min")
ROUNDS = 5
"""The best of these counts: the machine's other work only ever makes a program slower."""


def run(quick: bool) -> list[Comparison]:
    num_steps = 400 if quick else 4_000
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as name:
        folder = Path(name)
        _write(folder, num_steps)
        return [_first(folder, num_steps), _again(folder, num_steps)]


def _first(folder: Path, num_steps: int) -> Comparison:
    def ours() -> None:
        trial = create_trial(folder / "trial", home=folder)
        trial.dynamic_refresh = False
        _drawn(trial, "l2")

    return Comparison(
        f"Open a trial and draw {NUM_LAYERS:,} layers over {num_steps:,} steps",
        "seconds",
        {
            "trackside": _best(ours),
            "numpy, every cell": _best(lambda: _levels(folder, num_steps)),
            "matplotlib": _best(lambda: _picture(folder, num_steps)),
        },
        targets=(Target("matplotlib", 3.0),),
    )


def _again(folder: Path, num_steps: int) -> Comparison:
    trial = create_trial(folder / "trial", home=folder)
    trial.dynamic_refresh = False
    middle = num_steps // 2

    def zoomed() -> None:
        _drawn(trial, "l2", first=middle, last=middle + num_steps // 10)

    return Comparison(
        f"Draw another figure of {NUM_LAYERS:,} layers over {num_steps:,} steps",
        "seconds",
        {
            "trackside": _best(lambda: _drawn(trial, "max")),
            "trackside, a tenth of the steps": _best(zoomed),
            "numpy, every cell": _best(lambda: _levels(folder, num_steps)),
            "matplotlib": _best(lambda: _picture(folder, num_steps)),
        },
        targets=(Target("matplotlib", 5.0),),
    )


def _drawn(trial: Trial, figure: str, **part: float) -> None:
    request = HeatRequest("gradients", figure, **part)  # type: ignore[arg-type]
    assert len(heat_frame(trial, request)) > NUM_LAYERS


def _levels(folder: Path, num_steps: int) -> None:
    """The least that can be done: a byte for each cell of a file that is one array."""
    levels = np.log10(np.abs(_mapped(folder, num_steps)[:, :, 1].astype(np.float64)))
    low, high = levels.min(), levels.max()
    ((levels - low) * (250 / (high - low))).astype(np.uint8).T.tobytes()


def _picture(folder: Path, num_steps: int) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 8))
    axes = figure.subplots()
    axes.imshow(np.log10(np.abs(_mapped(folder, num_steps)[:, :, 1].T)), aspect="auto")
    figure.savefig(io.BytesIO(), format="png")


def _write(folder: Path, num_steps: int) -> None:
    names = tuple(
        f"gradient/layers.{number // 4}.{'qkvo'[number % 4]}.weight" for number in range(NUM_LAYERS)
    )
    shape = (num_steps, NUM_LAYERS, len(COLUMNS))
    flat = np.memmap(folder / "flat", "<f4", "w+", shape=shape)
    rng = np.random.default_rng(0)
    collections = {"gradients": {"name": "gradients", "include_regex": ["^gradient/"]}}
    with SegmentWriter(str(folder / "trial"), "worker_0", home=folder) as writer:
        writer.put_collections({"collections": collections})
        for step in range(num_steps):
            flat[step] = matrix = np.exp(rng.normal(-5, 2, shape[1:])).astype(np.float32)
            writer.add(StepRecord(step, "TRAIN", step, time.time(), {}, names, COLUMNS, matrix))
    flat.flush()


def _mapped(folder: Path, num_steps: int) -> "np.memmap[tuple[int, ...], np.dtype[np.float32]]":
    return np.memmap(folder / "flat", "<f4", "r", shape=(num_steps, NUM_LAYERS, len(COLUMNS)))


def _best(work: Callable[[], object]) -> float:
    figures = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        figures.append(time.perf_counter() - start)
    return min(figures)
