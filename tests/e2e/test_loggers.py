"""What scripts log with mlflow, trackio and wandb themselves is among a job's curves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Job, Machine, made_machine
from tests.public_scripts import public_scripts_python
from tests.wait import until
from trackside import curves
from trackside.records.layout import curves_of
from trackside.records.status import Status

WAITS = """
import os, time
while not os.path.exists(os.environ["GO"]): time.sleep(0.05)
"""
MLFLOW = """
import mlflow
with mlflow.start_run(run_name="first"):
    for step in range(5):
        mlflow.log_metric("train/loss", 1 / (step + 1), step=step)
"""
TRACKIO = (
    """
import trackio
run = trackio.init(project="digits", name="first", config={"lr": 0.1}, auto_log_cpu=False)
for step in range(5):
    trackio.log({"loss": 1 / (step + 1)})
"""
    + WAITS
    + "trackio.finish()"
)
WANDB = (
    """
import wandb
wandb.init(project="digits")
for step in range(5):
    wandb.log({"loss": 1 / (step + 1), "train": {"acc": step}})
"""
    + WAITS
    + "wandb.finish()"
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    (tmp_path / "user").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("TRACKSIDE_PYTHON", public_scripts_python())
    with made_machine(tmp_path) as machine:
        yield machine


def values(job: Job, tag: str) -> dict[str, list[float]]:
    found = curves.read(curves_of(job.spec), home=job.machine.settings.home).scalars
    return {
        run: [round(float(value), 4) for value in series.values]
        for (run, its_tag), series in found.items()
        if its_tag == tag
    }


FALLING = [1.0, 0.5, 0.3333, 0.25, 0.2]


def test_mlflow(home: Machine):
    job = home.run(MLFLOW)
    assert job.history().state.status is Status.COMPLETED, job.log()
    [(run, found)] = values(job, "train/loss").items()
    assert run.startswith("mlflow/first-")
    assert found == FALLING


def test_trackio_while_it_runs(home: Machine):
    job = home.submit(TRACKIO)
    until(lambda: values(job, "loss") == {"trackio/digits/first": FALLING}, seconds=120)
    assert not job.history().state.is_final
    home.go.touch()
    assert job.wait().state.status is Status.COMPLETED, job.log()
    assert values(job, "loss") == {"trackio/digits/first": FALLING}
    [listed] = [each for each in home.jobs.artifacts(job.name) if each.kind == "files"]
    assert "trackio/digits.db" in {file.path for file in listed.files}


def test_wandb_while_it_runs_and_off_line_without_a_key(home: Machine):
    job = home.submit(WANDB)
    until(lambda: [*values(job, "loss").values()] == [FALLING], seconds=120)
    assert not job.history().state.is_final
    home.go.touch()
    assert job.wait().state.status is Status.COMPLETED, job.log()
    [run] = values(job, "loss")
    assert values(job, "train/acc") == {run: [0, 1, 2, 3, 4]}
    [listed] = [each for each in home.jobs.artifacts(job.name) if each.kind == "files"]
    assert any(file.path.startswith("wandb/offline-run-") for file in listed.files)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "offline None /opt/ml/code/trackio"),
        ({"WANDB_MODE": "online"}, "online None /opt/ml/code/trackio"),
        ({"WANDB_API_KEY": "k"}, "None k /opt/ml/code/trackio"),
        ({"TRACKIO_DIR": "/tmp/x"}, "offline None /tmp/x"),
        ({"TRACKIO_SPACE_ID": "me/space"}, "offline None None"),
    ],
)
def test_where_loggers_write_is_the_job_s_to_say(
    machine: Machine, given: dict[str, str], expected: str
):
    names = ("WANDB_MODE", "WANDB_API_KEY", "TRACKIO_DIR")
    script = f"import os; print('SET', *(os.environ.get(name) for name in {names}))"
    job = machine.run(script, Environment=given)
    assert job.said("SET") == expected
