"""Wall clocks that jump or are wrong (cases 29, 30): durations, order and limits do not care."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from threading import Event, Thread

from benchmarks.drill.case import Case, Result, check, held
from benchmarks.drill.ground import Ground
from benchmarks.drill.job import DrillJob
from benchmarks.drill.server import Server
from benchmarks.drill.wall_clock import WallClock
from trackside.records import hosts

DAY_SECONDS = 86_400.0
HOUR_SECONDS = 3600.0
JUMPS_SECONDS = (DAY_SECONDS, -DAY_SECONDS, HOUR_SECONDS, -HOUR_SECONDS)
MAX_RUN_SECONDS = 8
_NUM_LINES = 100
_JUMP_PAUSE_SECONDS = 0.7

ENDLESS = """
import time
while True:
    print("at", time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
    time.sleep(0.02)
"""


def wall_clock_jumps(ground: Ground) -> Result:
    """In server and supervisors, again and again while jobs run and wait: one has a time limit
    that it reaches; one runs and one waits with limits that only a wrong clock would reach."""
    clock = WallClock(ground.folder)
    ground.environment.update(clock.variables)
    server = ground.server(TRACKSIDE_CAPACITY="cores=2")
    patient = ground.submit_numbered(
        _NUM_LINES, "--max-run", "1800", at=server, name="patient", hold_at=_NUM_LINES // 2
    )
    limited = ground.submit(
        ENDLESS, "--max-run", str(MAX_RUN_SECONDS), "--grace", "1", at=server, name="limited"
    )
    waiting = _submit_waiting(server, patient)
    limited.wait_for_line("at ")
    clock.shift(DAY_SECONDS)
    server.restart()  # which looks at the job that waits for the first time
    with _jumping(clock) as jumps:
        ground.until(limited.is_over, "the job with a time limit is over", seconds=120)
        ground.go()
        for job in (patient, waiting):
            ground.until(job.is_over, f"the job {job.name} is over", seconds=120)
    check(limited.wait_over().state.secondary == "MaxRuntimeExceeded", limited.secondary)
    num_lines = 0
    for job in (patient, waiting):
        job.wait_over()
        check(job.status == "Completed", f"{job.name}: {job.secondary}")
        lines = job.count_lines(_NUM_LINES)
        check(lines.is_exact, f"{job.name}: {lines}")
        num_lines += _NUM_LINES
    for job in (limited, patient, waiting):
        _check_order(job)
    ran, stall = _ran_seconds(limited)
    late = ran - MAX_RUN_SECONDS
    check(-0.1 <= late <= 1.0 + stall, f"ended {late:+.2f} s off its limit; stall {stall:.2f} s")
    return held(
        f"{len(jumps)} jumps of ±1 day and ±1 h; a limit of {MAX_RUN_SECONDS} s ended after "
        f"{ran:.2f} s (largest stall {stall:.2f} s); 2 other jobs, {num_lines} lines, 0 lost, "
        "0 doubled; no journal runs backwards"
    )


def _submit_waiting(server: Server, like: DrillJob) -> DrillJob:
    """There is no room for it yet, and it may wait for an hour or two."""
    request = json.loads(like.folder.spec.read_bytes())
    server.client("sagemaker").create_training_job(
        TrainingJobName="waiting",
        RoleArn="arn:aws:iam::000000000000:role/trackside",
        AlgorithmSpecification={"TrainingImage": "image", "TrainingInputMode": "File"},
        HyperParameters=request["HyperParameters"],
        OutputDataConfig={"S3OutputPath": request["OutputDataConfig"]["S3OutputPath"]},
        ResourceConfig=request["ResourceConfig"],
        StoppingCondition={"MaxRuntimeInSeconds": 1800, "MaxPendingTimeInSeconds": 7200},
    )
    return like.ground.job("waiting", at=server)


def client_clock_is_off(ground: Ground) -> Result:
    """20 minutes, both ways: whoever asks is told that it is the clock, and the job goes on."""
    clock = WallClock(ground.folder)
    server = ground.server()
    job = ground.submit_numbered(100, at=server, hold_at=50)
    job.wait_for_line("drill-line 50")
    said = []
    for seconds in (1200.0, -1200.0):
        clock.shift(seconds)
        for command in (("show", job.name), ("logs", job.name), ("stop", job.name)):
            done = ground.trackside(*command, at=server, environment=clock.variables, expect=None)
            text = done.stderr.decode(errors="replace")
            check(done.returncode != 0, f"`trackside {command[0]}` worked, {seconds:+g} s off")
            named = "This machine's clock differs" in text
            check(named, f"`trackside {command[0]}` does not name the clock: {text!r}")
            said.append(text)
    check(not job.is_over(), f"the job is {job.status}")
    ground.go()
    job.wait_over()
    check(job.status == "Completed", f"the job is {job.status}")
    lines = job.count_lines(100)
    check(lines.is_exact, str(lines))
    return held(f"{len(said)} requests ±20 min off, each refused by the name of the clock; {lines}")


@contextmanager
def _jumping(clock: WallClock) -> Iterator[list[float]]:
    """The jumps so far. In the end the clock is right again."""
    jumps: list[float] = []
    over = Event()

    def jump() -> None:
        for seconds in cycle(JUMPS_SECONDS):
            if over.wait(_JUMP_PAUSE_SECONDS):
                return
            clock.shift(seconds)
            jumps.append(seconds)

    thread = Thread(target=jump)
    thread.start()
    try:
        yield jumps
    finally:
        over.set()
        thread.join()
        clock.shift(0.0)


def _check_order(job: DrillJob) -> None:
    events = [json.loads(line) for line in job.folder.journal.read_bytes().splitlines()]
    times = [event["time"] for event in events]
    check(times == sorted(times), f"the journal's times of {job.name} run backwards: {times}")
    record = hosts.read(job.host().record)
    off = abs(record.ended_at - time.time()) if record else 0.0
    check(off > HOUR_SECONDS / 2, f"the supervisor of {job.name} saw no jump: {off:.0f} s off")


def _ran_seconds(job: DrillJob) -> tuple[float, float]:
    """From where the hosts met to the script's last line, by the time since boot; and the longest
    that the machine let it wait between two lines."""
    met = json.loads((job.folder.gang / "1.json").read_bytes())["clock"]
    moments = [float(found) for found in re.findall(rb"(?m)^at ([0-9.]+)$", job.raw_log())]
    gaps = [later - earlier for earlier, later in zip(moments, moments[1:], strict=False)]
    return moments[-1] - met, max(gaps)


CASES = (
    Case(29, "wall clock jumps", wall_clock_jumps, seconds=25),
    Case(30, "client's clock off", client_clock_is_off, seconds=25),
)
