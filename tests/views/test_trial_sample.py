"""A first picture of a trial with many files is of some of them, says so, and is followed by the
whole."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.job_processes import end_processes_of
from tests.jobs.conftest import ENVIRON, STAND_IN
from tests.views.tensor_jobs import finished_job, trial_of
from trackside.capture.reading.trial_folder import FoundFile
from trackside.capture.selection.collection import CollectionManager
from trackside.capture.writing.segments import StepRecord
from trackside.capture.writing.writer import SegmentWriter
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import Record
from trackside.settings import Settings
from trackside.views.curves.binary_frame import decode
from trackside.views.curves.series import CurveReader
from trackside.views.job.shared_sources import SharedSources
from trackside.views.tensors import trial_sample
from trackside.views.tensors.heat_map import HeatMaps, HeatRequest
from trackside.views.tensors.open_trials import OpenTrials

NUM_STEPS = 24


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    monkeypatch.setenv("TRACKSIDE_S3", "embedded")
    settings = Settings.load({"TRACKSIDE_HOME": str(tmp_path / "home")})
    yield Jobs(settings, ENVIRON, supervisor_command=STAND_IN)
    end_processes_of(settings.home)


@pytest.fixture
def record(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> Record:
    """With a file for each step; a sample has four of them."""
    monkeypatch.setattr(trial_sample, "NUM_FILES", 4)
    monkeypatch.setattr(trial_sample, "LEAST_FILES", 8)
    record = finished_job(jobs)
    where = str(trial_of(jobs, record))
    with SegmentWriter(where, "worker_0", home=jobs.settings.home) as writer:
        writer.put_collections(CollectionManager().to_json_dict())
        for step in range(NUM_STEPS):
            tensors = {
                "gradient/a": np.array([step, -2.0], np.float32),
                "gradient/b": np.array([1.0], np.float32),
            }
            writer.add(StepRecord(step, "TRAIN", step, 0.0, tensors))
            writer.flush(60.0)
    return record


def drawn(maps: HeatMaps, record: Record, **request: Any) -> Any:
    [item] = decode(maps.heat(record, HeatRequest("gradients", **request)))
    return item


def test_a_first_picture_is_of_some_files_and_says_so(jobs: Jobs, record: Record):
    maps = HeatMaps(OpenTrials(jobs.settings.layout))
    known = maps.tensors(record, draft=True)
    draft, files = drawn(maps, record, draft=True), {"files": 4, "of": NUM_STEPS}
    assert known.pop("draft") == draft["draft"] == files
    assert list(draft["arrays"]["steps"]) == [0, 8, 15, NUM_STEPS - 1]
    whole = drawn(maps, record)
    assert "draft" not in whole
    assert list(whole["arrays"]["steps"]) == list(range(NUM_STEPS))
    assert draft["names"] == whole["names"]
    assert known == maps.tensors(record)
    # What is open is drawn whole, whatever is asked for.
    assert drawn(maps, record, draft=True).keys() == whole.keys()


def test_few_files_are_read_at_once(jobs: Jobs, record: Record, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trial_sample, "LEAST_FILES", NUM_STEPS + 1)
    maps = HeatMaps(OpenTrials(jobs.settings.layout))
    assert "draft" not in drawn(maps, record, draft=True)


def test_what_some_files_lack_is_drawn_from_all(jobs: Jobs, record: Record):
    """A figure of a filter that matches nothing in them, too: the whole says what is wrong."""
    maps = HeatMaps(OpenTrials(jobs.settings.layout))
    assert "draft" not in drawn(maps, record, draft=True, first=9, last=12)


def test_a_job_is_described_without_reading_all_files(jobs: Jobs, record: Record):
    trials, reader = OpenTrials(jobs.settings.layout), CurveReader(jobs)
    sources = SharedSources(jobs, record.spec.name, reader, trials)
    sources.refresh(jobs.describe(record.spec.name))
    assert sources.troubles == []
    assert "gradients" in sources.figures()
    assert trials.sample(record) is not None  # the trial is still to be opened
    reader.close()


def test_every_worker_has_its_first_and_last_file():
    names = [
        f"segments/worker_{worker}/{number:03d}" for worker in range(40) for number in range(9)
    ]
    chosen = [each.name for each in trial_sample.spread_files([FoundFile(n, 1) for n in names])]
    assert chosen == [n for n in names if n.endswith(("000", "008"))]
