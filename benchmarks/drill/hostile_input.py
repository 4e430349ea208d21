"""Names, archives and locations that mean harm (cases 33, 34, 35, 41)."""

import gzip
import io
import os
import platform
import shutil
import socket
import tarfile
import threading
import time
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from benchmarks.drill.case import Case, Result, check, held
from benchmarks.drill.ground import Ground
from benchmarks.drill.job import DrillJob
from benchmarks.drill.server import Server
from benchmarks.training_request import channel_of, training_request
from trackside.api.keys import AccessKeys, Rights

_NAMES = (
    "../escape",
    "a/../../escape",
    "/tmp/escape",
    "a/b",
    "a\0b",
    ".",
    "..",
    ".hidden",
    "a" * 300,
    "\u202eevil\u202c",
    "a b",
    "a\nb",
    "",
    "-a",
    "C:\\escape",
    "%2e%2e%2fescape",
)


def hostile_names(ground: Ground) -> Result:
    """400 in SageMaker's form for every one, and nothing is made outside the jobs' folder."""
    server = ground.server()
    sagemaker = server.client("sagemaker", parameter_validation=False)
    before = _files(ground)
    refused = 0
    for name in _NAMES:
        calls = [
            lambda name=name: sagemaker.create_training_job(**training_request(name)),
            lambda name=name: sagemaker.describe_training_job(TrainingJobName=name),
            lambda name=name: sagemaker.stop_training_job(TrainingJobName=name),
            lambda name=name: sagemaker.create_training_job(
                **training_request("channels", InputDataConfig=[channel_of(name)])
            ),
        ]
        for number, call in enumerate(calls):
            if number == 3 and name in (".", "..", ".hidden", "-a"):
                continue  # a channel may be called so; it is looked at below
            _refused(call, f"{name[:30]!r} in call {number}")
            refused += 1
        if "\0" in name:
            continue  # no command line can have it
        done = ground.trackside("run", "train.py", "--name", name, expect=None)
        check(done.returncode == 2, f"`run --name {name[:30]!r}` exited {done.returncode}")
    check(_files(ground) == before, f"made: {sorted(_files(ground) - before)}")
    metrics, channels = ("../../escape", "/abs/escape", "a" * 255, "\u202eevil"), (".", "..")
    job = _odd_job(ground, server, metrics)
    made = sorted(path for path in _files(ground) - before if not _is_expected(path, job))
    check(not made, f"a job made files outside its places: {made}")
    for channel in channels:
        _refused_or_inside(ground, sagemaker, channel)
    return held(
        f"{refused} calls with {len(_NAMES)} names refused, {len(metrics)} metric names taken as "
        f"text, 0 files outside"
    )


def _odd_job(ground: Ground, server: Server, metrics: tuple[str, ...]) -> DrillJob:
    options = [word for name in metrics for word in ("--metric", f"{name}=loss: ([0-9.]+)")]
    job = ground.submit("print('loss: 0.5', flush=True)", *options, at=server)
    history = job.wait_over()
    check(job.status == "Completed", f"{job.status}: {history.failure_reason}")
    return job


def _refused_or_inside(ground: Ground, sagemaker: Any, channel: str) -> None:
    before = _files(ground)
    try:
        sagemaker.create_training_job(
            **training_request("odd", InputDataConfig=[channel_of(channel)])
        )
    except ClientError as error:
        check(error.response["Error"]["Code"] == "ValidationException", str(error))
        check(_files(ground) == before, f"channel {channel!r} made files")
    else:
        ground.job("odd").wait_over()
        check(not (ground.home / "jobs" / "escape").exists(), f"channel {channel!r} escaped")


def _refused(call: Any, what: str) -> None:
    try:
        call()
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        code = error.response["Error"]["Code"]
        check((status, code) == (400, "ValidationException"), f"{what}: {status} {code}")
    else:
        check(False, f"{what} was accepted")


