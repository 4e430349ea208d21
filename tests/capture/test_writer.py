import errno
import os
import resource
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.capture.test_segments import contents_of
from tests.conftest import environment_for
from tests.wait import until
from trackside.capture.exceptions import SMDebugValueError
from trackside.capture.trial_layout import SegmentName
from trackside.capture.writing.segments import StepRecord
from trackside.capture.writing.writer import SegmentWriter, WriterLimits, oldest_age

EAGER = WriterLimits(age_seconds=0.01)


def record(step: int, size: int = 4, **parts: Any) -> StepRecord:
    tensors = {"w": np.full(size, step, np.float32)}
    return StepRecord(step, "TRAIN", step, 1.0, tensors=tensors, **parts)


def segments(out_dir: Path, worker: str = "worker_0") -> list[Path]:
    folder = out_dir / "segments" / worker
    return sorted(p for p in folder.glob("*") if SegmentName.parse(p.name))


def steps(out_dir: Path) -> list[int]:
    found = [contents_of(path.read_bytes()).steps for path in segments(out_dir)]
    return sorted(step for rows in found for step, *_ in rows)


def test_every_added_step_is_in_the_segments_after_close(tmp_path):
    limits = WriterLimits(age_seconds=3600)
    with SegmentWriter(str(tmp_path), "worker_0", home=tmp_path, limits=limits) as writer:
        for step in range(100):
            writer.add(record(step))
    assert steps(tmp_path) == list(range(100))
    assert len(segments(tmp_path)) == 1
    assert (tmp_path / "training_job_end.ts").read_bytes() == b""


def test_a_live_reader_sees_a_step_without_waiting_for_the_segment_to_fill(tmp_path):
    writer = SegmentWriter(str(tmp_path), "worker_0", home=tmp_path, limits=EAGER)
    writer.add(record(7))
    until(lambda: segments(tmp_path))
    assert steps(tmp_path) == [7]
    writer.close()


def test_segments_of_an_older_run_may_wait_longer():
    soon, patient = WriterLimits(age_seconds=0.25), WriterLimits(1, 1, 1.0, patient_seconds=3.0)
    assert [oldest_age(soon, age) for age in (0, 50, 100, 10_000)] == [0.25, 0.25, 0.5, 2.5]
    assert [oldest_age(patient, age) for age in (0, 10, 20, 50)] == [1.0, 1.0, 2.0, 3.0]
    assert [oldest_age(patient, age) for age in (800, 10_000)] == [4.0, 10.0]


def test_segments_roll_by_size(tmp_path):
    limits = WriterLimits(segment_bytes=1 << 20, age_seconds=3600)
    writer = SegmentWriter(str(tmp_path), "worker_0", home=tmp_path, limits=limits)
    for step in range(20):
        writer.add(record(step, size=100_000))
    writer.close()
    sizes = [path.stat().st_size for path in segments(tmp_path)]
    assert len(sizes) >= 4
    assert max(sizes) < 2 << 20


def test_segment_names_sort_in_the_order_of_writing_across_restarts(tmp_path):
    for run in range(3):
        writer = SegmentWriter(str(tmp_path), "worker_0", home=tmp_path, limits=EAGER)
        writer.add(record(10 - run))
        writer.close(end_marker=False)
        time.sleep(0.002)  # sessions differ by their millisecond
    first_steps = [contents_of(path.read_bytes()).steps[0][0] for path in segments(tmp_path)]
    assert first_steps == [10, 9, 8]
    assert not (tmp_path / "training_job_end.ts").exists()


def test_no_reader_ever_sees_a_half_written_segment(tmp_path):
    limits = WriterLimits(segment_bytes=1)
    writer = SegmentWriter(str(tmp_path), "worker_0", home=tmp_path, limits=limits)
    writer.add(record(0))
    until(lambda: segments(tmp_path))
    torn = []
    stop = threading.Event()

    def read() -> None:
        seen: set[str] = set()
        while not stop.is_set():
            for name in set(os.listdir(tmp_path / "segments" / "worker_0")) - seen:
                if SegmentName.parse(name) is not None:
                    seen.add(name)
                    data = (tmp_path / "segments" / "worker_0" / name).read_bytes()
                    try:
                        contents_of(data)
                    except ValueError as error:
                        torn.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for step in range(1, 16):
        writer.add(record(step, size=2_000_000))
    writer.close()
    stop.set()
    reader.join()
    assert torn == []
    assert steps(tmp_path) == list(range(16))


