"""Jobs whose logs a test writes, in the folder of a running job or in storage."""

import shutil
from collections.abc import Sequence

from tests.jobs.conftest import is_training, make_spec, run_to_end
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import Record
from trackside.records.log_lines import TimeMark, chunk_name, encode
from trackside.storage.locate import locate

FIRST_TIME = 1_800_000_000.0


def held_job(jobs: Jobs, log: bytes, times: Sequence[TimeMark] = (), num_hosts: int = 1) -> Record:
    """Running, with this log on its last host."""
    jobs.submit(make_spec(num_hosts=num_hosts, hyper={"hold": "yes", "lines": "0"}))
    until(lambda: is_training(jobs, "job-1"))
    folder = jobs.settings.layout.job("job-1").host(f"algo-{num_hosts}", 1)
    folder.log.write_bytes(log)
    marks = "".join(f"{mark.size} {mark.time:.3f}\n" for mark in times)
    folder.log_times.write_text(marks)
    return jobs.record("job-1")


def append(jobs: Jobs, data: bytes, host: str = "algo-1") -> None:
    with jobs.settings.layout.job("job-1").host(host, 1).log.open("ab") as file:
        file.write(data)


def stored_job(jobs: Jobs, chunks: Sequence[tuple[int, bytes]], host: str = "algo-1") -> Record:
    """Finished, without a folder, with these chunks by offset; a second for each line."""
    jobs.submit(make_spec(hyper={"lines": "0"}))
    run_to_end(jobs)
    jobs.list()
    shutil.rmtree(jobs.settings.layout.job("job-1").root)
    record = jobs.record("job-1")
    for offset, raw in chunks:
        put_chunk(jobs, record, offset, raw, host)
    return record


def put_chunk(jobs: Jobs, record: Record, offset: int, raw: bytes, host: str = "algo-1") -> None:
    place = locate(f"{record.keys.logs}/{host}", home=jobs.settings.home)
    chunk = place.child(chunk_name(1, offset))
    marks = [TimeMark(at + 1, FIRST_TIME + at) for at in range(offset, offset + len(raw))]
    chunk.store.put(chunk.key, encode(raw, offset, marks, FIRST_TIME))
