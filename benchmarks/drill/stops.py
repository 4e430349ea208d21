"""Jobs that are stopped: with children, without obedience, at every moment (cases 8 to 11)."""

import os
import random
import re
import threading
import time
from functools import partial
from typing import Any

from botocore.exceptions import ClientError
from tests.fault_proxy import Fault

from benchmarks.drill.case import Broke, Case, Result, check, held
from benchmarks.drill.fault_store import FaultStore
from benchmarks.drill.ground import Ground
from benchmarks.drill.job import DrillJob, unpacked
from trackside.records.status import Secondary
from trackside.system import process_table

_FAMILY = """
import os, signal, subprocess, sys, time
token, end, go = sys.argv[2], sys.argv[4], sys.argv[6]
stay = "import signal, time\\nfor n in (1, 2, 15): signal.signal(n, 1)\\ntime.sleep(600)"
wander = "import os, time\\nwhile True:\\n    if os.fork(): os._exit(0)\\n    time.sleep(0.05)"
def child(code): return [sys.executable, "-c", code, token]
subprocess.Popen(child(stay))
subprocess.Popen(child(stay), start_new_session=True)
subprocess.Popen(child(stay), process_group=0)
subprocess.Popen(child(wander), start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        for number in range(3, 100):
            try: os.close(number)
            except OSError: pass
        os.execve(sys.executable, child(stay), {})
    os._exit(0)
print("READY", flush=True)
while not os.path.exists(go): time.sleep(0.02)
sys.exit(3 if end == "fail" else 0)
"""
_CHILDREN = 5
_SECONDS_AFTER = 5.0


def family_outlives_script(ground: Ground) -> Result:
    """Children that forked, daemonised, left the session or lost their environment: none stays."""
    num_children = 0
    for end in ("exit", "fail", "stop"):
        token = f"drill-child-{end}-{os.getpid()}-{time.monotonic_ns()}"
        go = ground.folder / f"go-{end}"
        arguments = ("-p", f"a-token={token}", "-p", f"end={end}", "-p", f"go={go}")
        job = ground.submit(_FAMILY, *arguments, "--grace", "1", name=f"family-{end}")
        job.wait_for_line("READY")
        alive = ground.until(
            lambda token=token: found if len(found := _with_token(token)) >= _CHILDREN else [],  # type: ignore[misc]
            f"{_CHILDREN} children live before the end ({end})",
        )
        num_children += len(alive)
        if end == "stop":
            ground.trackside("stop", job.name)
        else:
            go.touch()
        ground.until(job.is_over, f"the job ends ({end})")
        deadline = time.monotonic() + _SECONDS_AFTER
        while (left := _with_token(token)) and time.monotonic() < deadline:
            time.sleep(0.05)
        check(not left, f"{end}: {len(left)} children live {_SECONDS_AFTER:g} s after the end")
    return held(f"{num_children} children of 3 jobs, 0 alive {_SECONDS_AFTER:g} s after the end")


def _with_token(token: str) -> list[int]:
    """Children only: the script itself has the token among many arguments."""
    last = b"\0" + token.encode() + b"\0"
    return [
        pid
        for pid in process_table.pids()
        if process_table.read(f"/proc/{pid}/cmdline").endswith(last)
    ]


_DEAF = """
import signal, time
open("/opt/ml/model/m.txt", "w").write("kept")
signal.signal(signal.SIGTERM, lambda *_: print("TERM", time.monotonic(), flush=True))
print("READY", flush=True)
while True:
    print("ALIVE", time.monotonic(), flush=True)
    time.sleep(0.01)
"""


