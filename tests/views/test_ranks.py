"""Ranks against steps: what was recorded, and a note on what was not."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.capture.test_rank_times import DDP, run_two
from tests.job_processes import end_processes_of
from tests.jobs.conftest import ENVIRON, STAND_IN, make_spec, run_to_end
from tests.rules.profiling import Profiling
from tests.rules.recording import Recording
from tests.views.tensor_jobs import finished_job, trial_of
from trackside.capture.reading.rank_times import ranks_of
from trackside.capture.steps.rank_times import RankTimes
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import Record
from trackside.records.layout import profile_of
from trackside.settings import Settings
from trackside.storage.locate import locate
from trackside.views.curves.binary_frame import decode
from trackside.views.job.job_view import job_view
from trackside.views.job.ranks import MOST_COLUMNS, Ranks
from trackside.views.tensors.open_trials import OpenTrials


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    monkeypatch.setenv("TRACKSIDE_S3", "embedded")
    settings = Settings.load({"TRACKSIDE_HOME": str(tmp_path / "home")})
    yield Jobs(settings, ENVIRON, supervisor_command=STAND_IN)
    end_processes_of(settings.home)


def items(jobs: Jobs, record: Record) -> dict[str, Any]:
    view = Ranks(OpenTrials(jobs.settings.layout), jobs.settings.layout)
    found = decode(view.frame(record))
    for item in found:
        item["cells"] = item["arrays"]["cells"].reshape(
            len(item["ranks"]), len(item["arrays"]["steps"])
        )
        item["steps"] = item["arrays"]["steps"].tolist()
    return {item["quantity"]: item for item in found}


def write_times(folder: Path, rows: Mapping[str, list[list[float]]]) -> None:
    (folder / "ranks").mkdir(parents=True, exist_ok=True)
    for worker, of_worker in rows.items():
        times = RankTimes(worker, len(rows), lambda text: None)
        times._rows = [tuple(row) for row in of_worker]  # type: ignore[misc]
        (folder / "ranks" / f"{worker}.json").write_text(times.text())


@pytest.mark.parametrize("workers", ["one", pytest.param("all", marks=pytest.mark.nightly)])
def test_a_training_of_two_processes(jobs: Jobs, workers: str):
    record = finished_job(jobs)
    run_two(DDP, str(trial_of(jobs, record)), workers, "on")
    shown = items(jobs, record)
    assert [*shown] == ["step", "compute", "wait", "slowest", "loss", "gradient_norm"]
    assert shown["step"]["ranks"] == ["worker_0", "worker_1"]
    assert shown["step"]["steps"] == [0, 1, 2, 5, 6, 7]
    assert shown["step"]["note"] == "Measured by the hook in every process."
    measured = np.isfinite(shown["wait"]["cells"])
    assert measured.any(axis=1).all()
    total = shown["wait"]["cells"] + shown["compute"]["cells"]
    assert total[measured] == pytest.approx(shown["step"]["cells"][measured], rel=1e-5)
    ranks = ["worker_0", "worker_1"]
    assert shown["loss"]["ranks"] == shown["gradient_norm"]["ranks"] == ranks
    assert np.isfinite(shown["loss"]["cells"]).all()
    assert shown["loss"]["steps"] == [0, 1, 2, 3, 5, 6, 7, 8], "without the evaluation's"
    assert shown["loss"]["note"] == ""


def test_rows_of_several_steps_fill_their_columns(jobs: Jobs):
    record = finished_job(jobs)
    folder = trial_of(jobs, record)
    Recording(folder, num_workers=2).end()
    write_times(
        folder,
        {
            "worker_0": [[0, 3, 4, 4.0, 2.0, 0, 0], [4, 7, 4, 8.0, 3.0, 1.0, 2]],
            "worker_10": [[0, 1, 2, 6.0, 4.0, 0, 0], [2, 3, 2, 2.0, 1.5, 0, 0]],
            "worker_2": [[8, 9, 2, 1.0, 0.5, 0, 0]],
        },
    )
    shown = items(jobs, record)
    assert shown["step"]["ranks"] == ["worker_0", "worker_2", "worker_10"]
    assert shown["step"]["steps"] == [0, 2, 4, 8]
    expected = [[1, 1, 2, np.nan], [np.nan, np.nan, np.nan, 0.5], [3, 1, np.nan, np.nan]]
    assert np.array_equal(shown["step"]["cells"], np.array(expected, np.float32), equal_nan=True)
    assert shown["slowest"]["cells"][0].tolist()[:3] == [2.0, 2.0, 3.0]
    assert (shown["wait"]["ranks"], shown["compute"]["ranks"]) == (["worker_0"], ["worker_0"])
    assert np.nanmax(shown["wait"]["cells"]) == 0.5
    assert "Of 1 of 3 ranks" in shown["wait"]["note"]
    assert shown["loss"]["note"].startswith("No losses were saved:")


def test_all_ranks_are_workers_of_the_job(jobs: Jobs):
    record = finished_job(jobs)
    folder = trial_of(jobs, record)
    trial = Recording(folder).end()
    write_times(folder, {f"worker_{rank}": [[0, 0, 1, 1.0, 1.0, 0, 0]] for rank in range(12)})
    assert ranks_of(trial) == [f"worker_{rank}" for rank in range(12)]
    assert job_view(jobs, "job-1").workers == tuple(ranks_of(trial))


def test_many_steps_are_joined(jobs: Jobs):
    record = finished_job(jobs)
    folder = trial_of(jobs, record)
    Recording(folder, num_workers=2).end()
    rows = {
        f"worker_{rank}": [[step, step, 1, 1.0 + rank, 1.0, 0, 0] for step in range(rank, 9000, 3)]
        for rank in range(2)
    }
    write_times(folder, rows)
    shown = items(jobs, record)["step"]
    assert len(shown["steps"]) == MOST_COLUMNS
    assert np.nanmin(shown["cells"], axis=1).tolist() == [1.0, 2.0]
    assert np.nanmax(shown["cells"], axis=1).tolist() == [1.0, 2.0]


def test_times_of_the_profiler_serve_where_the_hook_has_none(jobs: Jobs):
    record = finished_job(jobs, ProfilerConfig={"S3OutputPath": "s3://out/profile"})
    where = profile_of(record.spec)
    assert where is not None
    place = locate(where, home=jobs.settings.home).local
    assert place is not None
    profiling = Profiling(place)
    profiling.steps([0.5, 0.25, 0.125])
    profiling.end()
    shown = items(jobs, record)
    assert shown["step"]["ranks"] == ["worker_0"]
    assert shown["step"]["cells"].tolist() == [[0.5, 0.25, 0.125]]
    assert shown["step"]["note"] == "From the profiler's timeline."
    assert shown["wait"]["ranks"] == []


def test_vitals_of_an_older_version(jobs: Jobs):
    record = finished_job(jobs)
    for rank in range(2):
        recording = Recording(
            trial_of(jobs, record),
            worker=f"worker_{rank}",
            num_workers=2,
            collections={"vitals": "^vitals/"},
        )
        for step in (0, 5):
            recording.step(step, {"vitals/step_seconds": 0.1 * (rank + 1)})
        recording.close(end_marker=rank == 1)
    shown = items(jobs, record)["step"]
    assert shown["note"] == "From vitals, which are sampled."
    assert (shown["steps"], shown["ranks"]) == ([0, 5], ["worker_0", "worker_1"])
    assert shown["cells"] == pytest.approx(np.array([[0.1, 0.1], [0.2, 0.2]]))


def test_a_job_that_recorded_nothing(jobs: Jobs):
    jobs.submit(make_spec())
    run_to_end(jobs)
    for item in items(jobs, jobs.record("job-1")).values():
        assert (item["ranks"], item["steps"], bool(item["note"])) == ([], [], True)
