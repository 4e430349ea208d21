"""Reading while a job writes, with several workers, from object storage, past torn segments."""

import json
import os
import shutil
import struct
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.capture.test_writer import point_at
from tests.capture.trials import SMDEBUG_TRIAL, collections_json, write_the_same
from tests.wait import until
from trackside.capture import trial as trial_module
from trackside.capture.exceptions import (
    NoMoreData,
    SMDebugValueError,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailableForStep,
)
from trackside.capture.modes import ModeKeys
from trackside.capture.reading import smdebug_source
from trackside.capture.reading.numpy_reductions import reduce_rows
from trackside.capture.reading.segment_reader import header_size
from trackside.capture.reading.smdebug_record import read_tensor
from trackside.capture.reading.step_table import StepState
from trackside.capture.reading.trial_folder import TrialFolder
from trackside.capture.refreshing import no_refresh, refresh
from trackside.capture.trial import create_trial
from trackside.capture.writing.segments import StepRecord
from trackside.capture.writing.writer import SegmentWriter, WriterLimits
from trackside.curves.records import frame
from trackside.files.json_record import DamagedRecord

EAGER = WriterLimits(age_seconds=0.01)


@pytest.fixture(autouse=True)
def short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_module, "LOCAL_POLL_SECONDS", 0.02)
    monkeypatch.setattr(trial_module, "END_DELAY_SECONDS", 0.05)


def record(step: int, value: float = 0.0, mode: str = "TRAIN", **parts: Any) -> StepRecord:
    parts.setdefault("tensors", {"w": np.full(3, value, np.float32)})
    return StepRecord(step, mode, step, 1.0, **parts)


def writer_to(out_dir: Path, worker: str = "worker_0", num_workers: int = 1) -> SegmentWriter:
    writer = SegmentWriter(str(out_dir), worker, home=out_dir, limits=EAGER)
    writer.put_collections(collections_json(num_workers, weights=["w"]))
    return writer


def flushed(writer: SegmentWriter, num_segments: int) -> None:
    until(lambda: writer.report().num_segments >= num_segments)


def test_a_running_job_is_read_step_by_step(tmp_path):
    writer = writer_to(tmp_path)
    writer.add(record(0))
    trial = create_trial(str(tmp_path))
    until(lambda: trial.steps() == [0])
    writer.add(record(10, 1.0))
    until(lambda: trial.steps() == [0, 10])
    assert trial.tensor("w").value(10).tolist() == [1, 1, 1]
    assert not trial.loaded_all_steps
    with pytest.raises(StepNotYetAvailable):
        trial.tensor("w").value(20)
    with pytest.raises(StepUnavailable):
        trial.tensor("w").value(5)
    writer.close()
    with pytest.raises(StepUnavailable):
        trial.tensor("w").value(20)
    assert trial.loaded_all_steps


def test_create_trial_waits_for_the_job_to_begin(tmp_path, caplog):
    made = []
    reader = threading.Thread(target=lambda: made.append(create_trial(str(tmp_path / "later"))))
    reader.start()
    until(lambda: "waiting" in caplog.text)
    writer = writer_to(tmp_path / "later")
    writer.add(record(0))
    reader.join()
    writer.close()
    assert made[0].steps() == [0]


def test_waiting_for_a_step_returns_when_it_comes(tmp_path):
    writer = writer_to(tmp_path)
    writer.add(record(0))
    trial = create_trial(str(tmp_path))
    done = threading.Event()

    def wait() -> None:
        trial.wait_for_steps([0, 7])
        done.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert not done.wait(0.1)
    writer.add(record(7))
    waiter.join()
    writer.close()
    with pytest.raises(NoMoreData) as caught:
        trial.wait_for_steps([8])
    assert caught.value.last_step == 7


def test_a_refresh_lists_only_what_is_new(tmp_path, monkeypatch):
    writer = writer_to(tmp_path)
    for step in range(5):
        writer.add(record(step))
        flushed(writer, step + 1)
    trial = create_trial(str(tmp_path))
    assert len(trial.steps()) == 5
    listed = []
    plain = TrialFolder.list

    def spy(self: TrialFolder, prefix: str, after: str = "") -> Any:
        for file in plain(self, prefix, after):
            listed.append(file.name)
            yield file

    monkeypatch.setattr(TrialFolder, "list", spy)
    assert len(trial.steps()) == 5
    assert listed == []
    writer.add(record(5))
    flushed(writer, 6)
    assert len(trial.steps()) == 6
    assert listed[1:] == ["collections/worker_0.json"]
    writer.close()


