"""What a container sandbox adds to the start and the end of a container, against `docker run`."""

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.report import Comparison, Target
from trackside.containers.engine_client import find_engine
from trackside.supervisor.container_request import ContainerPlan
from trackside.supervisor.container_sandbox import ContainerSandbox
from trackside.supervisor.sandbox import Running, SandboxPlan

IMAGE = "trackside-test/python"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
SOCKET = CACHE / "trackside-tests" / "docker" / "docker.sock"
"""Of the engine that .ci/docker starts, which has the image."""
PLAIN = "docker run"
LIMIT = "the most it may add"
MOST_MS = 500.0
PROGRAM = "import time; now = time.time_ns(); open('/opt/ml/stamp', 'w').write(str(now))"


def run(quick: bool = False) -> Iterator[Comparison]:
    num_runs = 3 if quick else 10
    engine = f"unix://{SOCKET}" if SOCKET.exists() else find_engine(os.environ)
    ways: dict[str, Callable[[Path], None]] = {
        "trackside": lambda folder: _run_ours(engine, folder),
        PLAIN: lambda folder: _run_plain(engine, folder),
    }
    first: dict[str, list[float]] = {name: [] for name in ways}
    whole: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(num_runs + 1):
        for name, way in ways.items():
            line, end = _measure(way)
            if turn:  # the first one fills the caches
                first[name].append(line)
                whole[name].append(end)
    yield _comparison("to the script's first line", first, num_runs)
    yield _comparison("until it is removed", whole, num_runs)


def _comparison(what: str, times: dict[str, list[float]], num_runs: int) -> Comparison:
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    return Comparison(
        title=f"Container from its start {what}: added to `docker run`",
        unit="ms",
        figures={"trackside": medians["trackside"] - medians[PLAIN], LIMIT: MOST_MS},
        targets=(Target(LIMIT, 1.0),),
        notes=(
            f"Medians of {num_runs} runs each, taken in turn, with one image: "
            f"{medians['trackside']:.0f} ms, and {medians[PLAIN]:.0f} ms by `docker run --rm`. "
            "Ours has our own pipe for the log, init, labels, limits and records; both remove the "
            "container.",
        ),
    )


def _measure(way: Callable[[Path], None]) -> tuple[float, float]:
    """Milliseconds to the first line, and to the end."""
    with tempfile.TemporaryDirectory() as folder:
        ml = Path(folder, "ml")
        ml.mkdir()
        began = time.time_ns()
        way(Path(folder))
        ended = time.time_ns()
        first = int((ml / "stamp").read_text())
        return (first - began) / 1e6, (ended - began) / 1e6


def _run_ours(engine: str, folder: Path) -> None:
    sandbox = ContainerSandbox(ContainerPlan(image=IMAGE, engine=engine, network="none"))
    plan = SandboxPlan(
        folder=folder / "sandbox",
        ml=folder / "ml",
        command=["python3", "-c", PROGRAM],
        log=folder / "log",
        nonce=f"benchmark-{time.monotonic_ns()}",
    )
    sandbox.start(plan)
    while sandbox.poll(plan) == Running():
        time.sleep(0.002)
    _wait_for_removal(folder / "sandbox" / "output")


def _wait_for_removal(pipe: Path) -> None:
    while pipe.exists():
        time.sleep(0.002)


def _run_plain(engine: str, folder: Path) -> None:
    command = ["docker", "--host", engine, "run", "--rm", "--network", "none"]
    command += ["--volume", f"{folder / 'ml'}:/opt/ml", IMAGE, "python3", "-c", PROGRAM]
    subprocess.run(command, check=True)
