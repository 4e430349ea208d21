"""Many jobs for a long time, and a fault every ten seconds.

The faults: SIGKILL for the server, a supervisor, an evaluator of rules; SIGSTOP of one of them, the
object store away, and a full disk, for seconds each. `DRILL_SOAK_SECONDS` and `DRILL_SOAK_JOBS`
make it shorter or longer.
"""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from benchmarks.drill.case import Broke, Case, NotShown, Result, broke, held
from benchmarks.drill.ground import Ground
from benchmarks.drill.job import DrillJob
from benchmarks.drill.kill_loop import (
    check_database,
    check_no_orphans,
    live_processes,
    live_supervisors,
)
from benchmarks.drill.numbered_lines import MARK, LineCount, count_lines
from trackside.records.layout import Home
from trackside.system import processes
from trackside.system.processes import Identity

SOAK_SECONDS = 3600.0
NUM_JOBS = 100
_AT_ONCE = 8
_FAULT_EVERY_SECONDS = 10.0
_AWAY_SECONDS = 4.0
_LINE_SECONDS = 0.1
_DISK = "700m"
_RULED_EVERY = 5
"""One job of so many has a rule, and so an evaluator."""
_END_SECONDS = 900.0

STUBBORN = f"""
import argparse, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--lines", type=int)
parser.add_argument("--pause", type=float)
options = parser.parse_args()

def insist(action):
    while True:
        try:
            return action()
        except OSError:  # the disk is full for a while
            time.sleep(0.1)

def say(text):
    data = text.encode()
    while data:
        data = data[insist(lambda: os.write(1, data)):]

def save():
    with open("/opt/ml/model/model.txt", "w") as file:
        file.write("trained " + str(options.lines))

for number in range(options.lines):
    say(f"{MARK} {{number}}\\n")
    time.sleep(options.pause)
insist(save)
"""
"""Prints its lines whatever the disk says: so what is missing was lost by somebody else."""


class Soak:
    def __init__(self, ground: Ground, *, seconds: float, num_jobs: int) -> None:
        self._ground = ground
        self._seconds = seconds
        self._random = Random(num_jobs)
        self.faults: Counter[str] = Counter()
        self._disk = _small_disk(ground)
        self._store = ground.server("--quiet", home=ground.folder / "store")
        self.server = ground.server(
            "--quiet",
            home=self._disk or ground.home,
            TRACKSIDE_CAPACITY=f"cores={_AT_ONCE}",
            TRACKSIDE_UPLOAD_DEADLINE="600",
            AWS_ENDPOINT_URL_S3=self._store.url,
            AWS_ACCESS_KEY_ID=self._store.key.id,
            AWS_SECRET_ACCESS_KEY=self._store.secret,
            AWS_REGION="us-east-1",
        )
        self._store.client("s3").create_bucket(Bucket="soak")
        each = seconds * _AT_ONCE / num_jobs * 0.8
        self.num_lines = max(20, round(each / _LINE_SECONDS))
        self.jobs = [self._submit(number) for number in range(num_jobs)]

    def _submit(self, number: int) -> DrillJob:
        options = ["-p", f"lines={self.num_lines}", "-p", f"pause={_LINE_SECONDS}"]
        options += ["--output", "s3://soak/out"]
        if number % _RULED_EVERY == 0:
            options += ["--rule", "LossNotDecreasing"]
        return self._ground.submit(STUBBORN, *options, at=self.server, name=f"soaked-{number}")

    def run(self) -> None:
        """Faults until the time is over; then everything is there again."""
        kinds: list[Callable[[], str]] = [
            self._kill_server,
            self._kill_supervisor,
            self._kill_evaluator,
            self._freeze,
            self._take_store_away,
        ]
        if self._disk is not None:
            kinds.append(self._fill_disk)
        end = time.monotonic() + self._seconds
        while (now := time.monotonic()) < end:
            if kind := self._random.choice(kinds)():
                self.faults[kind] += 1
            self._ground.tell(f"{end - now:.0f} s to go, {self.faults.total()} faults")
            pause = _FAULT_EVERY_SECONDS - (time.monotonic() - now)
            time.sleep(max(0.0, min(pause, end - time.monotonic())))

    # The faults; what each was, or "" when there was nobody to hit

    def _kill_server(self) -> str:
        self.server.restart()
        return "server killed"

    def _kill_supervisor(self) -> str:
        return self._hit(live_supervisors(self.jobs), "supervisor killed")

    def _kill_evaluator(self) -> str:
        return self._hit(_live_evaluators(self.jobs), "evaluator killed")

    def _hit(self, found: list[Identity], what: str) -> str:
        if not found:
            return ""
        processes.send_signal(self._random.choice(found), signal.SIGKILL)
        return what

    def _freeze(self) -> str:
        found = live_supervisors(self.jobs) + _live_evaluators(self.jobs)
        frozen = self._random.choice([*found, None])
        if frozen is None:
            return self._freeze_server()
        processes.send_signal(frozen, signal.SIGSTOP)
        time.sleep(_AWAY_SECONDS)
        processes.send_signal(frozen, signal.SIGCONT)
        return "process frozen"

    def _freeze_server(self) -> str:
        os.kill(self.server.pid, signal.SIGSTOP)
        time.sleep(_AWAY_SECONDS)
        os.kill(self.server.pid, signal.SIGCONT)
        return "server frozen"

    def _take_store_away(self) -> str:
        self._store.kill()
        time.sleep(_AWAY_SECONDS)
        self._store.start()
        return "store away"

    def _fill_disk(self) -> str:
        assert self._disk is not None
        filler = self._disk / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(1 << 20)):
                pass
        time.sleep(_AWAY_SECONDS)
        filler.unlink()
        return "disk full"

    # What came of it

    def count(self, job: DrillJob) -> list[LineCount]:
        """Of the file on disk, of `trackside logs` and of the chunks in the store."""
        stored = self._ground.job(job.name, at=self.server)
        stored.home = Home(self._store.home.root)
        logs = (job.raw_log(), job.log(), stored.stored_log())
        return [count_lines(log, self.num_lines) for log in logs]

    def check_end(self) -> None:
        self._ground.until(
            lambda: not _live_evaluators(self.jobs), "the evaluators have left", seconds=120
        )
        check_database(self.server)
        self._store.kill()
        check_no_orphans(self._ground)