def test_a_name_that_joins_a_collection_is_there_with_its_first_step(tmp_path):
    writer = writer_to(tmp_path)
    writer.add(record(0))
    trial = create_trial(str(tmp_path))
    until(lambda: trial.steps() == [0])
    read = trial.collections_revision
    writer.add(record(1))
    until(lambda: trial.steps() == [0, 1])
    assert trial.collections_revision == read  # unchanged, and not read again
    writer.put_collections(collections_json(1, weights=["w"], losses=["mine"]))
    writer.add(record(2, tensors={"mine": np.full(1, 0.5, np.float32)}))
    until(lambda: 2 in trial.steps())
    assert trial.tensor_names(collection="losses") == ["mine"]
    assert trial.tensor_names(collection="weights") == ["w"]
    assert trial.collections_revision == read + 1


def test_a_segment_that_appears_late_is_not_missed(tmp_path):
    writer = writer_to(tmp_path)
    for step in range(4):
        writer.add(record(step))
        flushed(writer, step + 1)
    folder = tmp_path / "segments" / "worker_0"
    second = sorted(folder.iterdir())[1]
    second.rename(tmp_path / "held back")
    trial = create_trial(str(tmp_path))
    assert trial.steps() == [0, 2, 3]
    (tmp_path / "held back").rename(second)
    assert trial.steps() == [0, 1, 2, 3]
    writer.close()


def test_refresh_can_be_switched_off_and_is_on_after_the_block(tmp_path):
    writer = writer_to(tmp_path)
    writer.add(record(0))
    flushed(writer, 1)
    trial = create_trial(str(tmp_path))
    with no_refresh(trial):
        writer.add(record(1))
        flushed(writer, 2)
        assert trial.steps() == [0]
    assert trial.steps() == [0, 1]
    with refresh([trial]):
        assert trial.dynamic_refresh
    assert not trial.dynamic_refresh
    writer.close()


def test_a_step_is_complete_when_every_worker_has_written_it(tmp_path):
    first, second = (writer_to(tmp_path, f"worker_{i}", num_workers=2) for i in range(2))
    for step in (0, 1, 2):
        first.add(record(step, 10.0))
    flushed(first, 1)
    until(lambda: (tmp_path / "collections" / "worker_1.json").exists())
    trial = create_trial(str(tmp_path))
    assert trial.num_workers == 2
    assert trial.workers() == ["worker_0", "worker_1"]
    assert trial.steps() == []
    until(lambda: trial.steps(show_incomplete_steps=True) == [0, 1, 2])
    assert trial.has_passed_step(0) is StepState.NOT_YET_AVAILABLE
    second.add(record(1, 20.0))
    until(lambda: trial.last_complete_step == 1 or trial.steps())
    assert trial.steps() == [0, 1]
    assert trial.has_passed_step(0) is StepState.AVAILABLE
    assert trial.has_passed_step(2) is StepState.NOT_YET_AVAILABLE
    tensor = trial.tensor("w")
    assert list(tensor.values()) == [0, 1]
    assert tensor.value(1)[0] == 10.0
    assert tensor.value(1, worker="worker_1")[0] == 20.0
    assert list(tensor.values(worker="worker_1")) == [1]
    assert tensor.workers(1) == ["worker_0", "worker_1"]
    second.close(end_marker=False)
    first.close()
    assert trial.steps() == [0, 1, 2]
    assert tensor.values()[1][0] == 10.0


def test_a_lost_worker_does_not_hold_up_the_trial_for_ever(tmp_path, monkeypatch):
    monkeypatch.setenv("SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW", "10")
    writer = writer_to(tmp_path, num_workers=2)
    for step in range(12):
        writer.add(record(step))
    trial = create_trial(str(tmp_path))
    until(lambda: len(trial.steps(show_incomplete_steps=True)) == 12)
    assert trial.steps() == [0, 1, 2, 3, 4, 5]
    writer.close(end_marker=False)


def test_a_step_of_which_only_vitals_were_saved_was_not_saved(tmp_path):
    writer = writer_to(tmp_path)
    for step in range(6):
        name = "w" if step in (0, 2) else "vitals/x"
        writer.add(record(step, tensors={name: np.full(1, step, np.float32)}))
    flushed(writer, 1)
    trial = create_trial(str(tmp_path))
    until(lambda: len(trial.steps()) == 2)
    assert trial.has_passed_step(1) is StepState.UNAVAILABLE
    assert trial.has_passed_step(9) is StepState.NOT_YET_AVAILABLE
    for ask in (trial.tensor("w").value, lambda step: trial.wait_for_steps([step])):
        with pytest.raises(StepUnavailable):
            ask(1)
    writer.close()
    with pytest.raises(NoMoreData) as caught:
        trial.wait_for_steps([5])
    assert caught.value.last_step == trial.last_complete_step == 2
    assert trial.tensor("vitals/x").value(5) == [5.0]