def deaf_script(ground: Ground, graces: tuple[float, ...] = (2.0, 5.0, 8.0)) -> Result:
    """SIGKILL comes after the grace, by the script's own clock; the job is Stopped, all is kept."""
    jobs = {
        grace: ground.submit(_DEAF, "--grace", f"{grace:g}", name=f"deaf-{grace:g}")
        for grace in graces
    }
    for job in jobs.values():
        job.wait_for_line("READY")
    for job in jobs.values():
        ground.trackside("stop", job.name)
    late = [_lateness(job, grace) for grace, job in jobs.items()]
    check(
        all(-0.1 <= each <= 1.0 for each in late),
        f"SIGKILL came {_signed(late)} s after the graces {graces}",
    )
    reported = ", ".join(f"{grace:g} s" for grace in graces)
    return held(f"graces of {reported}: SIGKILL {_signed(late)} s after them, model stored")


def _lateness(job: DrillJob, grace: float) -> float:
    job.wait_over(seconds=grace + 60)
    check(job.status == "Stopped", f"{job.name} is {job.status}")
    check(job.model() == {"m.txt": b"kept"}, f"the model of {job.name} is not whole")
    log = job.raw_log()
    [begun] = re.findall(rb"^TERM ([\d.]+)$", log, re.M)
    last = re.findall(rb"^ALIVE ([\d.]+)$", log, re.M)[-1]
    return float(last) - float(begun) - grace


def _signed(figures: list[float]) -> str:
    return ", ".join(f"{figure:+.2f}" for figure in figures)


_SAVES = """
import os, signal, sys, time
def save(*_):
    open("/opt/ml/model/m.txt", "w").write("saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("READY", flush=True)
while not os.path.exists(os.environ["GO"]): time.sleep(0.02)
open("/opt/ml/model/m.txt", "wb").write(b"x" * 20_000_000)
"""


def stopped_in_every_phase(ground: Ground) -> Result:
    """One final status, and nothing half in the store, whatever the job was doing."""
    store = FaultStore(ground)
    store.client.put_object(Bucket="drill-bucket", Key="data/a.bin", Body=bytes(200_000))
    phases = (_in_starting, _in_downloading, _in_training, _in_uploading)
    for phase in phases:
        job = phase(ground, store)
        job.wait_over()
        check(job.status == "Stopped", f"{job.name} ended as {job.status}")
        finals = [t.secondary for t in job.history().transitions if t.secondary.is_final]
        check(len(finals) == 1, f"{job.name} has the final statuses {finals}")
        dangling = store.dangling_uploads()
        check(not dangling, f"{job.name} left unfinished uploads {dangling}")
        for key in store.keys(f"out/{job.name}/output/"):
            check(unpacked(store.get(key)), f"{key} is empty")
        store.proxy.clear()
    return held(f"stopped in {len(phases)} phases, 1 final status each, 0 half objects")


def _submit(ground: Ground, store: FaultStore, name: str, *options: str) -> DrillJob:
    go = ground.folder / f"go-{name}"
    out = ("--output", store.uri("out"), "--grace", "10")
    return ground.submit(_SAVES, "--environment", f"GO={go}", *out, *options, name=name)


def _in_starting(ground: Ground, store: FaultStore) -> DrillJob:
    """This phase is short: jobs are submitted until one is stopped in it."""
    server = ground.server()
    sagemaker = server.client("sagemaker")
    for attempt in range(10):
        job = ground.job(f"in-starting-{attempt}", at=server)
        script = ground.script(job.name, _SAVES)
        out = ("--output", store.uri("out"), "--environment", f"GO={ground.go_file}")
        submitting = ground.spawn("run", str(script), "--name", job.name, *out, at=server)
        ground.until(lambda job=job: job.history().version > 2, "it has begun", pause=0.001)  # type: ignore[misc]
        sagemaker.stop_training_job(TrainingJobName=job.name)
        submitting.wait()
        job.wait_over()
        passed = {transition.secondary for transition in job.history().transitions}
        if Secondary.DOWNLOADING not in passed and Secondary.STARTING in passed:
            return job
    raise Broke("of 10 jobs none could be stopped in Starting")


