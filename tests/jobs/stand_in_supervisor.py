"""A process in a supervisor's place: it keeps a supervisor's promises in the job's folder and does
no work. What it is to do is in the job's hyperparameters."""

import fcntl
import json
import os
import sys
import time
from pathlib import Path

from trackside.files import durable
from trackside.jobs.records import read_spec
from trackside.records import hosts
from trackside.records.hosts import HostRecord, Phase
from trackside.records.journal import Journal
from trackside.records.layout import Home, HostFolder, JobFolder, JobKeys
from trackside.records.log_lines import chunk_name, encode, read_marks
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary, Status
from trackside.storage.locate import locate_object
from trackside.system import processes

DEADLINE = time.monotonic() + 400
"""As long as a test may take; none leaves a process behind for longer."""


def main(root: str, host: str, nonce: str) -> None:
    folder = JobFolder(Path(root))
    spec = read_spec(folder)
    journal = Journal(folder.journal)
    place = folder.host(host, journal.read().attempt)
    lock = os.open(place.root / "supervisor.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    if journal.read().state.is_final:
        return
    me = processes.myself()
    record = {"pid": me.pid, "started": me.started, "boot_id": me.boot_id, "nonce": nonce}
    durable.write_json(place.supervisor, record)
    with (place.root / "starts").open("a") as starts:
        starts.write(f"{me.pid} {os.environ.get('SECRET_TOKEN', '')}\n")
    if spec.hyperparameters.get("dies"):
        os._exit(1)
    if host == spec.hosts[0]:
        lead(spec, folder, place, journal)
    else:
        follow(place, journal)


def lead(spec: JobSpec, folder: JobFolder, place: HostFolder, journal: Journal) -> None:
    journal.try_move(Secondary.DOWNLOADING)
    journal.try_move(Secondary.TRAINING)
    write_log(place, int(spec.hyperparameters.get("lines", "3")))
    # The last thing before it waits: from then on a test may write in its place.
    hosts.write(place.record, HostRecord(phase=Phase.RUNNING, isolation="none"))
    hold = spec.hyperparameters.get("hold")
    while hold and not (folder.root / "release").exists() and in_progress(journal):
        time.sleep(0.01)
    end(spec, folder, place, journal)


def follow(place: HostFolder, journal: Journal) -> None:
    write_log(place, 2)
    hosts.write(place.record, HostRecord(phase=Phase.RUNNING))
    while in_progress(journal):
        time.sleep(0.01)
    hosts.write(place.record, HostRecord(phase=Phase.ENDED, exit_code=0))


def end(spec: JobSpec, folder: JobFolder, place: HostFolder, journal: Journal) -> None:
    keys, home = JobKeys.of(spec), Home(folder.root.parent.parent)
    failure = spec.hyperparameters.get("failure", "")
    code = 1 if failure else 0
    hosts.write(place.record, HostRecord(phase=Phase.ENDED, exit_code=code, failure=failure))
    journal.try_move(Secondary.UPLOADING)
    for number, host in enumerate(spec.hosts, 1):
        send_log(folder.host(host, journal.read().attempt), f"{keys.logs}/algo-{number}", home)
    put(keys.model, b"a model", home)
    listed = [{"uri": keys.model, "size_bytes": 7, "sha256": "0" * 64}]
    put(keys.artifacts, json.dumps(listed).encode(), home)
    if failure:
        journal.try_move(Secondary.FAILED, reason=failure)
    elif not in_progress(journal):
        journal.try_move(Secondary.STOPPED)
    else:
        journal.try_move(Secondary.COMPLETED)
        journal.try_move(Secondary.STOPPED)  # when a stop was just in time
    journal.send(lambda data: put(keys.journal, data, home))


def in_progress(journal: Journal) -> bool:
    if time.monotonic() > DEADLINE:
        sys.exit("the test that started this is over")
    return journal.read().state.status is Status.IN_PROGRESS


def write_log(place: HostFolder, num_lines: int) -> None:
    with place.log.open("ab", buffering=0) as log, place.log_times.open("a") as times:
        for number in range(num_lines):
            log.write(b"line %d\n" % number)
            times.write(f"{log.tell()} {time.time():.3f}\n")


def send_log(place: HostFolder, to: str, home: Home) -> None:
    if place.log.exists():
        raw, marks = place.log.read_bytes(), read_marks(place.log_times)
        middle = len(raw) // 2  # in the middle of a line
        attempt = int(place.root.name)
        for offset, part in ((0, raw[:middle]), (middle, raw[middle:])):
            chunk = encode(part, offset, marks, time.time())
            put(f"{to}/{chunk_name(attempt, offset)}", chunk, home)


def put(uri: str, data: bytes, home: Home) -> None:
    location = locate_object(uri, home=home.root)
    location.store.put(location.key, data)


if __name__ == "__main__":
    main(*sys.argv[1:])