def test_a_torn_segment_is_named_and_the_rest_is_read(tmp_path, caplog):
    writer = writer_to(tmp_path)
    for step in range(3):
        writer.add(record(step))
        flushed(writer, step + 1)
    writer.close()
    torn = sorted((tmp_path / "segments" / "worker_0").iterdir())[1]
    torn.write_bytes(torn.read_bytes()[:-5])
    trial = create_trial(str(tmp_path))
    assert trial.steps() == [0, 2]
    assert list(trial.tensor("w").values()) == [0, 2]
    assert trial.torn_segments == [f"segments/worker_0/{torn.name}"]
    assert torn.name in caplog.text


@pytest.mark.parametrize("mode", ["NONE", ["TRAIN"]])
def test_a_segment_with_impossible_values_spoils_no_other(tmp_path, caplog, mode):
    writer = writer_to(tmp_path)
    for step in range(3):
        writer.add(record(step))
        flushed(writer, step + 1)
    writer.close()
    odd = sorted((tmp_path / "segments" / "worker_0").iterdir())[1]
    data = odd.read_bytes()
    size = header_size(data, len(data))
    header = data[8:size].replace(b'\\"TRAIN\\"', json.dumps(json.dumps(mode))[1:-1].encode())
    odd.write_bytes(struct.pack("<Q", len(header)) + header + data[size:])
    trial = create_trial(str(tmp_path))
    assert trial.steps() == [0, 2]
    assert list(trial.tensor("w").values()) == [0, 2]
    assert trial.torn_segments == [f"segments/worker_0/{odd.name}"]
    assert odd.name in caplog.text


def test_steps_a_hundred_billion_apart_are_read(tmp_path):
    writer = writer_to(tmp_path)
    for step in (0, 1, 10**11):
        writer.add(record(step, float(step)))
    writer.close()
    trial = create_trial(str(tmp_path))
    assert trial.steps() == [0, 1, 10**11]
    assert trial.tensor("w").steps() == [0, 1, 10**11]
    assert trial.cube(["w"]).steps == (0, 1, 10**11)


def test_files_that_are_no_segments_are_passed_over(tmp_path):
    writer = writer_to(tmp_path)
    writer.add(record(0))
    writer.close()
    folder = tmp_path / "segments" / "worker_0"
    (folder / ".trackside-1-2.part").write_bytes(b"half")
    (folder / "notes.txt").write_text("mine")
    (tmp_path / "segments" / "README").write_text("mine")
    trial = create_trial(str(tmp_path))
    assert trial.steps() == [0]
    assert trial.torn_segments == []


def test_parts_of_a_step_that_come_later_are_merged(tmp_path):
    writer = writer_to(tmp_path)
    writer.add(record(3))
    flushed(writer, 1)
    writer.add(record(3, tensors={}, scalars={"scalar/accuracy": 0.5}))
    writer.close()
    trial = create_trial(str(tmp_path))
    assert trial.steps() == [3]
    assert trial.tensor_names(step=3) == ["scalar/accuracy", "w"]
    assert trial.tensor("scalar/accuracy").value(3).tolist() == [0.5]


def test_a_restarted_job_that_repeats_steps_is_read_with_its_newer_values(tmp_path):
    for value in (1.0, 2.0):
        writer = writer_to(tmp_path)
        for step in range(2, 5) if value == 2.0 else range(4):
            writer.add(record(step, value))
        writer.close(end_marker=value == 2.0)
        time.sleep(0.002)  # sessions differ by their millisecond
    trial = create_trial(str(tmp_path))
    found = {step: float(v[0]) for step, v in trial.tensor("w").values().items()}
    assert found == {0: 1.0, 1: 1.0, 2: 2.0, 3: 2.0, 4: 2.0}
    assert trial.tensor("w").value(3)[0] == 2.0


def test_a_trial_without_a_collections_file_is_read_all_the_same(tmp_path):
    writer = SegmentWriter(str(tmp_path), "worker_0", home=tmp_path)
    writer.add(record(0))
    writer.close()
    assert create_trial(str(tmp_path)).tensor_names() == ["w"]


