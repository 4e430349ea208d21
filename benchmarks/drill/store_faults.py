"""An object store that refuses, hangs up, forgets to answer, crawls (cases 13 to 18)."""

import hashlib
import re
import statistics
import time
from functools import partial

import psutil
from tests.fault_proxy import Fault

from benchmarks.drill.case import Broke, Case, Result, Verdict, check, held, partly
from benchmarks.drill.fault_store import BUCKET, FaultStore
from benchmarks.drill.ground import Ground
from benchmarks.drill.job import DrillJob, unpacked
from benchmarks.drill.numbered_lines import count_lines
from trackside.records.status import Secondary

_MODEL_BYTES = 24_000_000
_TRAINS = """
import hashlib, os, random, time
print("READY", flush=True)
while not os.path.exists(os.environ["GO"]): time.sleep(0.02)
for number in range(200): print("drill-line", number, flush=True)
data = random.Random(5).randbytes(int(os.environ["BYTES"]))
open("/opt/ml/model/m.bin", "wb").write(data)
for number in range(3):
    open(f"/opt/ml/checkpoints/{number}.pt", "wb").write(data[:50_000])
print("SHA", hashlib.sha256(data).hexdigest(), flush=True)
"""


def _submit(
    ground: Ground, store: FaultStore, *, model_bytes: int = _MODEL_BYTES, **environment: str
) -> DrillJob:
    return ground.submit(
        _TRAINS,
        *("--environment", f"GO={ground.go_file}", "--environment", f"BYTES={model_bytes}"),
        *("--output", store.uri("out"), "--checkpoint-uri", store.uri("checkpoints")),
        environment=environment,
    )


def _is_whole(job: DrillJob, store: FaultStore) -> str:
    """What was made at the source is all in the store, once; a phrase that says so."""
    history = job.wait_over(seconds=300)
    check(job.status == "Completed", f"the job is {job.status}: {history.failure_reason}")
    check(not store.dangling_uploads(), f"unfinished uploads: {store.dangling_uploads()}")
    return _is_stored(job, store)


def _is_stored(job: DrillJob, store: FaultStore) -> str:
    found = re.search(rb"^SHA (\w+)$", job.raw_log(), re.M)
    check(found, "the script did not come to its end")
    assert found is not None
    model = unpacked(store.get(f"out/{job.name}/output/model.tar.gz"))["m.bin"]
    digest = hashlib.sha256(model).hexdigest()
    check(digest == found[1].decode(), f"the stored model has {len(model)} bytes, another sha256")
    checkpoints = store.keys("checkpoints/")
    expected = [f"checkpoints/{number}.pt" for number in range(3)]
    check(checkpoints == expected, f"checkpoints in the store: {checkpoints}")
    lines = count_lines(job.log(), 200)
    check(lines.is_exact, str(lines))
    return f"{len(model):,} bytes with the same sha256, {lines}"


def store_is_away(ground: Ground, seconds: float = 30.0) -> Result:
    """503 for everything from before the end of the script on."""
    store = FaultStore(ground)
    job = _submit(ground, store)
    job.wait_for_line("READY")
    store.proxy.inject(Fault(times=1_000_000, status=503))
    ground.go()
    job.wait_for_line("SHA")
    begun = time.monotonic()
    ground.until(
        lambda: job.secondary == Secondary.UPLOADING, "it is Uploading while the store is away"
    )
    shown_after = time.monotonic() - begun
    while time.monotonic() - begun < seconds:
        ground.tell(f"the store is away for {time.monotonic() - begun:.0f} s")
        check(job.secondary == Secondary.UPLOADING, f"it became {job.secondary} meanwhile")
        time.sleep(0.5)
    refused = sum(1 for request in store.proxy.requests if request.fault)
    store.proxy.clear()
    whole = _is_whole(job, store)
    return held(
        f"{seconds:g} s of 503 ({refused} requests), Uploading after {shown_after:.1f} s, "
        f"then Completed; {whole}"
    )