def _files(ground: Ground) -> set[str]:
    """But for what the server keeps for itself, which changes while it runs."""
    found = set()
    for root, folders, files in os.walk(ground.folder):
        if Path(root) == ground.home:
            folders[:] = [name for name in folders if name != "server"]
        found.update(
            str(Path(root, name).relative_to(ground.folder)) for name in (*folders, *files)
        )
    return {path for path in found if not path.startswith(("home.server.log", "home/index"))}


def _is_expected(path: str, job: DrillJob) -> bool:
    """In the job's own folder, below its own prefix in the store, or on the way there."""
    if path in ("home/jobs", "home/ending", "scripts") or path.startswith("user"):
        return True
    if path.startswith("home/buckets"):
        return job.name in path.split("/") or "escape" not in path
    own = (f"home/jobs/{job.name}", f"scripts/{job.name}")
    return any(path == place or path.startswith(f"{place}/") for place in own)


_LISTS = b"""
import os, stat
for root, folders, files in os.walk("."):
    for name in folders + files:
        path = os.path.join(root, name)
        mode = os.lstat(path).st_mode
        if mode & (stat.S_ISUID | stat.S_ISGID) or not (
            stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
        ):
            print("BAD", path, oct(mode), flush=True)
        real = os.path.realpath(path)
        if not real.startswith(os.path.realpath(".")):
            print("OUTSIDE", path, real, flush=True)
print("LISTED", flush=True)
"""


def hostile_archives(ground: Ground) -> Result:
    """Links, devices, absolute and dotted names in sourcedir.tar.gz: nothing lands outside."""
    outside = ground.folder / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("untouched")
    archives = _archives(outside)
    for name, members in archives.items():
        _put_source(ground, name, _tar(members))
        source = ("--source-dir", f"s3://code/{name}.tar.gz")
        ground.trackside("run", "train.py", "--name", f"tar-{name}", *source)
    for name in archives:
        job = ground.job(f"tar-{name}")
        history = job.wait_over()
        log = job.raw_log().decode(errors="replace")
        is_clear = job.status == "Completed" or (history.failure_reason or "").startswith(
            "ClientError"
        )
        check(is_clear, f"{name}: {job.status}: {history.failure_reason}")
        bad = [line for line in log.splitlines() if line.startswith(("BAD", "OUTSIDE"))]
        check(not bad, f"{name}: {bad}")
        found = sorted(path.name for path in outside.iterdir())
        check(found == ["kept.txt"], f"{name} put {found} outside")
        kept = (outside / "kept.txt").read_text()
        check(kept == "untouched", f"{name} changed a file outside to {kept!r}")
    python = platform.python_version()
    return held(f"{len(archives)} archives, 0 files outside, 0 devices, 0 setuid (Python {python})")


_Member = tuple[tarfile.TarInfo, bytes]


def _archives(outside: Path) -> dict[str, list[_Member]]:
    dots = "../" * 30
    deep = [_entry("d" * 200 + "/" * (level > 0) + "d" * 200 * (level > 0)) for level in range(2)]
    long = "/".join(["n" * 200] * 25)
    return {
        "dots": [_entry(f"{dots}{outside}/dots.txt", b"x"), _entry("a/../../../b.txt", b"x")],
        "absolute": [_entry(f"{outside}/absolute.txt", b"x")],
        "symlink": [
            _entry("link", kind=tarfile.SYMTYPE, goal=str(outside)),
            _entry("link/through.txt", b"x"),
            _entry("file", kind=tarfile.SYMTYPE, goal=str(outside / "kept.txt")),
            _entry("file", b"overwritten"),
        ],
        "chain": [
            _entry("a", kind=tarfile.DIRTYPE),
            _entry("a/b", kind=tarfile.SYMTYPE, goal="."),
            _entry("a/c", kind=tarfile.SYMTYPE, goal="b/../.."),
            _entry("a/d", kind=tarfile.SYMTYPE, goal=f"c/{dots}{outside}"),
            _entry("a/d/chain.txt", b"x"),
        ],
        "hardlink": [
            _entry("hard", kind=tarfile.LNKTYPE, goal=str(outside / "kept.txt")),
            _entry("hard", b"overwritten"),
            _entry("soft", kind=tarfile.SYMTYPE, goal=str(outside / "kept.txt")),
            _entry("hard2", kind=tarfile.LNKTYPE, goal="soft"),
            _entry("hard2", b"overwritten"),
        ],
        "device": [
            _entry("null", kind=tarfile.CHRTYPE),
            _entry("disk", kind=tarfile.BLKTYPE),
            _entry("pipe", kind=tarfile.FIFOTYPE),
        ],
        "setuid": [_entry("su", b"#!/bin/sh\n", mode=0o6755)],
        "path-max": [
            *deep,
            _entry(f"{long}/l", kind=tarfile.SYMTYPE, goal="../" * 25 + dots + str(outside)),
            _entry(f"{long}/l/path-max.txt", b"x"),
        ],
    }


