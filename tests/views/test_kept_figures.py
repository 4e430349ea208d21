"""Heat maps of large trials are the same when they come from what was kept, and what was kept is
never another job's, never damaged, and gone with its job."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.job_processes import end_processes_of
from tests.jobs.conftest import ENVIRON, STAND_IN
from tests.rules.recording import Recording
from tests.views.tensor_jobs import finished_job, running_job, trial_of
from trackside.errors import NoTensors
from trackside.jobs.jobs import Jobs
from trackside.settings import Settings
from trackside.views.table import kept_figures
from trackside.views.tensors.heat_map import HeatMaps, HeatRequest
from trackside.views.tensors.open_trials import OpenTrials

REQUESTS = [
    HeatRequest("gradients"),
    HeatRequest("gradients", figure="max"),
    HeatRequest("gradients", filter="[bc]$"),
    HeatRequest("gradients", columns=2),
    HeatRequest("gradients", first=2, last=3),
    HeatRequest("gradients", mode="TRAIN", worker="worker_0"),
]


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    monkeypatch.setenv("TRACKSIDE_S3", "embedded")
    settings = Settings.load({"TRACKSIDE_HOME": str(tmp_path / "home")})
    yield Jobs(settings, ENVIRON, supervisor_command=STAND_IN)
    end_processes_of(settings.home)


def maps_of(jobs: Jobs, *, keeps: bool = True) -> HeatMaps:
    """As in a process that was just started."""
    trials = OpenTrials(jobs.settings.layout)
    trials.kept = kept_figures.KeptFigures(jobs.settings.layout, least_arrays=1 if keeps else 10**9)
    return HeatMaps(trials)


def record_steps(folder: Path, count: int = 5, factor: float = 1.0) -> None:
    recording = Recording(folder)
    for step in range(count):
        names = ["a", "b", "c"] if step else ["a", "c"]
        values = {f"gradient/{name}": [factor * (step + 1.5), -2.0] for name in names}
        recording.step(step, values)
    recording.close()


def test_what_was_kept_draws_the_same(jobs: Jobs):
    record = finished_job(jobs)
    record_steps(trial_of(jobs, record))
    plain = maps_of(jobs, keeps=False)
    wanted = [plain.tensors(record), *(plain.heat(record, each) for each in REQUESTS)]
    assert not jobs.settings.layout.figures_of("job-1").exists()
    making = maps_of(jobs)
    assert [making.tensors(record), *(making.heat(record, each) for each in REQUESTS)] == wanted
    shutil.rmtree(trial_of(jobs, record))
    kept = maps_of(jobs)
    assert [kept.tensors(record), *(kept.heat(record, each) for each in REQUESTS)] == wanted
    with pytest.raises(NoTensors, match="matches 'nothing'"):
        kept.heat(record, HeatRequest("gradients", filter="nothing"))


@pytest.mark.parametrize("damage", [b"", b"\xff" * 200, None])
def test_what_is_damaged_is_made_again(jobs: Jobs, damage: bytes | None):
    record = finished_job(jobs)
    record_steps(trial_of(jobs, record))
    wanted = maps_of(jobs).heat(record, REQUESTS[0])
    for path in jobs.settings.layout.figures_of("job-1").iterdir():
        path.write_bytes(path.read_bytes()[:-3] if damage is None else damage)
    assert maps_of(jobs).heat(record, REQUESTS[0]) == wanted


def test_it_goes_with_its_job(jobs: Jobs):
    record = finished_job(jobs)
    record_steps(trial_of(jobs, record))
    before = maps_of(jobs).heat(record, REQUESTS[0])
    folder = jobs.settings.layout.figures_of("job-1")
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    jobs.delete("job-1")
    assert not folder.exists()
    again = finished_job(jobs)
    shutil.rmtree(trial_of(jobs, again), ignore_errors=True)
    record_steps(trial_of(jobs, again), factor=50.0)
    folder.mkdir()
    for name, data in kept.items():
        (folder / name).write_bytes(data)
    assert maps_of(jobs).heat(again, REQUESTS[0]) != before


def test_nothing_is_kept_of_a_running_job(jobs: Jobs):
    record: Any = running_job(jobs)
    record_steps(trial_of(jobs, record))
    maps_of(jobs).heat(record, REQUESTS[0])
    assert not jobs.settings.layout.figures_of("job-1").exists()
    jobs.stop("job-1")


def test_the_oldest_are_removed(jobs: Jobs, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept_figures, "MOST_JOBS", 1)
    record = finished_job(jobs)
    record_steps(trial_of(jobs, record))
    old = jobs.settings.layout.figures_of("older")
    old.mkdir(parents=True)
    maps_of(jobs).heat(record, REQUESTS[0])
    assert not old.exists()
    assert jobs.settings.layout.figures_of("job-1").exists()
