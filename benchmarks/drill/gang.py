"""Several hosts of one job (case 21), all on one machine; `clusters.py` has machines that die."""

import os
import re
import signal

from benchmarks.drill.case import Case, Result, check, held
from benchmarks.drill.ground import Ground
from benchmarks.drill.job import DrillJob
from trackside.records.journal import RETRY

_HOSTS = ("algo-1", "algo-2", "algo-3")
_TRAINS = """
import glob, os, signal, sys, time
host = os.environ["SM_CURRENT_HOST"]
def save(*_):
    print("GRACE", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
paths = glob.glob("/opt/ml/checkpoints/step-*.pt")
done = sorted(int(os.path.basename(path)[5:-3]) for path in paths)
first = done[-1] + 1 if done else 0
print("FROM", first, flush=True)
for step in range(first, 40):
    if host == "algo-1":
        path = f"/opt/ml/checkpoints/step-{step}.pt"
        with open(path + ".tmp", "w") as file: file.write("x" * 10_000)
        os.replace(path + ".tmp", path)
    print("STEP", step, flush=True)
    while step == 19 and not os.path.exists(os.environ["GO"]): time.sleep(0.02)
    time.sleep(0.02)
print("DONE", flush=True)
"""


def host_dies(ground: Ground) -> Result:
    """A host's supervisor, init and script die at once: all stop, and the gang starts once more."""
    checkpoints = ground.home / "buckets" / "drill" / "checkpoints"
    job = ground.submit(
        _TRAINS,
        *("--instances", "3", "--max-retries", "2", "--grace", "20"),
        *("--environment", f"GO={ground.go_file}", "--checkpoint-uri", "s3://drill/checkpoints"),
    )
    for host in _HOSTS:
        ground.until(lambda host=host: b"STEP 19" in job.raw_log(host), f"{host} is at step 19")  # type: ignore[misc]
    ground.until(lambda: (checkpoints / "step-19.pt").exists(), "the checkpoint is stored")
    _lose(job, "algo-3")
    for host in _HOSTS:
        ground.until(
            lambda host=host: b"FROM" in job.raw_log(host, attempt=2),  # type: ignore[misc]
            f"{host} starts again",
            seconds=90,
        )
    for host in _HOSTS[:2]:
        graces = job.raw_log(host).count(b"GRACE")
        check(graces == 1, f"{host} was asked {graces} times to end with grace")
    ground.go()
    history = job.wait_over()
    check(job.status == "Completed", f"{job.status}: {history.failure_reason}")
    check(history.attempt == 2, f"it took {history.attempt} attempts")
    retries = [note for note in history.notes if note.get("what") == RETRY]
    check(len(retries) == 1, f"{len(retries)} of the retries were used")
    [begun] = re.findall(rb"^FROM (\d+)$", job.raw_log(attempt=2), re.M)
    check(int(begun) == 20, f"it went on from step {int(begun)} instead of 20")
    done = [job.raw_log(host, attempt=2).count(b"DONE") for host in _HOSTS]
    check(done == [1, 1, 1], f"ends of the scripts: {done}")
    return Result(
        held("").verdict,
        "1 of 3 hosts lost, 2 ended with grace, 1 restart from step 20, 1 of 2 retries used",
        "all hosts are on one machine; the next case has others",
    )


def _lose(job: DrillJob, host: str) -> None:
    """All of a host's processes; its supervisor is stopped first, so that it revives nothing."""
    supervisor = job.supervisor_pid(host)
    pids = [supervisor, job.sandbox_pid("init", host), job.sandbox_pid("command", host)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in pids[1:]:
        os.kill(pid, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)


CASES = (Case(21, "one of three hosts dies", host_dies, seconds=30),)