def _small_disk(ground: Ground) -> Path | None:
    try:
        return ground.small_disk("disk", size=_DISK)
    except NotShown:
        return None


def _live_evaluators(jobs: list[DrillJob]) -> list[Identity]:
    return live_processes(job.folder.rules.evaluator for job in jobs)


def soak(ground: Ground) -> Result:
    seconds = float(os.environ.get("DRILL_SOAK_SECONDS", SOAK_SECONDS))
    num_jobs = int(os.environ.get("DRILL_SOAK_JOBS", NUM_JOBS))
    soaked = Soak(ground, seconds=seconds, num_jobs=num_jobs)
    soaked.run()
    problems, lost, doubled, num_held = [], 0, 0, 0
    for job in soaked.jobs:
        try:
            history = job.wait_over(seconds=_END_SECONDS)
            counts = soaked.count(job)
        except Broke as error:
            problems.append(f"{job.name}: {error}")
            continue
        lost += sum(len(count.lost) for count in counts)
        doubled += sum(len(count.doubled) for count in counts)
        if job.status != "Completed" or history.attempt != 1:
            problems.append(
                f"{job.name}: {job.status}, attempt {history.attempt}: {history.failure_reason}"
            )
        elif not all(count.is_exact for count in counts):
            problems.append(f"{job.name}: {'; '.join(map(str, counts))}")
        else:
            num_held += 1
    soaked.check_end()
    faults = ", ".join(f"{count} {what}" for what, count in sorted(soaked.faults.items()))
    figure = (
        f"{seconds:,.0f} s, {num_held} of {num_jobs} jobs held, {soaked.faults.total()} faults "
        f"({faults}), {num_jobs * soaked.num_lines:,} lines in three places, {lost} lost, "
        f"{doubled} doubled"
    )
    if problems:
        path = ground.evidence("problems.txt", "\n".join(problems) + "\n")
        return broke(figure, f"{problems[0]} ({path})")
    return held(figure)


CASES = (Case(None, "soak", soak, seconds=SOAK_SECONDS + 600, nightly=True),)
