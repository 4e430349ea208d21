"""Jobs as supervisors leave them, written by hand: for tests about their logs."""

import json
import shutil
from collections.abc import Sequence

from tests.api.training import request
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import spec_bytes
from trackside.records.journal import Journal
from trackside.records.layout import HostFolder, JobFolder
from trackside.records.log_lines import chunk_name, encode, read_marks
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary
from trackside.storage.locate import locate_object

Lines = Sequence[tuple[float, bytes]]
"""When each was seen, in the order of time, and its bytes."""

_COURSE = ("DOWNLOADING", "TRAINING", "UPLOADING", "COMPLETED")


def write_job(
    jobs: Jobs, name: str, attempts: Sequence[Lines], *, span: tuple[float, float], hosts: int = 1
) -> JobFolder:
    """One that ran from the first moment to the second, and has ended; a second host has the lines
    in the opposite order, at the same times."""
    folder = jobs.settings.layout.job(name)
    folder.root.mkdir(parents=True)
    machine = {"InstanceType": "ml.m5.large", "InstanceCount": hosts, "VolumeSizeInGB": 1}
    spec = JobSpec.from_request(request(name, ResourceConfig=machine))
    folder.spec.write_bytes(spec_bytes(spec))
    _write_journal(folder, len(attempts), span)
    for number, lines in enumerate(attempts, 1):
        for host in range(hosts):
            texts = [text for _, text in lines][:: -1 if host else 1]
            timed = [(lines[n][0], text) for n, text in enumerate(texts)]
            _write_log(folder.host(f"algo-{host + 1}", number), timed)
    return folder


def reopen(folder: JobFolder) -> None:
    """As if it ran again."""
    lines = folder.journal.read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(lines[:-2]))


def keep_in_storage_only(jobs: Jobs, folder: JobFolder, *, chunk_bytes: int) -> None:
    """Its folder was removed; the chunks may be split within a line."""
    jobs.refresh()
    record = jobs.record(folder.root.name)
    _put(jobs, record.keys.spec, folder.spec.read_bytes())
    _put(jobs, record.keys.journal, folder.journal.read_bytes())
    for host in record.spec.hosts:
        for attempt in range(1, record.history.attempt + 1):
            position = folder.host(host, attempt)
            raw, marks = position.log.read_bytes(), read_marks(position.log_times)
            start = 0
            while piece := raw[start : start + chunk_bytes]:
                cut = piece.rfind(b"\n") + 1 or len(piece)
                chunk = encode(piece[:cut], start, marks, record.history.modified)
                key = f"{record.keys.logs}/{host}/{chunk_name(attempt, start)}"
                _put(jobs, key, chunk)
                start += cut
    shutil.rmtree(folder.root)


def _put(jobs: Jobs, uri: str, data: bytes) -> None:
    position = locate_object(uri, home=jobs.settings.home)
    position.store.put(position.key, data)


def _write_journal(folder: JobFolder, num_attempts: int, span: tuple[float, float]) -> None:
    journal = Journal(folder.journal)
    journal.open()
    for move in _COURSE:
        journal.move(Secondary[move], attempt=num_attempts)
    events = [json.loads(line) for line in folder.journal.read_bytes().splitlines()]
    for number, event in enumerate(events):
        event["time"] = span[0] + (span[1] - span[0]) * number / (len(events) - 1)
    folder.journal.write_text("".join(json.dumps(event) + "\n" for event in events))


def _write_log(position: HostFolder, lines: Lines) -> None:
    position.root.mkdir(parents=True)
    size, marks = 0, []
    for time, text in lines:
        size += len(text)
        marks.append(f"{size} {time:.3f}\n")
    position.log.write_bytes(b"".join(text for _, text in lines))
    position.log_times.write_text("".join(marks))
