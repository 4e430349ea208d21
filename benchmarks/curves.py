"""Event files: writing them, reading them, and keeping them in object storage while they grow."""

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from threading import Event, Thread
from time import perf_counter, process_time
from typing import Any

from benchmarks.loopback_s3 import loopback_s3
from benchmarks.report import Comparison, Target
from trackside import SummaryWriter
from trackside.curves.chunks import parse
from trackside.curves.event_file import EventFile
from trackside.storage.locate import Location, locate
from trackside.supervisor.event_sync import EventSync
from trackside.supervisor.syncer import Syncer

NUM_RUNS, NUM_TAGS = 10, 20


def run(quick: bool) -> list[Comparison]:
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as scratch:
        root = Path(scratch)
        return [
            *writing(root, num_scalars=40_000 if quick else 200_000),
            *reading(root / "read", num_scalars=200_000 if quick else 5_000_000),
            uploading(root / "upload", num_flushes=100 if quick else 1800),
            freshness(root / "fresh", num_flushes=50 if quick else 1000),
        ]


def writing(root: Path, num_scalars: int) -> list[Comparison]:
    from torch.utils.tensorboard import SummaryWriter as TorchWriter

    peers: dict[str, tuple[Callable[[str], Any], int]] = {
        "trackside": (SummaryWriter, num_scalars),
        "torch SummaryWriter": (TorchWriter, num_scalars // 5),
    }
    cpu, caller = {}, {}
    for name, (make, count) in peers.items():
        writer = make(str(root / name))
        began, cpu_began = perf_counter(), process_time()
        for step in range(count // NUM_TAGS):
            for tag in range(NUM_TAGS):
                writer.add_scalar(f"tag_{tag:02d}/value", 0.5, step)
        caller[name] = (perf_counter() - began) / count * 1e6
        writer.close()
        cpu[name] = (process_time() - cpu_began) / count * 1e6
    peer = "torch SummaryWriter"
    return [
        Comparison("CPU for a scalar written", "µs", cpu, targets=(Target(peer, 5.0),)),
        Comparison("Time in the caller for a scalar", "µs", caller, targets=(Target(peer, 20.0),)),
    ]


def reading(root: Path, num_scalars: int) -> list[Comparison]:
    """From process start to all values as arrays. EventAccumulator reads one run of the ten."""
    write_runs(root, num_scalars)
    ours = "import sys; from trackside import curves; assert curves.read(sys.argv[1]).num_points"
    theirs = (
        "import sys; from tensorboard.backend.event_processing.event_accumulator import "
        "EventAccumulator as E; e = E(sys.argv[1], size_guidance={'scalars': 0}); e.Reload();"
        "[e.Scalars(tag) for tag in e.Tags()['scalars']]"
    )
    files = (
        "import sys, pathlib; "
        "[path.read_bytes() for path in pathlib.Path(sys.argv[1]).rglob('*tfevents*')]"
    )
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    rust = [str(num_scalars // NUM_RUNS // NUM_TAGS - 1), str(NUM_RUNS * NUM_TAGS)]
    peer = ["-m", "benchmarks.tensorboard_peer", str(root), *rust]
    seconds = {
        "trackside": min(timed(ours, root) for _ in range(3)),
        "EventAccumulator": NUM_RUNS * timed(theirs, root / "run_00"),
        "TensorBoard with its Rust server": timed_command([*peer, "http"]),
        "TensorBoard's Rust server alone": timed_command([*peer, "grpc"]),
        "reading the bytes alone": min(timed(files, root) for _ in range(3)),
    }
    return [
        Comparison(
            "Reading every scalar",
            "seconds",
            seconds,
            targets=(
                Target("EventAccumulator", 200.0),
                Target("TensorBoard with its Rust server", 20.0),
                Target("reading the bytes alone", 0.2),
            ),
            notes=(
                f"{num_scalars:,} scalars of {NUM_RUNS} runs and {NUM_TAGS} tags, "
                f"{size / 1e6:,.0f} MB: ours {size / 1e6 / seconds['trackside']:,.0f} MB/s. "
                "Python's own start is in every figure; EventAccumulator's is ten times that of "
                "one run. TensorBoard hands its points out as JSON, its server alone over gRPC.",
            ),
        )
    ]


def timed(code: str, folder: Path) -> float:
    return timed_command(["-c", code, str(folder)])


def timed_command(arguments: list[str]) -> float:
    began = perf_counter()
    subprocess.run([sys.executable, *arguments], check=True)
    return perf_counter() - began


def write_runs(root: Path, num_scalars: int) -> None:
    rng = random.Random(1)
    for number in range(NUM_RUNS):
        file = EventFile(root / f"run_{number:02d}")
        for step in range(num_scalars // NUM_RUNS // NUM_TAGS):
            for tag in range(NUM_TAGS):
                file.add((f"tag_{tag:02d}/value", rng.random(), step, 1.7e9 + step))
            if step % 1000 == 0:
                file.flush()
        file.close()


def uploading(root: Path, num_flushes: int) -> Comparison:
    """A log that is flushed every two seconds for an hour, replayed without the waiting."""
    sync = EventSync("bench", root / "source", locate(root / "bucket", home=root), "algo-1")
    file = EventFile(root / "source")
    whole_bytes = 0
    for flush in range(num_flushes):
        for number in range(40):
            file.add((f"tag_{number % NUM_TAGS:02d}/value", 0.5, flush, 1.7e9 + flush))
        file.flush()
        sync.tick()
        whole_bytes += file.path.stat().st_size
    file.close()
    sync.tick(last=True)
    written = file.path.stat().st_size
    return Comparison(
        "Bytes uploaded for a byte written",
        "bytes",
        {
            "trackside": sync.state.uploaded_bytes / written,
            "the whole file every 2 s": whole_bytes / written,
            "the allowed 1.05": 1.05,
        },
        targets=(Target("the allowed 1.05", 1.0),),
        notes=(f"{num_flushes} flushes, {written:,} bytes.",),
    )


def freshness(root: Path, num_flushes: int) -> Comparison:
    """From a flush to an object that another client sees, in an S3 server on loopback."""
    with loopback_s3() as store:
        to = locate(f"{store}/tb", home=root)
        sync = EventSync("bench", root / "source", to, "algo-1")
        syncer = Syncer([sync])
        syncer.start()
        watcher = Watcher(to)
        files = [EventFile(root / "source" / "run") for _ in range(NUM_RUNS)]
        rng = random.Random(2)
        for step in range(num_flushes):
            time.sleep(rng.random() * 0.2)
            file = rng.choice(files)
            file.add(("loss", 0.5, step, time.time()))
            file.flush()
            watcher.expect(file.path.name, file.path.stat().st_size)
        lags = watcher.finish()
        problem = syncer.finish(time.monotonic() + 10.0, waiting=lambda error: None)
        assert not problem, problem
    return Comparison(
        "From flush to visible in the store, 99 of 100",
        "seconds",
        {"trackside": quantiles(lags, n=100)[98], "the allowed 2 s": 2.0},
        targets=(Target("the allowed 2 s", 1.0),),
        notes=(
            f"Median {median(lags):.2f} s, longest {max(lags):.2f} s, over {len(lags)} flushes of "
            f"{NUM_RUNS} writers, into moto's S3 on loopback; a second client lists it every "
            f"{Watcher.PAUSE_SECONDS * 1000:.0f} ms.",
        ),
    )


class Watcher:
    """Lists what is new in the store again and again, and notes when each flush was there."""

    PAUSE_SECONDS = 0.02

    def __init__(self, place: Location) -> None:
        self._place = place.child("run")
        self._expected: list[tuple[str, int, float]] = []
        self._lags: list[float] = []
        self._is_over = Event()
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()

    def expect(self, name: str, size: int) -> None:
        self._expected.append((name, size, time.monotonic()))

    def finish(self) -> list[float]:
        self._is_over.set()
        self._thread.join(30.0)
        assert not self._expected, f"{len(self._expected)} flushes never arrived"
        return self._lags

    def _watch(self) -> None:
        ends: dict[str, int] = {}
        after = ""
        while self._expected or not self._is_over.wait(self.PAUSE_SECONDS):
            for entry in self._place.store.list(self._place.key, after):
                chunk = parse(entry.key)
                ends[chunk.source.name] = chunk.offset + entry.size_bytes
                after = entry.key
            seen = time.monotonic()
            for one in [*self._expected]:
                name, size, flushed = one
                if ends.get(name, 0) >= size:
                    self._lags.append(seen - flushed)
                    self._expected.remove(one)
            time.sleep(self.PAUSE_SECONDS)
