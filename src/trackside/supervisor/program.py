"""A supervisor's process, from its arguments to its end: see `__main__`, which loads it.

May be restarted at any time: it continues where its predecessor died.
"""

import fcntl
import logging
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from trackside.errors import TracksideError
from trackside.files import disk_space
from trackside.records import pending_uploads
from trackside.records.group import read_group
from trackside.records.job_updates import with_updates
from trackside.records.journal import Journal
from trackside.records.layout import JobFolder
from trackside.records.owners import Submitter
from trackside.records.spec import JobSpec
from trackside.settings import Settings, keep_files_private
from trackside.supervisor.attempt import Attempt
from trackside.supervisor.context import Context
from trackside.supervisor.engine_notice import EngineNotice
from trackside.supervisor.free_disk import free_disk, keeps_files
from trackside.supervisor.gang import write_supervisor
from trackside.supervisor.open_writers import ignore_lease_breaks
from trackside.supervisor.script_start import leave_limits_of_others
from trackside.system.wake_ups import WakeUps

logger = logging.getLogger("trackside.supervisor")

LEAD_GONE_SECONDS = 60.0
DISK_SECONDS = 1.0
"""How often a full disk is tried again, once there is a script."""


def main(arguments: list[str]) -> int:
    keep_files_private()
    leave_limits_of_others()
    ignore_lease_breaks()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    if arguments[:1] == ["--group"]:
        return _join(arguments[1])
    root, host, nonce = arguments
    return _hold(JobFolder(Path(root)), host, nonce)


def _join(which: str) -> int:
    from trackside.supervisor.join_group import join  # for other machines only

    try:
        joined = join(which, os.environ)
    except TracksideError as error:
        logger.error("%s", error)
        return 1
    return _hold(joined.folder, joined.host, joined.nonce, waits=True)


def _hold(folder: JobFolder, host: str, nonce: str, *, waits: bool = False) -> int:
    """`waits` until an earlier supervisor ends: an engine ends everything on a host with the
    process that it has started."""
    with (folder.root / f"{host}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("%s already has a supervisor", host)
            return 0
        supervise(folder, host, nonce)
    return 0


def supervise(folder: JobFolder, host: str, nonce: str) -> None:
    spec = JobSpec.from_stored(folder.spec.read_bytes())
    group = read_group(folder)
    is_of_server = bool(Submitter.of(Journal(folder.journal).read()).key)
    context = Context(
        folder,
        spec,
        host,
        nonce,
        Settings.load(),
        dict(os.environ),
        is_of_server,
        WakeUps(),
        None if group is None or group.shares_files else EngineNotice(group.ends_at, group.notice),
    )
    _end_earlier(context)
    while True:
        try:
            if _go_on(context):
                return
        except OSError as error:
            if not disk_space.takes_nothing(error):
                raise
            logger.warning("waiting for the disk: %s", error)
            time.sleep(DISK_SECONDS)


def _go_on(context: Context) -> bool:
    """Advance the job as far as possible from its current state. Whether it is finished."""
    history = context.journal.read()
    if history.state.is_final:
        _finish_ending(context, history.attempt)
        return True
    context.folder.reserve_ballast()
    host_folder = context.folder.host(context.host, history.attempt)
    host_folder.root.mkdir(parents=True, exist_ok=True)
    write_supervisor(host_folder, context.nonce)
    now = replace(context, spec=with_updates(context.spec, history).spec)
    attempt = Attempt(now, history.attempt)
    attempt.coordination.start()
    try:
        return _take_part(attempt)
    finally:
        attempt.coordination.close()


def _take_part(attempt: Attempt) -> bool:
    """Take one attempt to its end. Whether there is nothing left to do for this host."""
    attempt.run()
    if attempt.coordination.is_over():
        return True
    if not attempt.coordination.is_lead:
        return not _wait_for_the_lead(attempt)
    from trackside.supervisor.lead import conclude  # packing: 25 ms the start can do without

    return conclude(attempt)


def _finish_ending(context: Context, number: int) -> None:
    """The lead's predecessor may have died between the final status and the last upload."""
    attempt = Attempt(context, number)
    if not attempt.coordination.is_lead:
        return _free_own_disk(attempt)
    attempt.coordination.start()
    try:
        home = context.settings.layout
        if pending_uploads.keeps_files(home, context.spec.name) is not None:
            from trackside.supervisor.lead import wind_up

            wind_up(attempt, time.monotonic() + context.settings.upload_deadline_seconds)
    finally:
        attempt.coordination.close()


def _free_own_disk(attempt: Attempt) -> None:
    """The lead does it for the hosts of its own machine."""
    folder = attempt.context.folder
    group = read_group(folder)
    if group is None or group.shares_files or attempt.record.unsent:
        return
    history = attempt.context.journal.read()
    if not keeps_files(history):
        free_disk(folder, [group.host], history)


def _end_earlier(context: Context) -> None:
    """A host that was given up as lost may come back to a job that continued without it."""
    history = context.journal.read()
    over = history.attempt + 1 if history.state.is_final else history.attempt
    for number in range(1, over):
        if context.folder.host(context.host, number).sandbox.is_dir():
            Attempt(context, number).kill()


def _wait_for_the_lead(attempt: Attempt) -> bool:
    """Until the job has ended or another attempt starts. False when the lead is gone for good."""
    coordination = attempt.coordination
    while True:
        history = attempt.context.journal.read()
        if history.state.is_final or history.attempt != attempt.number:
            return True
        if why := coordination.is_over():
            logger.error("%s", why)
            return False
        lead = coordination.liveness(coordination.hosts[0])
        if not lead.supervisor and lead.silent_seconds > LEAD_GONE_SECONDS:
            logger.error("the lead is gone; the next command that reads the job restarts it")
            return False
        time.sleep(0.1)
