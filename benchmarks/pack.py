"""How fast a model folder becomes model.tar.gz, and how small: against gzip level 6 and pigz."""

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy
from isal import igzip

from benchmarks.report import Comparison, Target
from trackside.files.archive import Source, pack
from trackside.files.deflate import Piece, gzipped

MIB = 1 << 20
LAYER_BYTES = 32 * MIB
KIND_BYTES = 8 * MIB


def run(quick: bool) -> list[Comparison]:
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as scratch:
        model, target = Path(scratch, "model"), Path(scratch, "model.tar.gz")
        model.mkdir()
        write_model(model, layers=2 if quick else 30)
        size = sum(file.stat().st_size for file in model.iterdir())
        programs = {"trackside": with_trackside, "gzip level 6 (tarfile)": with_tarfile}
        notes = [f"A model of {size / MIB:,.0f} MiB in {len(list(model.iterdir()))} files."]
        if shutil.which("pigz"):
            programs["pigz -p2"] = with_pigz
        else:
            notes.append("pigz is not installed, so its row is left out.")
        programs["ISA-L level 1, one thread"] = with_one_thread
        seconds, sizes = measure(programs, model, target, rounds=1 if quick else 2)
    return [
        Comparison(
            title="Packing model.tar.gz",
            unit="seconds",
            figures=seconds,
            targets=tuple(
                Target(peer, ratio)
                for peer, ratio in (("gzip level 6 (tarfile)", 8.0), ("pigz -p2", 4.0))
                if peer in seconds
            ),
            notes=tuple(notes),
        ),
        Comparison(
            title="Size of model.tar.gz",
            unit="MiB",
            figures={name: size / MIB for name, size in sizes.items()},
            targets=(Target("gzip level 6 (tarfile)", 0.98),),
            notes=size_notes(),
        ),
    ]


def write_model(folder: Path, layers: int) -> None:
    """What training leaves: weights as drawn and trained, some never touched, and text."""
    rng = numpy.random.default_rng(7)
    with (folder / "model.safetensors").open("wb") as file:
        for _ in range(layers):
            file.write(rng.normal(0, 0.02, LAYER_BYTES // 4).astype("<f4").tobytes())
        file.write(bytes(LAYER_BYTES))
    half = rng.normal(0, 0.02, LAYER_BYTES // 2).astype("<f4").view("<u4") >> 16
    (folder / "adapter.bf16").write_bytes(half.astype("<u2").tobytes())
    (folder / "vocab.json").write_text(json.dumps(vocabulary(200_000)))
    (folder / "history.jsonl").write_text(history(40_000))
    (folder / "preview.png").write_bytes(rng.bytes(4 * MIB))


def vocabulary(count: int) -> dict[str, int]:
    rng = numpy.random.default_rng(8)
    letters = numpy.array(list("etaoinshrdlucmfwypvbgkqjxz"))
    lengths = rng.integers(2, 11, count)
    return {"".join(rng.choice(letters, length)): row for row, length in enumerate(lengths)}


def history(steps: int) -> str:
    losses = numpy.random.default_rng(9).random(steps)
    return "".join(
        json.dumps({"step": step, "loss": round(float(loss), 6), "lr": 0.001}) + "\n"
        for step, loss in enumerate(losses)
    )


def measure(
    programs: dict[str, Callable[[Path, Path], None]], model: Path, target: Path, rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """The fastest of the rounds, one program after the other in each; slow ones run once."""
    seconds: dict[str, float] = {}
    sizes: dict[str, float] = {}
    for _ in range(rounds):
        for name, program in programs.items():
            if seconds.get(name, 0.0) > 15:
                continue
            target.unlink(missing_ok=True)
            started = perf_counter()
            program(model, target)
            taken = perf_counter() - started
            seconds[name] = min(taken, seconds.get(name, taken))
            sizes[name] = float(target.stat().st_size)
    return seconds, sizes


def with_trackside(model: Path, target: Path) -> None:
    with target.open("wb") as file:
        for chunk in pack([Source(model)]):
            file.write(chunk)


def with_tarfile(model: Path, target: Path) -> None:
    with tarfile.open(target, "w:gz", compresslevel=6) as tar:
        tar.add(model, arcname=".")


def with_one_thread(model: Path, target: Path) -> None:
    with igzip.open(target, "wb", compresslevel=1) as file, tarfile.open(None, "w|", file) as tar:
        tar.add(model, arcname=".")


def with_pigz(model: Path, target: Path) -> None:
    with target.open("wb") as file:
        tar = subprocess.Popen(["tar", "-cf", "-", "-C", model, "."], stdout=subprocess.PIPE)
        subprocess.run(["pigz", "-p2"], stdin=tar.stdout, stdout=file, check=True)
        if tar.wait():
            raise RuntimeError("tar ended with an error")


def size_notes() -> tuple[str, ...]:
    """Per cent of level 6's size for one kind of content alone, in a small and in a large file."""
    shown = []
    for kind, data in kinds().items():
        reference = len(zlib.compress(data, 6))
        blocks = [data[start : start + MIB] for start in range(0, len(data), MIB)]
        small, large = (
            sum(map(len, gzipped(Piece(block, careful) for block in blocks))) / reference
            for careful in (True, False)
        )
        shown.append(f"{kind} {small:.1%} / {large:.1%}")
    return (
        "Size as a part of level 6's, in files up to 64 MiB / in larger ones, which are always "
        f"packed at full speed: {', '.join(shown)}.",
    )


def kinds() -> dict[str, bytes]:
    rng = numpy.random.default_rng(10)
    weights = rng.normal(0, 0.02, KIND_BYTES // 4).astype("<f4")
    return {
        "float32": weights.tobytes(),
        "bfloat16": (weights.view("<u4") >> 16).astype("<u2").tobytes(),
        "float16": weights.astype("<f2").tobytes(),
        "int8": (weights * 1000).astype("i1").tobytes(),
        "half pruned float32": numpy.where(rng.random(len(weights)) < 0.5, 0, weights).tobytes(),
        "vocabulary": json.dumps(vocabulary(100_000)).encode(),
        "metrics": history(40_000).encode(),
        "Python source": b"".join(
            Path(os.path.dirname(json.__file__), "..", name).read_bytes()
            for name in ("argparse.py", "tarfile.py", "typing.py", "inspect.py", "pickle.py")
        ),
    }