def parts_are_dropped(ground: Ground) -> Result:
    """The connection is cut within every part of a multipart upload, once."""
    store = FaultStore(ground)
    for number in range(1, 40):
        pattern = rf"^PUT .*model\.tar\.gz.*partNumber={number}(&|$)"
        store.proxy.inject(Fault(pattern=pattern, cut_request_after=100_000))
    job = _submit(ground, store, model_bytes=100_000_000)
    ground.go()
    whole = _is_whole(job, store)
    cut = sum(1 for request in store.proxy.requests if request.fault)
    check(cut >= 4, f"only {cut} parts were cut: the model has too few")
    return held(f"{cut} parts cut once each, 0 unfinished uploads; {whole}")


def replies_are_lost(ground: Ground) -> Result:
    """The store does what it was asked, and every first reply to a write is lost."""
    store = FaultStore(ground)
    plain = _submit(ground, store)
    ground.go()
    _is_whole(plain, store)
    expected = _below(store, plain)
    store.client.delete_objects(
        Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in store.keys("checkpoints/")]}
    )
    before = len(store.proxy.requests)
    store.proxy.inject(
        Fault(pattern="^(PUT|POST|DELETE)", times=10_000, once_each=True, loses_reply=True)
    )
    job = _submit(ground, store)
    history = job.wait_over(seconds=300)
    check(job.status == "Completed", f"the job is {job.status}: {history.failure_reason}")
    whole = _is_stored(job, store)
    lost = [request.line for request in store.proxy.requests if request.fault]
    check(len(lost) >= 10, f"only {len(lost)} replies were lost")
    found = _below(store, job)
    check(found == expected, f"objects {found} where {expected} were expected")
    requests = len(store.proxy.requests) - before
    return Result(
        Verdict.HELD,
        f"{len(lost)} replies lost of {requests} requests, {len(found)} objects; {whole}",
        f"{len(store.dangling_uploads())} unfinished upload whose id was in a lost reply: buckets "
        "need the lifecycle rule of docs/storage.md",
    )


def _below(store: FaultStore, job: DrillJob) -> list[str]:
    """The job's objects but for those that come in pieces by the clock."""
    keys = [key.removeprefix(f"out/{job.name}/") for key in store.keys(f"out/{job.name}/")]
    return [key for key in keys if not key.startswith(("trackside/logs", "trackside/curves"))]


def store_refuses(ground: Ground) -> Result:
    """403 for good: Failed, what was made is kept, and the named command sends it later."""
    store = FaultStore(ground)
    job = _submit(ground, store, TRACKSIDE_UPLOAD_DEADLINE="5")
    job.wait_for_line("READY")
    store.proxy.inject(Fault(times=1_000_000, status=403))
    ground.go()
    history = job.wait_over(seconds=180)
    reason = history.failure_reason or ""
    check(job.status == "Failed", f"the job is {job.status}")
    check(str(job.folder.root) in reason, f"the local path is not in {reason!r}")
    check(f"trackside upload {job.name}" in reason, f"the command is not in {reason!r}")
    kept = (job.host().ml / "model" / "m.bin").stat().st_size
    check(kept == _MODEL_BYTES, f"{kept} of {_MODEL_BYTES} bytes of the model are kept")
    store.proxy.clear()
    ground.trackside("upload", job.name)
    return held(
        f"path and command in the reason; after `trackside upload`: {_is_stored(job, store)}"
    )