def _entry(
    name: str,
    data: bytes = b"",
    *,
    kind: bytes = tarfile.REGTYPE,
    goal: str = "",
    mode: int = 0o644,
) -> _Member:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, goal, len(data)
    info.mode = 0o755 if kind == tarfile.DIRTYPE else mode
    info.devmajor, info.devminor = 1, 3
    return info, data


def _tar(members: list[_Member]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for info, data in (_entry("train.py", _LISTS), *members):
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _put_source(ground: Ground, name: str, archive: bytes, home: Path | None = None) -> None:
    path = (home or ground.home) / "buckets" / "code" / f"{name}.tar.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(archive)


_DISK = "200m"
_MEMBERS = 250_000


def bombs(ground: Ground) -> Result:
    """Small archives that unfold to more than the disk or the limits have; the disk is returned."""
    disk = ground.small_disk("disk", _DISK, inodes=400_000)
    home = disk / "home"
    home.mkdir()
    ground.environment["TRACKSIDE_HOME"] = str(home)
    zeros = bytes(1 << 20)
    huge = tarfile.TarInfo("huge.bin")
    huge.size = 1 << 40
    archives = {
        "claims-1-tb": gzip.compress(_start() + huge.tobuf(tarfile.GNU_FORMAT) + zeros),
        "expands-to-2-gb": _zeros_archive(2 << 30),
        "250000-members": _many_members(_MEMBERS),
        "nested-gz": gzip.compress(gzip.compress(_start() + bytes(1024))),
    }
    reported = []
    for name, archive in archives.items():
        _put_source(ground, name, archive, home)
        before = _used(disk)
        begun = time.monotonic()
        ground.trackside(
            "run", "train.py", "--name", name, "--source-dir", f"s3://code/{name}.tar.gz"
        )
        job = ground.job(name, home=home)
        history = job.wait_over(seconds=240)
        seconds = time.monotonic() - begun
        reason = history.failure_reason or ""
        check(job.status == "Failed", f"{name}: {job.status}")
        check(reason.startswith(("ClientError", "InternalServerError")), f"{name}: {reason}")
        grown = _used(disk) - before
        check(grown < 2_000_000, f"{name}: {grown:,} bytes more are used after the end")
        reported.append(f"{name} ({len(archive):,} bytes) {seconds:.0f} s")
    return held(f"{', '.join(reported)}: Failed with the reason, disk returned")


def _start() -> bytes:
    info, data = _entry("train.py", b"print(1)")
    return info.tobuf(tarfile.GNU_FORMAT) + data.ljust(512, b"\0")


def _zeros_archive(size: int) -> bytes:
    buffer = io.BytesIO()
    info = tarfile.TarInfo("zeros.bin")
    info.size = size
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as file:
        file.write(_start() + info.tobuf(tarfile.GNU_FORMAT))
        for _ in range(size >> 24):
            file.write(bytes(1 << 24))
        file.write(bytes(1024))
    return buffer.getvalue()


def _many_members(number: int) -> bytes:
    head = bytearray(tarfile.TarInfo("m/00000000").tobuf(tarfile.USTAR_FORMAT))
    blocks = [_start()]
    for index in range(number):
        head[2:10] = b"%08d" % index
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head)
        blocks.append(bytes(head))
    return gzip.compress(b"".join([*blocks, bytes(1024)]), compresslevel=1)


