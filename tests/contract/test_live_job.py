"""The view of a job, read on this machine and from a server: what it shows must be the same."""

from pathlib import Path

import pytest

from tests.contract.test_jobs import jobs as jobs
from tests.contract.test_jobs import server as server
from tests.contract.test_jobs import start, until_training
from tests.wait import until
from trackside.jobs.job_service import JobService
from trackside.views.job.live_job import LiveJob

pytestmark = pytest.mark.timeout(400)

SCRIPT = """
import os, pathlib, time
from trackside import SummaryWriter

with SummaryWriter("/opt/ml/output/tensorboard") as writer:
    for step in range(5):
        writer.add_scalar("loss/train", 1.0 / (step + 1), step)
print("x" * 200_000)
for number in range(20):
    print("line", number, flush=True)
time.sleep(float(os.environ["PAUSE"]))
"""


def test_a_running_job_and_a_finished_one_show_curves_and_log(jobs: JobService, tmp_path: Path):
    (tmp_path / "slow.py").write_text(SCRIPT)
    job = start(entry_point="slow.py", environment={"PAUSE": "600"})
    until_training(job)
    live = LiveJob(jobs, job.job_name)
    until(lambda: [curve.name for curve in live.refresh().curves] == ["loss/train"])
    until(lambda: [line.text for line in live.refresh().log][-1:] == ["line 19"])
    seen = live.refresh()
    assert seen.view.sentence == "Not watched: start it with --rule all."
    assert seen.view.has.curves
    assert seen.step == 4
    assert seen.view.phases[-1].name == "Training"
    jobs.stop(job.job_name)
    jobs.wait(job.job_name)
    until(lambda: live.refresh().is_over)
    for reader in (live, LiveJob(jobs, job.job_name)):
        ended = reader.refresh()
        assert [curve.name for curve in ended.curves] == ["loss/train"]
        assert "line 19" in [line.text for line in ended.log]
        assert ended.view.status == "Stopped"
    assert jobs.record(job.job_name).spec.name == job.job_name