_CURVES = """
import os, threading, time
from pathlib import Path
from trackside.curves import records
folder = Path("/opt/ml/output/tensorboard")
folder.mkdir(parents=True, exist_ok=True)
path = folder / f"events.out.tfevents.{int(time.time())}.drill"
record = records.frame(os.urandom(100_000))
go = os.environ["GO"]
def write():
    with open(path, "ab", buffering=0) as file:
        while not os.path.exists(go):
            file.write(record)
            time.sleep(0.1)
writer = threading.Thread(target=write)
writer.start()
def work():
    total = 0
    for number in range(60_000): total += number * number
    return total
while not os.path.exists(go):
    begun = time.perf_counter()
    work()
    print("STEP", time.time(), time.perf_counter() - begun, flush=True)
    time.sleep(0.002)
writer.join()
print("SIZE", path.stat().st_size, flush=True)
"""
_WINDOWS = 16
_WINDOW_SECONDS = 2.5
_KIB_SECONDS = 1.0


def store_crawls(ground: Ground) -> Result:
    """1 KB/s while event files grow by 1 MB/s: the training does not feel it, and it is shown.

    Slow and fast windows take turns, so that a load of the machine is in both; of the steps of each
    the lower quartile is taken, which others' load changes least.
    """
    store = FaultStore(ground)
    job = ground.submit(
        _CURVES,
        *("--environment", f"GO={ground.go_file}", "--output", store.uri("out")),
        *("--tensorboard", store.uri("curves")),
    )
    job.wait_for_line("STEP")
    crawl = Fault(pattern="^PUT .*curves/", times=1_000_000)
    store.proxy.inject(crawl)
    windows: list[tuple[bool, float, float]] = []
    supervisor = psutil.Process(job.supervisor_pid())
    cpu_seconds = 0.0
    pending = 0
    for number in range(_WINDOWS):
        is_slow = number % 2 == 0
        crawl.seconds_per_sent_kib = _KIB_SECONDS if is_slow else 1e-9
        begun, used = time.time(), _cpu_seconds(supervisor)
        time.sleep(_WINDOW_SECONDS)
        windows.append((is_slow, begun + 0.2, time.time()))
        if is_slow:
            cpu_seconds += _cpu_seconds(supervisor) - used
            pending = max(pending, _pending_bytes(job))
    ground.go()
    history = job.wait_over(seconds=180)
    check(job.status == "Completed", f"the job is {job.status}: {history.failure_reason}")
    check(pending > 1_000_000, f"`show` told of {pending} bytes that wait")
    found = re.search(rb"^SIZE (\d+)$", job.raw_log(), re.M)
    check(found, "the script did not come to its end")
    assert found is not None
    stored = sum(len(store.get(key)) for key in store.keys("curves/") if ".drill" in key)
    check(stored == int(found[1]), f"{stored} of {int(found[1])} bytes of curves are stored")
    change = _step_change(job.raw_log(), windows)
    share = cpu_seconds / (_WINDOWS / 2 * _WINDOW_SECONDS)
    figure = (
        f"steps {change:+.1%} at 1 KB/s, supervisor {share:.1%} of a core, "
        f"{pending:,} bytes shown as waiting, {stored:,} bytes of curves, 0 lost"
    )
    if change < 0.05:
        return held(figure)
    return partly(figure, "steps became slower by more than 5 %; is the machine busy?")


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _pending_bytes(job: DrillJob) -> int:
    syncs = job.describe()["Trackside"]["syncs"]
    return sum(sync["pending_bytes"] for host in syncs.values() for sync in host.values())


def _step_change(log: bytes, windows: list[tuple[bool, float, float]]) -> float:
    """How much longer a step of a slow window takes than one of the fast window after it: the
    median of all pairs."""
    steps = [
        (float(at), float(seconds))
        for at, seconds in re.findall(rb"^STEP ([\d.]+) ([\d.e-]+)$", log, re.M)
    ]
    typical = [
        statistics.quantiles([seconds for at, seconds in steps if begin <= at <= end], n=4)[0]
        for _, begin, end in windows
    ]
    return statistics.median(
        slow / fast - 1 for slow, fast in zip(typical[::2], typical[1::2], strict=True)
    )


