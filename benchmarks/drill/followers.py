"""Those who read a log: killed, locked out, fed with anything a script can print
(cases 23, 24, 31)."""

import hashlib
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.drill.case import Case, Result, check, held
from benchmarks.drill.ground import Ground
from benchmarks.drill.job import DrillJob
from benchmarks.drill.server import Server
from trackside.api.keys import AccessKeys, Rights
from trackside.system import process_table

_FOLLOWER = """
import os, sys
from trackside.jobs.logs import LogPosition
from trackside.sdk.known_jobs import known_jobs
name, path = sys.argv[1:]
descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
seen = os.fstat(descriptor).st_size
after = {"algo-1": LogPosition(1, seen)}
for line in known_jobs().logs(name, follow=True, after=after):
    os.write(descriptor, line.data)
"""
"""A client that goes on at the byte behind the last one that it has kept."""


def _follow(
    ground: Ground, name: str, path: Path, environment: dict[str, str]
) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-c", _FOLLOWER, name, str(path)],
        env={**ground.environment, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    ground.closing.callback(process.wait)
    ground.closing.callback(process.kill)
    return process


def follower_dies(ground: Ground, seconds: float = 60.0) -> Result:
    """SIGKILL every second, once for a client on this machine and once for one at a server."""
    server = ground.server()
    job = ground.submit_numbered(100_000, pause=0.002, at=server)
    ground.until(job.raw_log, "the script prints")
    copies = {
        ground.folder / "local.copy": dict[str, str](),
        ground.folder / "remote.copy": server.client_environment,
    }
    kills = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ground.tell(f"{kills} kills")
        followers = [_follow(ground, job.name, path, where) for path, where in copies.items()]
        time.sleep(1.0)
        for follower in followers:
            check(follower.poll() is None, f"a follower ended by itself: {follower.returncode}")
            follower.kill()
            follower.wait()
            kills += 1
    ground.trackside("stop", job.name, "--wait", at=server)
    for path, where in copies.items():
        check(path.exists() and path.stat().st_size, f"{path.name} is empty")
        last = _follow(ground, job.name, path, where)
        ground.until(lambda last=last: last.poll() is not None, f"the last reads {path.name}")  # type: ignore[misc]
    job.wait_over()
    raw = job.raw_log()
    for path in copies:
        copy = path.read_bytes()
        check(copy == raw, f"{path.name} has {len(copy)} bytes, the log {len(raw)}")
    return held(f"{kills} kills of followers, {len(raw):,} bytes, both copies equal byte for byte")


def key_ends_while_following(ground: Ground) -> Result:
    """The key is revoked: the follower ends with an error, the job goes on, another key resumes."""
    server = ground.server()
    keys = AccessKeys(server.home.server.root)
    (old, old_secret), (new, new_secret) = (
        keys.create(label, Rights.SUBMIT) for label in ("old", "new")
    )
    job = ground.submit_numbered(2000, pause=0.01, at=server)
    job.wait_for_line("drill-line 10")
    copy = ground.folder / "copy"
    follower = _follow(ground, job.name, copy, server.credentials(old.id, old_secret))
    ground.until(lambda: copy.stat().st_size, "the follower has read something")
    ground.trackside("keys", "revoke", old.id)
    begun = time.monotonic()
    ground.until(lambda: follower.poll() is not None, "the follower is refused", seconds=60)
    seconds = time.monotonic() - begun
    check(follower.returncode != 0, "the follower of a revoked key ended as if all were well")
    check(not job.is_over(), "the job is over")
    size = copy.stat().st_size
    following = _follow(ground, job.name, copy, server.credentials(new.id, new_secret))
    history = job.wait_over()
    check(job.status == "Completed", f"the job is {job.status}: {history.failure_reason}")
    ground.until(lambda: following.poll() is not None, "the second follower is through")
    lines = job.count_lines(2000)
    check(lines.is_exact, str(lines))
    raw = job.raw_log()
    check(copy.read_bytes() == raw, f"{copy.stat().st_size} bytes were read of {len(raw)}")
    return held(
        f"refused {seconds:.1f} s after the end of its key, resumed at byte {size:,}; {lines}"
    )


_STRANGE = """
import hashlib, os, random, sys
chance = random.Random(7)
digest = hashlib.sha256()
total = 0
def write(data):
    global total
    view = memoryview(data)
    while view:
        view = view[os.write(1, view):]
    digest.update(data)
    total += len(data)
sys.stdout.flush()
write(b"BEGIN\\n")
write(b"x" * 10_000_000 + b"\\n")
write(b"".join(b"\\r%3d%% of an epoch" % (number % 100) for number in range(100_000)) + b"\\n")
write(b"nul \\0 in a line\\n" * 1000 + b"\\0" * 100_000 + b"\\n")
write(chance.randbytes(3_000_000))
write(b"\\n\\xff\\xfe\\xc3\\x28 bad UTF-8\\n" * 1000)
write(b"\\x1b[31mred\\x1b[0m \\x1b]8;;http://example.com\\x07link\\x1b]8;;\\x07\\n" * 1000)
import time
begun = time.monotonic()
lines = b"".join(b"line %09d of a script that prints\\n" % number for number in range(500_000))
for start in range(0, len(lines), 65536):
    write(lines[start : start + 65536])
seconds = time.monotonic() - begun
write(b"no newline at the end")
with open("/opt/ml/model/reported.txt", "w") as file:
    file.write(f"{total} {digest.hexdigest()} {500_000 / seconds:.0f}")
"""


def strange_output(ground: Ground) -> Result:
    """Every byte is kept, the server answers meanwhile, nobody's memory grows with the log."""
    server = ground.server()
    sagemaker = server.client("sagemaker")
    job = ground.submit(_STRANGE, at=server)
    answers: list[float] = []
    memory = {"server": 0, "supervisor": 0}

    def is_over() -> bool:
        begun = time.monotonic()
        sagemaker.list_training_jobs()
        answers.append(time.monotonic() - begun)
        memory["server"] = max(memory["server"], _peak_mb(server.pid))
        memory["supervisor"] = max(memory["supervisor"], _peak_mb(job.supervisor_pid()))
        return job.is_over()

    ground.until(is_over, "the job is over", seconds=180)
    history = job.wait_over()
    check(job.status == "Completed", f"the job is {job.status}: {history.failure_reason}")
    size, digest, rate = job.model()["reported.txt"].decode().split()
    sources = {
        "the file": job.raw_log(),
        "`trackside logs`": _local_log(ground, job),
        "`trackside logs` at the server": job.log(),
        "the store": job.stored_log(),
    }
    for name, log in sources.items():
        begun = log.find(b"BEGIN\n")
        found = log[begun : begun + int(size)]
        is_same = hashlib.sha256(found).hexdigest() == digest
        check(is_same, f"{name} has other bytes ({len(found):,} of {int(size):,})")
    reported = _report(answers, memory, server)
    check(memory["supervisor"] < 300, f"the supervisor had {memory['supervisor']} MB")
    check(memory["server"] < 500, f"the server had {memory['server']} MB")
    check(max(answers) < 5.0, f"a listing took {max(answers):.1f} s")
    return held(
        f"{int(size):,} bytes at up to {int(rate):,} lines/s, 0 lost in 4 places; {reported}"
    )


def _report(answers: list[float], memory: dict[str, int], server: Server) -> str:
    median = statistics.median(answers)
    return (
        f"listing {median * 1000:.0f} ms (at most {max(answers) * 1000:.0f}), "
        f"supervisor {memory['supervisor']} MB, server {memory['server']} MB"
    )


def _local_log(ground: Ground, job: DrillJob) -> bytes:
    return ground.trackside("logs", job.name).stdout


def _peak_mb(pid: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+)", process_table.read(f"/proc/{pid}/status").decode())
    return int(found[1]) >> 10 if found else 0


CASES = (
    Case(23, "key ends while a log is followed", key_ends_while_following, seconds=30),
    Case(24, "follower killed every second", follower_dies, seconds=75),
    Case(31, "strange output", strange_output, seconds=30),
)
