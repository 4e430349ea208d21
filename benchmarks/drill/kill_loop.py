"""SIGKILL for server and supervisors, again and again while jobs run (case 3).

The jobs print numbered lines until the last kill is done. Then each must be Completed in its first
attempt, with every line once in the file on disk, in `trackside logs` and in the store.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random

from benchmarks.drill.case import Case, Result, check, held
from benchmarks.drill.ground import Ground
from benchmarks.drill.job import DrillJob
from benchmarks.drill.left_behind import described, processes_of
from benchmarks.drill.numbered_lines import MARK, count_lines
from benchmarks.drill.server import Server
from trackside.files import durable
from trackside.system import processes
from trackside.system.processes import Identity

UNTIL_GO = f"""
import argparse, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--pause", type=float)
parser.add_argument("--go")
options = parser.parse_args()
number = 0
while not os.path.exists(options.go):
    print("{MARK}", number, flush=True)
    number += 1
    time.sleep(options.pause)
with open("/opt/ml/model/lines", "w") as file:
    file.write(str(number))
"""
"""Prints numbered lines until the file exists; how many is in its model."""

_REVIVAL_SECONDS = 180.0


def submit_until_go(ground: Ground, server: Server, name: str, *options: str) -> DrillJob:
    figures = ("-p", "pause=0.1", "-p", f"go={ground.go_file}")
    return ground.submit(UNTIL_GO, *figures, *options, at=server, name=name)


def kill_loop(ground: Ground, *, num_kills: int, num_jobs: int) -> Result:
    random = Random(num_kills)
    server = ground.server("--quiet", TRACKSIDE_CAPACITY=f"cores={num_jobs}")
    jobs = [submit_until_go(ground, server, f"looped-{number}") for number in range(num_jobs)]
    for job in jobs:
        job.wait_for_line(f"{MARK} 0", seconds=120)
    hits: Counter[str] = Counter()
    while (done := hits.total()) < num_kills:
        ground.tell(f"{done} of {num_kills} kills")
        supervisors = live_supervisors(jobs)
        # The longer a supervisor keeps dying, the later it is revived: the server is killed then.
        if supervisors and random.random() < 0.6:
            processes.send_signal(random.choice(supervisors), 9)
            hits["of supervisors"] += 1
        else:
            server.restart()
            hits["of the server"] += 1
    ground.until(
        lambda: len(live_supervisors(jobs)) == num_jobs,
        "every job has a supervisor again",
        seconds=_REVIVAL_SECONDS,
    )
    ground.go()
    num_lines = sum(check_whole(job) for job in jobs)
    check_database(server)
    check_no_orphans(ground)
    kinds = ", ".join(f"{count:,} {what}" for what, count in hits.items())
    return held(
        f"{num_kills:,} kills ({kinds}), {num_jobs} jobs Completed, {num_lines:,} lines in three "
        "places, 0 lost, 0 doubled, 0 orphans, integrity_check ok"
    )


def live_supervisors(jobs: list[DrillJob]) -> list[Identity]:
    return live_processes(folder.supervisor for job in jobs for folder in job.host_folders())


def live_processes(records: Iterable[Path]) -> list[Identity]:
    """Those who wrote down who they are in one of these files, and are alive."""
    reported = [record for path in records if (record := durable.read_json(path))]
    return [found for found in map(Identity.from_record, reported) if processes.is_alive(found)]


def check_whole(job: DrillJob, *, seconds: float = _REVIVAL_SECONDS) -> int:
    """Waits for the end of a job that `UNTIL_GO` ran; the number of its lines."""
    history = job.wait_over(seconds=seconds)
    check(job.status == "Completed", f"{job.name} is {job.status}: {history.failure_reason}")
    check(history.attempt == 1, f"{job.name} was started again: attempt {history.attempt}")
    num_lines = int(job.model()["lines"])
    printed = job.count_lines(num_lines)  # which are the chunks in storage, too
    check(printed.is_exact, f"{job.name}: {printed}")
    on_disk = count_lines(job.raw_log(), num_lines)
    check(on_disk.is_exact, f"the log file of {job.name}: {on_disk}")
    return num_lines


def check_database(server: Server) -> None:
    """As it is after a last kill."""
    server.kill()
    with closing(sqlite3.connect(server.home.index)) as database:
        [answer] = database.execute("PRAGMA integrity_check").fetchall()
    check(answer == ("ok",), f"integrity_check: {answer}")


def check_no_orphans(ground: Ground) -> None:
    """Nothing of any job is left when all have ended and there is no server."""

    def left() -> list[str]:
        return [described(each.pid) for each in processes_of(ground.folder)]

    ground.until(lambda: not left(), "no process of an ended job is left", seconds=30)


CASES = (
    Case(3, "short kill loop", partial(kill_loop, num_kills=60, num_jobs=6), seconds=120),
    Case(
        3,
        "kill loop",
        partial(kill_loop, num_kills=1000, num_jobs=20),
        seconds=3600,
        nightly=True,
    ),
)