def _used(disk: Path) -> int:
    return shutil.disk_usage(disk).used


class _Listener:
    """Counts who comes to a port of loopback that nobody should be led to."""

    def __init__(self, ground: Ground) -> None:
        self.visits = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        ground.closing.callback(self._socket.close)
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self) -> None:
        while True:
            try:
                visitor, _ = self._socket.accept()
            except OSError:
                return
            self.visits += 1
            visitor.close()


def hostile_locations(ground: Ground) -> Result:
    """A key that may only submit names places of the machine and of its network."""
    server = ground.server()
    listener = _Listener(ground)
    key, secret = AccessKeys(server.home.server.root).create("stranger", Rights.SUBMIT)
    server.key, server.secret = key, secret
    sagemaker = server.client("sagemaker", parameter_validation=False)
    places = (
        "http://169.254.169.254/latest/meta-data/",
        f"http://localhost:{listener.port}/x",
        f"http://127.0.0.1:{listener.port}/x",
        f"https://127.0.0.1:{listener.port}/x",
        "file:///etc/passwd",
        "/etc/passwd",
        f"{ground.home}/server",
        "s3://../server",
        "s3://code/../../server",
    )
    _put_source(ground, "source", _tar([]))
    requests = [
        (place, member, request)
        for place in places
        for member, request in _with_location(place).items()
    ]
    refused = failed = 0
    for number, (place, member, request) in enumerate(requests):
        name, what = f"place-{number}", f"{member} = {place!r}"
        try:
            sagemaker.create_training_job(**training_request(name, **request))
        except ClientError as error:
            code = error.response["Error"]["Code"]
            check(code == "ValidationException", f"{what}: {code}")
            refused += 1
        else:
            check(place.startswith("s3://"), f"{what} was accepted")
            _ends_within_buckets(ground, server, name, what)
            failed += 1
    check(listener.visits == 0, f"{listener.visits} connections to a forbidden port")
    return held(
        f"{refused} requests refused, {failed} with dots in a key kept within the buckets, "
        "0 connections made"
    )


def _with_location(uri: str) -> dict[str, dict[str, Any]]:
    source = {"sagemaker_program": "train.py", "sagemaker_submit_directory": uri}
    hook = {"S3OutputPath": uri, "CollectionConfigurations": []}
    return {
        "channel": {"InputDataConfig": [channel_of("train", uri)]},
        "output": {"OutputDataConfig": {"S3OutputPath": uri}},
        "source": {"HyperParameters": source},
        "checkpoints": {"CheckpointConfig": {"S3Uri": uri}},
        "hook": {"DebugHookConfig": hook},
        "curves": {"TensorBoardOutputConfig": {"S3OutputPath": uri}},
    }


def _ends_within_buckets(ground: Ground, server: Server, name: str, what: str) -> None:
    """Such a key is an odd name and no way out: nothing is read or written beside the buckets."""
    before = sorted(path.name for path in server.home.server.root.iterdir())
    job = ground.job(name, at=server)
    job.wait_over()
    after = sorted(path.name for path in server.home.server.root.iterdir())
    check(before == after, f"{what}: the server's folder has {after}")
    found = [path for path in job.host().ml.rglob("*key*") if path.is_file()]
    check(not found, f"{what}: the job has got {found}")


CASES = (
    Case(33, "hostile names", hostile_names, seconds=25),
    Case(34, "hostile archives", hostile_archives, seconds=20),
    Case(35, "archives that unfold without end", bombs, seconds=60),
    Case(41, "locations of the machine and its network", hostile_locations, seconds=10),
)
