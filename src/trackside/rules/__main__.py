"""`python -m trackside.rules JOB_FOLDER NONCE`: watches one job by its rules, on its own.

May be started again at any time: it takes over where its predecessor died.
"""

import atexit
import faulthandler
import fcntl
import gc
import logging
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trackside.records import evaluator_process
from trackside.records.layout import JobFolder, RulesFolder
from trackside.records.spec import JobSpec
from trackside.rules.action.notifications import Notices
from trackside.rules.watched_job import WatchedJob
from trackside.settings import Settings, keep_files_private
from trackside.system.wake_ups import WakeUps
from trackside.system.worker import Worker

logger = logging.getLogger("trackside.rules")

NICENESS = 10
"""A tenth of a core's time where training wants all of it; all it needs where there is some."""
SPARE_CORES = 4
"""From so many on the evaluator stays on the last one, and off the caches of the others."""
HANG_SECONDS = 1800.0
"""One that has not come round for so long hangs: reading a long trial again takes minutes."""
_NEW_OBJECTS = 10_000
"""Allocations between collections of garbage: the modules alone, which stay, make more."""


def main(arguments: list[str]) -> int:
    root, nonce = arguments
    gc.set_threshold(_NEW_OBJECTS)
    atexit.register(gc.freeze)  # nothing is collected once more at the end
    keep_files_private()
    folder = JobFolder(Path(root))
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    folder.rules.root.mkdir(exist_ok=True)
    with folder.rules.lock.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("the job already has an evaluator")
            return 0
        wake = WakeUps()
        evaluator_process.write_myself(folder.rules, nonce)
        step_back()
        with heartbeat(folder.rules):
            evaluate(folder, Settings.load(), wake)
        folder.rules.evaluator.unlink(missing_ok=True)
    return 0


def evaluate(folder: JobFolder, settings: Settings, wake: WakeUps | None = None) -> None:
    spec = JobSpec.from_stored(folder.spec.read_bytes())
    job = WatchedJob(folder, spec, settings)
    notices = Notices(job)
    alarm = Alarm()
    try:
        if not evaluator_process.has_rules(job.spec):
            # Rules may come to a job while it runs.
            notices.await_end(alarm.put_off, unless=lambda: evaluator_process.has_rules(job.spec))
        if evaluator_process.has_rules(job.spec):
            _watch(job, notices, alarm, wake)
        if notices.is_wanted:
            notices.await_end(alarm.put_off)
            notices.ended()
    finally:
        faulthandler.cancel_dump_traceback_later()
    notices.close()
    folder.rules.notified.touch()


def _watch(job: WatchedJob, notices: Notices, alarm: "Alarm", wake: WakeUps | None) -> None:
    # Of a job without rules only the end is published: that takes a tenth of the memory.
    from trackside.rules.action.action_taker import ActionTaker
    from trackside.rules.evaluation.evaluator import Evaluator
    from trackside.rules.evaluation.publisher import Publisher

    actions, publisher = ActionTaker(job), Publisher(job)
    publisher.start()
    evaluator = Evaluator(job, actions, notices, wake)
    try:
        evaluator.run(alarm.put_off)
    finally:
        evaluator.close()
    actions.close()
    publisher.close(job.settings.upload_deadline_seconds)
    job.folder.rules.published.touch()


@contextmanager
def heartbeat(rules: RulesFolder) -> Iterator[None]:
    """Inside, a thread shows that this process moves, however long a turn takes."""
    seconds = evaluator_process.BEAT_SECONDS
    beat = Worker(
        "trackside-heartbeat",
        lambda: evaluator_process.beat(rules),
        interval=seconds,
        delay=seconds,
        retry_seconds=(seconds, seconds),
    )
    with beat:
        yield


class Alarm:
    """Ends the process, with a trace in its log, unless it is put off in time."""

    def __init__(self) -> None:
        self._set_at = -math.inf

    def put_off(self) -> None:
        # Not at each of five turns a second: it starts a thread.
        if time.monotonic() - self._set_at >= HANG_SECONDS / 30:
            faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
            self._set_at = time.monotonic()


def step_back() -> None:
    """Training comes first."""
    try:
        os.nice(NICENESS)
        if sys.platform == "linux":
            cores = sorted(os.sched_getaffinity(0))
            if len(cores) >= SPARE_CORES:
                os.sched_setaffinity(0, cores[-1:])
    except OSError as error:
        logger.info("it runs like any other process: %s", error)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