def _in_downloading(ground: Ground, store: FaultStore) -> DrillJob:
    store.proxy.inject(Fault(pattern="GET .*data/a.bin", times=100, seconds_per_kib=1.0))
    job = _submit(ground, store, "in-downloading", "--channel", f"train={store.uri('data/')}")
    ground.until(lambda: store.proxy.count("GET .*data/a.bin"), "the download begins")
    check(job.secondary == Secondary.DOWNLOADING, f"it is in {job.secondary}")
    ground.trackside("stop", job.name)
    return job


def _in_training(ground: Ground, store: FaultStore) -> DrillJob:
    job = _submit(ground, store, "in-training")
    job.wait_for_line("READY")
    ground.trackside("stop", job.name)
    return job


def _in_uploading(ground: Ground, store: FaultStore) -> DrillJob:
    job = _submit(ground, store, "in-uploading")
    job.wait_for_line("READY")
    store.proxy.inject(Fault(pattern=r"model\.tar\.gz", times=10_000, status=503))
    (ground.folder / "go-in-uploading").touch()
    ground.until(lambda: job.secondary == Secondary.UPLOADING, "it is uploading")
    ground.trackside("stop", job.name)
    store.proxy.clear()
    return job


_ENDS_SOON = """
import time
print("READY", flush=True)
open("/opt/ml/model/m.txt", "w").write("model")
"""


def stops_race_the_end(ground: Ground, rounds: int = 25) -> Result:
    """Two stops at about the moment at which the script ends by itself."""
    store = FaultStore(ground)
    server = ground.server(TRACKSIDE_CAPACITY="cores=4", TRACKSIDE_STORAGE=store.uri("team"))
    sagemaker = server.client("sagemaker")
    ends: dict[str, int] = {}
    for seed in range(rounds):
        ground.tell(f"{seed} of {rounds}")
        chance = random.Random(seed)
        job = ground.submit(_ENDS_SOON, "--grace", "5", name=f"race-{seed}", at=server)
        job.wait_for_line("READY")
        pauses = [chance.uniform(0, 0.6) for _ in range(2)]
        stops = [
            threading.Thread(target=partial(_stop, sagemaker, job.name, pause)) for pause in pauses
        ]
        for stop in stops:
            stop.start()
        for stop in stops:
            stop.join()
        job.wait_over()
        finals = [t.secondary for t in job.history().transitions if t.secondary.is_final]
        check(len(finals) == 1, f"seed {seed}: final statuses {finals}")
        check(job.status in ("Completed", "Stopped"), f"seed {seed}: {job.status}")
        uploads = store.proxy.count(rf"^PUT .*{job.name}/output/model\.tar\.gz")
        check(uploads == 1, f"seed {seed}: the model was uploaded {uploads} times")
        ends[job.status] = ends.get(job.status, 0) + 1
    reported = ", ".join(f"{count} {status}" for status, count in sorted(ends.items()))
    return held(
        f"{rounds} races of two stops with the end, 1 final status and 1 upload each: {reported}"
    )


def _stop(sagemaker: Any, name: str, pause: float) -> None:
    time.sleep(pause)
    try:
        sagemaker.stop_training_job(TrainingJobName=name)
    except ClientError as error:  # one that has ended cannot be stopped
        check(error.response["Error"]["Code"] == "ValidationException", str(error))


CASES = (
    Case(8, "script leaves children behind", family_outlives_script, seconds=15),
    Case(9, "script ignores SIGTERM", deaf_script, seconds=20),
    Case(9, "default grace", partial(deaf_script, graces=(120.0,)), seconds=130, nightly=True),
    Case(10, "stopped in every phase", stopped_in_every_phase, seconds=25),
    Case(11, "stops race the end", stops_race_the_end, seconds=60),
    Case(
        11, "1,000 stops race the end", partial(stops_race_the_end, rounds=1000), 2400, nightly=True
    ),
)