_REWRITES = """
import os, threading, time
go = os.environ["GO"]
size = 1_000_000
def paused(path, number):
    with open(path, "wb") as file:
        file.write(bytes([number]) * (size // 2))
        file.flush()
        time.sleep(3)
        file.write(bytes([number]) * (size // 2))
def renamed(path, number):
    with open(path + ".tmp", "wb") as file:
        for _ in range(10):
            file.write(bytes([number]) * (size // 10))
            file.flush()
            time.sleep(0.05)
    os.replace(path + ".tmp", path)
def in_place(path, number):
    with open(path, "r+b" if os.path.exists(path) else "wb") as file:
        for part in range(10):
            file.write(bytes([number]) * (size // 10))
            file.flush()
            time.sleep(0.25)
def keep_writing(write):
    number = 0
    while not os.path.exists(go):
        number += 1
        write(f"/opt/ml/checkpoints/{write.__name__}.pt", number)
        time.sleep(1.5)
    print("VERSIONS", write.__name__, number, flush=True)
ways = (paused, renamed, in_place)
writers = [threading.Thread(target=keep_writing, args=(way,)) for way in ways]
for each in writers: each.start()
print("READY", flush=True)
for each in writers: each.join()
"""
_REWRITE_SECONDS = 25.0


def checkpoints_change_while_sent(ground: Ground) -> Result:
    """Whoever reads the store sees whole versions only, however the script writes."""
    store = FaultStore(ground)
    out = ("--output", store.uri("out"), "--checkpoint-uri", store.uri("checkpoints"))
    job = ground.submit(_REWRITES, "--environment", f"GO={ground.go_file}", *out)
    job.wait_for_line("READY")
    names = ("paused", "renamed", "in_place")
    seen: dict[str, set[bytes]] = {name: set() for name in names}
    torn = 0
    reads = 0
    deadline = time.monotonic() + _REWRITE_SECONDS
    while time.monotonic() < deadline or not job.is_over():
        if time.monotonic() > deadline:
            ground.go()
        for name in names:
            key = f"checkpoints/{name}.pt"
            if key not in store.keys("checkpoints/"):
                continue
            data = store.get(key)
            reads += 1
            torn += not _is_one_version(data)
            seen[name].add(data[:1])
        if time.monotonic() > deadline + 120:
            raise Broke("the job did not end")
        time.sleep(0.2)
    history = job.wait_over()
    check(job.status == "Completed", f"the job is {job.status}: {history.failure_reason}")
    versions = {name: len(found) for name, found in seen.items()}
    reported = ", ".join(f"{count} {name}" for name, count in versions.items())
    for name in names:
        last = re.search(rf"^VERSIONS {name} (\d+)$".encode(), job.raw_log(), re.M)
        assert last is not None
        newest = store.get(f"checkpoints/{name}.pt")
        check(newest[:1] == bytes([int(last[1])]), f"the newest version of {name} is not stored")
        torn += not _is_one_version(newest)
    check(not torn, f"{torn} of {reads} reads were torn; versions seen: {reported}")
    check(all(versions.values()), f"versions seen: {reported}")
    return held(f"{reads} reads of 3 files being rewritten ({reported} versions), 0 torn")


def _is_one_version(data: bytes) -> bool:
    return len(data) == 1_000_000 and data == data[:1] * 1_000_000


CASES = (
    Case(13, "store answers 503", store_is_away, seconds=50),
    Case(
        13, "store answers 503 for 10 min", partial(store_is_away, seconds=600), 660, nightly=True
    ),
    Case(14, "store cuts every part once", parts_are_dropped, seconds=25),
    Case(15, "store's replies are lost", replies_are_lost, seconds=40),
    Case(16, "store refuses for good", store_refuses, seconds=25),
    Case(17, "store takes 1 KB/s", store_crawls, seconds=70),
    Case(18, "file changes while it is sent", checkpoints_change_while_sent, seconds=45),
)
