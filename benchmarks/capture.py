"""What watching costs: step time with a hook over step time without, in four modes.

Two trainings of the same kind in one process take turns, block by block, so that both meet the
same machine. A block is timed as a whole: what the writer thread takes from training counts. The
peer, smdebug 1.0.34, is measured in the same way in an environment of its own.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.report import Comparison, Target
from benchmarks.workloads import WORKLOADS, Training

PEERS = Path(__file__).parent / ".peers"
SMDEBUG = ("smdebug==1.0.34", "numpy<2", "protobuf==3.20.3", "setuptools<81", "torch==2.13.0")
WATCHED = ["weights", "biases", "gradients"]
FIVE = {"reductions": ["min", "max", "mean", "std"], "norms": ["l2"]}
BLOCK_SECONDS = 2.0

MODES: dict[str, tuple[dict[str, Any], float]] = {
    "default (losses every 500 steps)": ({}, 1.01),
    "weights, gradients, losses every 10 steps, raw": (
        {"include_collections": WATCHED, "every": 10},
        1.03,
    ),
    "five reductions of every weight and gradient, every step": (
        {"include_collections": WATCHED, "every": 1, "five": True},
        1.05,
    ),
    "everything with activations, raw, every step": ({"save_all": True, "every": 1}, 1.3),
}
"""Mode to its settings and to the most a step may cost, as a multiple of one without a hook."""


def run(quick: bool) -> list[Comparison]:
    torch.set_num_threads(1)  # the second core is the writer's; two compute threads hide its cost
    rounds = 2 if quick else 6
    peer = None if quick else _smdebug_python()
    return [_compare(workload, mode, rounds, peer) for workload in WORKLOADS for mode in MODES]


def measure(workload: str, mode: str, rounds: int, make_hook: Callable[..., Any]) -> dict[str, Any]:
    """Mean milliseconds a step, without and with the hook; also run by the peer's interpreter."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        out_dir = Path(folder) / "trial"
        hook = make_hook(str(out_dir), MODES[mode][0])
        plain, hooked = Training(workload), Training(workload, hook)
        for _ in range(3):
            plain.step()
            hooked.step()
        count = _steps_per_block(plain)
        figures: dict[str, list[float]] = {"plain": [], "hooked": []}
        for _ in range(rounds):
            figures["plain"].append(_block(plain, count))
            figures["hooked"].append(_block(hooked, count))
            _wait_until_quiet(out_dir)
        hook.close()
    ratios = [h / p for p, h in zip(figures["plain"], figures["hooked"], strict=True)]
    return {
        "plain": statistics.median(figures["plain"]),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "steps": count,
    }


def trackside_hook(out_dir: str, settings: dict[str, Any]) -> Any:
    from trackside.capture import Hook, ReductionConfig, SaveConfig

    return _make(Hook, ReductionConfig, SaveConfig, out_dir, settings)


def smdebug_hook(out_dir: str, settings: dict[str, Any]) -> Any:
    from smdebug.pytorch import Hook, ReductionConfig, SaveConfig  # type: ignore[import-not-found]

    return _make(Hook, ReductionConfig, SaveConfig, out_dir, settings)


def _make(hook: Any, reduction: Any, save: Any, out_dir: str, settings: dict[str, Any]) -> Any:
    return hook(
        out_dir=out_dir,
        include_collections=settings.get("include_collections"),
        save_all=settings.get("save_all", False),
        save_config=save(save_interval=settings["every"]) if "every" in settings else None,
        reduction_config=reduction(**FIVE) if "five" in settings else None,
    )


def _compare(workload: str, mode: str, rounds: int, peer: Path | None) -> Comparison:
    found = measure(workload, mode, rounds, trackside_hook)
    limit = MODES[mode][1]
    ours, plain = found["plain"] * found["ratio"], found["plain"]
    figures = {"trackside": ours, "no hook": plain}
    notes = [
        f"Ratio {found['ratio']:.3f} (rounds: {', '.join(f'{r:.3f}' for r in found['ratios'])}), "
        f"{found['steps']} steps a block."
    ]
    if peer is not None:
        theirs = _measure_peer(peer, workload, mode)
        figures["smdebug 1.0.34"] = plain * theirs["ratio"]
        added = (ours - plain, plain * (theirs["ratio"] - 1))
        notes.append(f"Added: {added[0]:.2f} ms ours, {added[1]:.2f} ms smdebug's.")
    return Comparison(
        title=f"{workload}: {mode}",
        unit="ms a step",
        figures=figures,
        targets=(Target("no hook", 1 / limit),),
        notes=tuple(notes),
    )


def _steps_per_block(training: Training) -> int:
    started = time.perf_counter()
    training.step()
    seconds = time.perf_counter() - started
    return max(10, round(BLOCK_SECONDS / seconds / 10) * 10)


def _block(training: Training, count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        training.step()
    return (time.perf_counter() - started) / count * 1000


def _wait_until_quiet(folder: Path) -> None:
    """What the writer still has to do is not the other training's to pay."""
    size, deadline = -1, time.monotonic() + 20
    while time.monotonic() < deadline:
        now = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if now == size:
            return
        size = now
        time.sleep(0.3)


def _measure_peer(python: Path, workload: str, mode: str) -> dict[str, Any]:
    code = (
        "import json; from benchmarks.capture import measure, smdebug_hook; "
        f"print(json.dumps(measure({workload!r}, {mode!r}, 2, smdebug_hook)))"
    )
    ended = subprocess.run(
        [str(python), "-c", code],
        cwd=Path(__file__).parents[1],
        env={"SMDEBUG_LOG_LEVEL": "off", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    measured: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return measured


def _smdebug_python() -> Path | None:
    folder = PEERS / "smdebug-torch"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        installed = subprocess.run([str(python), "-m", "pip", "install", "-qq", *SMDEBUG])
        if installed.returncode != 0:
            print("smdebug could not be installed; it is left out.", file=sys.stderr)
            return None
    return python