def test_what_does_not_fit_in_memory_is_written_and_not_dropped(tmp_path):
    limits = WriterLimits(memory_bytes=1 << 20, segment_bytes=1 << 30, age_seconds=3600)
    writer = SegmentWriter(str(tmp_path), "worker_0", home=tmp_path, limits=limits)
    for step in range(40):
        writer.add(record(step, size=50_000))
    assert writer.report().num_spilled > 10
    report = writer.close()
    assert report.num_lost == 0
    assert steps(tmp_path) == list(range(40))


def test_a_full_disk_is_counted_and_never_raised(tmp_path, caplog):
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = SegmentWriter(str(tmp_path), "worker_0", home=tmp_path, limits=EAGER)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limit[1]))
    try:
        for step in range(3):
            writer.add(record(step, size=100_000))
        until(lambda: writer.report().num_lost == 3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    writer.add(record(99))
    report = writer.close()
    assert report.num_lost == 3
    assert isinstance(report.failure, OSError)
    assert report.failure.errno == errno.EFBIG
    assert steps(tmp_path) == [99]
    assert len([r for r in caplog.records if "Capture continues" in r.message]) == 1
    assert not list(tmp_path.rglob("*.part"))


def test_an_unwritable_folder_is_reported_by_close(tmp_path):
    (tmp_path / "file").write_text("in the way")
    writer = SegmentWriter(str(tmp_path / "file" / "trial"), "worker_0", home=tmp_path)
    writer.add(record(0))
    writer.put_collections({"collections": {}})
    report = writer.close()
    assert report.num_lost == 1
    assert isinstance(report.failure, NotADirectoryError)


def test_a_record_that_is_no_record_is_reported_and_not_raised(tmp_path):
    writer = SegmentWriter(str(tmp_path), "worker_0", home=tmp_path)
    writer.add(StepRecord(0, "TRAIN", 0, 1.0, tensors={"odd": object()}))
    writer.add(StepRecord(1, "TRAIN", 1, 1.0, reduced=("a",), reductions=("min",), matrix="x"))
    writer.add(record(2))
    report = writer.close()
    assert report.num_lost == 2
    assert steps(tmp_path) == [2]


def test_a_tensor_without_a_stored_form_is_named_in_the_failure(tmp_path):
    writer = SegmentWriter(str(tmp_path), "worker_0", home=tmp_path)
    writer.add(StepRecord(4, "TRAIN", 4, 1.0, tensors={"text": np.array(["a"]), "w": np.ones(2)}))
    report = writer.close()
    assert report.num_lost == 0
    assert "'text' was not saved at step 4" in str(report.failure)
    assert steps(tmp_path) == [4]


def test_closing_twice_is_silent_and_adding_after_is_counted(tmp_path):
    writer = SegmentWriter(str(tmp_path), "worker_0", home=tmp_path)
    writer.close()
    writer.close()
    writer.add(record(0))
    assert writer.report().num_lost == 1


def test_a_forked_child_adds_nothing(tmp_path):
    writer = SegmentWriter(str(tmp_path), "worker_0", home=tmp_path)
    child = os.fork()
    if child == 0:
        writer.add(record(5))
        os._exit(0)
    os.waitpid(child, 0)
    writer.add(record(6))
    writer.close()
    assert steps(tmp_path) == [6]


@pytest.mark.parametrize("name", ["", "../worker", "a/b", ".hidden", "a" * 200])
def test_a_worker_name_that_would_leave_the_folder_is_refused(tmp_path, name):
    with pytest.raises(SMDebugValueError, match="Worker name"):
        SegmentWriter(str(tmp_path), name, home=tmp_path)


def test_a_written_record_is_let_go_at_once(tmp_path):
    """The hook uses its memory again as soon as nothing refers to it."""
    writer = SegmentWriter(str(tmp_path), "worker_0", home=tmp_path, limits=EAGER)
    value = np.ones(1000)
    gone = weakref.ref(value)
    writer.add(StepRecord(0, "TRAIN", 0, 1.0, tensors={"w": value}))
    del value
    until(lambda: gone() is None)
    writer.close()


def test_a_killed_process_leaves_whole_segments_only(tmp_path):
    code = (
        "import sys, numpy as np\n"
        "from pathlib import Path\n"
        "from trackside.capture.writing.segments import StepRecord\n"
        "from trackside.capture.writing.writer import SegmentWriter, WriterLimits\n"
        "limits = WriterLimits(segment_bytes=200_000, age_seconds=0.001)\n"
        "writer = SegmentWriter(sys.argv[1], 'worker_0', home=Path(sys.argv[1]), limits=limits)\n"
        "for step in range(10**9):\n"
        "    tensors = {'w': np.full(5000, step, np.float32)}\n"
        "    writer.add(StepRecord(step, 'TRAIN', step, 1.0, tensors=tensors))\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    until(lambda: len(segments(tmp_path)) > 20)
    child.kill()
    child.wait()
    found = steps(tmp_path)
    assert len(found) > 20
    assert found == list(range(len(found)))


def test_memory_stays_flat_over_ten_thousand_saved_steps(tmp_path):
    limits = WriterLimits(memory_bytes=8 << 20, segment_bytes=1 << 20, age_seconds=0.05)
    writer = SegmentWriter(str(tmp_path), "worker_0", home=tmp_path, limits=limits)
    process = psutil.Process()
    seen = []
    for step in range(10_000):
        writer.add(record(step, size=1024, scalars={"scalar/loss": 0.1}))
        if step % 1000 == 999:
            seen.append(process.memory_info().rss)
    writer.close()
    # After the first tenth only the queue may still grow, to 8 MB; 36 MB are written since.
    assert seen[-1] - seen[0] < 24 << 20
    assert sum(path.stat().st_size for path in segments(tmp_path)) > 40_000_000


def test_the_embedded_bucket_of_an_s3_location_is_written_directly(tmp_path):
    writer = SegmentWriter("s3://bucket/run", "worker_0", home=tmp_path)
    writer.put_collections('{"collections": {}}')
    writer.add(record(0))
    writer.close()
    bucket = tmp_path / "buckets" / "bucket" / "run"
    assert (bucket / "collections" / "worker_0.json").read_text() == '{"collections": {}}'
    assert steps(bucket) == [0]


def test_segments_go_to_the_object_store_and_leave_no_copy(tmp_path, s3_server, monkeypatch):
    point_at(s3_server.url, monkeypatch)
    bucket = s3_server.make_bucket()
    writer = SegmentWriter(f"s3://{bucket}/run 1", "worker_0", home=tmp_path, limits=EAGER)
    writer.put_collections("{}")
    for step in range(5):
        writer.add(record(step))
    report = writer.close()
    assert report.failure is None
    assert report.num_waiting == 0
    listed = s3_server.client().list_objects_v2(Bucket=bucket)["Contents"]
    keys = [item["Key"] for item in listed]
    assert keys[0] == "run 1/collections/worker_0.json"
    assert keys[-1] == "run 1/training_job_end.ts"
    assert any(key.startswith("run 1/segments/worker_0/") for key in keys)
    assert not [path for path in report.folder.rglob("*") if path.is_file()]


def test_a_store_that_is_away_costs_disk_and_the_next_run_sends_what_waits(
    tmp_path, s3_server, monkeypatch
):
    bucket = s3_server.make_bucket()
    point_at("http://127.0.0.1:9", monkeypatch)  # the discard port: nothing listens
    writer = SegmentWriter(f"s3://{bucket}/run", "worker_0", home=tmp_path, limits=EAGER)
    for step in range(5):
        writer.add(record(step))
    until(lambda: steps(writer.report().folder) == [*range(5)])
    report = writer.close(end_marker=False, timeout=1.0)
    assert report.num_lost == 0
    assert report.num_waiting >= 1

    point_at(s3_server.url, monkeypatch)
    again = SegmentWriter(f"s3://{bucket}/run", "worker_0", home=tmp_path)
    again.add(record(5))
    assert again.close().num_waiting == 0
    client = s3_server.client()
    found = []
    for item in client.list_objects_v2(Bucket=bucket, Prefix="run/segments/")["Contents"]:
        data = client.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
        found += [step for step, *_ in contents_of(data).steps]
    assert sorted(found) == list(range(6))


def point_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment_for(url).items():
        monkeypatch.setenv(name, value)