@pytest.mark.parametrize(
    "content",
    [
        "[1]",
        "[" * 100_000,
        '{"collections": [], "_meta": []}',
        '{"collections": {"odd": 5, "weights": {"name": "weights", "include_regex": ["^w"]}}}',
        '{"collections": {"odd": {"name": "odd", "include_regex": ["a{99999999999}", "("]}}}',
        '{"_meta": {"num_workers": 1e400}}',
    ],
    ids=["list", "deep", "collections", "one of two", "patterns", "workers"],
)
def test_collections_of_any_content_cost_themselves(tmp_path, caplog, content: str):
    writer = SegmentWriter(str(tmp_path), "worker_0", home=tmp_path)
    writer.put_collections(content)
    writer.add(record(0))
    writer.close()
    trial = create_trial(str(tmp_path))
    assert trial.tensor_names() == ["w"]
    assert "Collections file collections/worker_0.json is damaged" in caplog.text
    if '"weights"' in content:
        assert trial.tensor_names(collection="weights") == ["w"]


def test_a_damaged_collections_file_is_named_and_the_tensors_are_read(tmp_path, caplog):
    writer = SegmentWriter(str(tmp_path), "worker_0", home=tmp_path)
    writer.put_collections('{"collections": ')
    writer.add(record(0))
    writer.close()
    assert create_trial(str(tmp_path)).tensor_names() == ["w"]
    assert "collections/worker_0.json" in caplog.text


def test_bfloat16_is_given_as_float32_and_its_own_name_is_kept(tmp_path):
    torch = pytest.importorskip("torch", reason="torch makes the tensor")
    writer = writer_to(tmp_path)
    writer.add(record(0, tensors={"b": torch.tensor([1.5, -2.0], dtype=torch.bfloat16)}))
    writer.close()
    tensor = create_trial(str(tmp_path)).tensor("b")
    assert tensor.value(0).dtype == np.float32
    assert tensor.value(0).tolist() == [1.5, -2.0]
    assert tensor.dtype(0) == "bfloat16"
    assert tensor.reduction_value(0, "min") == -2.0


def test_reading_from_object_storage_gives_the_same(tmp_path, s3_server, monkeypatch):
    point_at(s3_server.url, monkeypatch)
    bucket = s3_server.make_bucket()
    write_the_same(f"s3://{bucket}/jobs/run", tmp_path)
    write_the_same(str(tmp_path / "local"), tmp_path)
    here, there = create_trial(str(tmp_path / "local")), create_trial(f"s3://{bucket}/jobs/run")
    assert there.tensor_names() == here.tensor_names()
    assert there.steps(ModeKeys.EVAL) == here.steps(ModeKeys.EVAL)
    for name in here.tensor_names():
        ours, theirs = here.tensor(name).values(), there.tensor(name).values()
        assert list(ours) == list(theirs)
        for step, value in ours.items():
            np.testing.assert_array_equal(theirs[step], value)
    np.testing.assert_array_equal(there.cube().values, here.cube().values)


def test_a_running_job_is_read_from_object_storage(tmp_path, s3_server, monkeypatch):
    point_at(s3_server.url, monkeypatch)
    out_dir = f"s3://{s3_server.make_bucket()}/run"
    writer = SegmentWriter(out_dir, "worker_0", home=tmp_path, limits=EAGER)
    writer.put_collections(collections_json())
    writer.add(record(0))
    trial = create_trial(out_dir)
    until(lambda: trial.steps() == [0])
    writer.add(record(1))
    until(lambda: trial.steps() == [0, 1])
    writer.close()
    assert trial.steps() == [0, 1]
    assert trial.loaded_all_steps


def test_an_smdebug_trial_of_two_workers_is_read_as_it_grows(tmp_path):
    copy = tmp_path / "trial"
    shutil.copytree(SMDEBUG_TRIAL, copy, ignore=shutil.ignore_patterns("*.ts"))
    collections = copy / "collections/000000000/worker_0_collections.json"
    content = json.loads(collections.read_text())
    content["_meta"]["num_workers"] = 2
    collections.write_text(json.dumps(content))
    shutil.copy(collections, collections.with_name("worker_1_collections.json"))
    trial = create_trial(str(copy))
    assert trial.workers() == ["worker_0", "worker_1"]
    assert trial.steps() == []
    index = copy / "index/000000000"
    for step, complete in ((2, [0, 2]), (0, [0, 2]), (6, [0, 2, 3, 6])):
        shutil.copy(index / f"{step:012}_worker_0.json", index / f"{step:012}_worker_1.json")
        assert trial.steps() == complete
    assert trial.steps(show_incomplete_steps=True) == [0, 2, 3, 6, 8]
    assert trial.tensor("Net_fc.weight").workers(2) == ["worker_0", "worker_1"]
    assert trial.tensor("Net_fc.weight").workers(3) == ["worker_0"]
    (copy / "training_job_end.ts").touch()
    assert trial.steps() == [0, 2, 3, 6, 8]


def test_after_the_end_marker_the_last_refresh_waits_as_configured(tmp_path, monkeypatch):
    monkeypatch.setenv("SMDEBUG_TRAINING_END_DELAY_REFRESH", "0.25")
    waited: list[float] = []
    writer = writer_to(tmp_path)
    writer.add(record(0))
    trial = create_trial(str(tmp_path))
    monkeypatch.setattr(trial_module, "time", SimpleNamespace(sleep=waited.append))
    writer.close()
    assert trial.steps() == [0]
    assert waited == [0.25]
    assert trial.loaded_all_steps


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_a_wait_that_is_no_number_is_refused_by_name(tmp_path, monkeypatch, text):
    monkeypatch.setenv("SMDEBUG_TRAINING_END_DELAY_REFRESH", text)
    with pytest.raises(SMDebugValueError, match=f"SMDEBUG_TRAINING_END_DELAY_REFRESH='{text}'"):
        create_trial(str(tmp_path))


def running_smdebug_trial(folder: Path) -> Path:
    """Without its end marker and the events of step 2, which are given back."""
    shutil.copytree(SMDEBUG_TRIAL, folder / "trial", ignore=shutil.ignore_patterns("*.ts"))
    return (folder / "trial/events/000000000002").rename(folder / "late")


def test_an_event_file_that_comes_after_its_index_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(smdebug_source, "RETRY_SECONDS", 0.02)
    monkeypatch.setenv("SMDEBUG_MISSING_EVENT_FILE_RETRY_LIMIT", "5000")
    late = running_smdebug_trial(tmp_path)
    tensor = create_trial(str(tmp_path / "trial")).tensor("Net_fc.weight")
    arrival = threading.Timer(0.1, late.rename, [tmp_path / "trial/events/000000000002"])
    arrival.start()
    assert tensor.value(2).shape == (3, 8)
    arrival.join()


def test_an_event_file_that_never_comes_is_given_up(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(smdebug_source, "RETRY_SECONDS", 0.0)
    monkeypatch.setenv("SMDEBUG_MISSING_EVENT_FILE_RETRY_LIMIT", "3")
    running_smdebug_trial(tmp_path)
    tensor = create_trial(str(tmp_path / "trial")).tensor("Net_fc.weight")
    for read in (tensor.value, tensor.shape, tensor.dtype):
        with pytest.raises(TensorUnavailableForStep):
            read(2)
    with pytest.raises(TensorUnavailableForStep):
        tensor.reduction_value(2, "l2")
    assert "000000000002_worker_0.tfevents is not there, though its index is" in caplog.text
    assert tensor.value(0).shape == (3, 8)


def test_an_event_file_of_a_finished_job_is_not_waited_for(tmp_path, monkeypatch):
    running_smdebug_trial(tmp_path)
    (tmp_path / "trial/training_job_end.ts").touch()
    tensor = create_trial(str(tmp_path / "trial")).tensor("Net_fc.weight")
    monkeypatch.setattr(smdebug_source, "time", SimpleNamespace(sleep=pytest.fail))
    with pytest.raises(TensorUnavailableForStep):
        tensor.value(2)


def test_text_in_an_smdebug_trial_is_read_and_has_no_figures():
    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    tensor = bytes([1 << 3, 7]) + field(8, b"cat") + field(8, "ü".encode())
    event = field(5, field(1, field(1, b"tag") + field(8, tensor)))
    framed = frame(event)
    name, value = read_tensor(framed)
    assert (name, value.tolist()) == ("str", ["cat", "ü"])
    assert np.isnan(reduce_rows(value[None], "mean")).all()
    for length in range(len(framed)):
        with pytest.raises(DamagedRecord):
            read_tensor(framed[:length])


def test_a_trial_that_ended_long_ago_is_opened_at_once(tmp_path, monkeypatch):
    """With several workers, one waits after the end for the files of the slower ones."""
    for rank in range(2):
        writer = writer_to(tmp_path / "trial", f"worker_{rank}", num_workers=2)
        writer.close(end_marker=rank == 1)
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    create_trial(str(tmp_path / "trial"), home=tmp_path)
    long_ago = time.time() - 100
    os.utime(tmp_path / "trial" / "training_job_end.ts", (long_ago, long_ago))
    create_trial(str(tmp_path / "trial"), home=tmp_path)
    assert [seconds for seconds in waited if seconds in (0.0, 0.05)] == [0.05, 0.0]
