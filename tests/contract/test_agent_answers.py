"""What agents are told, on this machine and at a server."""

from pathlib import Path

import pytest

from tests.contract.test_jobs import jobs as jobs
from tests.contract.test_jobs import server as server
from tests.contract.test_jobs import start, until_training
from tests.server_process import ServerProcess
from trackside.api.keys import AccessKeys
from trackside.errors import TracksideError
from trackside.jobs.job_service import JobService
from trackside.records.layout import Home
from trackside.records.rights import Rights
from trackside.sdk.known_jobs import known_jobs
from trackside.views.agents.agent_answers import Answers

pytestmark = pytest.mark.timeout(400)

SCRIPT = """
import os, sys
for step in range(30):
    print("step", step, flush=True)
raise ValueError("the labels are wrong")
"""


def test_a_failed_job_is_explained_listed_and_searched(jobs: JobService, tmp_path: Path):
    (tmp_path / "bad.py").write_text(SCRIPT)
    job = start(entry_point="bad.py", hyperparameters={"lr": 0.5})
    jobs.wait(job.job_name)
    other = start(entry_point="bad.py", hyperparameters={"lr": 0.25})
    jobs.wait(other.job_name)
    answers = Answers(jobs, str)
    said = answers.what_is_wrong(job.job_name)
    assert "Failed: " in said
    assert "ValueError: the labels are wrong" in said
    same = [line for line in answers.what_is_wrong().splitlines() if "the labels are wrong" in line]
    assert len(same) == 1  # of both jobs: the same line of code
    listed = answers.list_jobs(f"name:{job.job_name} lr>0.3")
    assert listed.startswith(f"{job.name}, Failed, ")
    assert "lr 0.5" in listed
    assert answers.list_jobs(f"name:{job.job_name} lr<0.3") == "No job matches."
    around = answers.logs_around(job.job_name, pattern="step 1[0-9]", count=4).splitlines()
    assert around[0].startswith("10 matches, the first in line ")
    assert sum(line.startswith(">") for line in around) == 1
    last = answers.logs_around(job.job_name, count=30)
    assert "ValueError: the labels are wrong" in last
    compared = answers.compare([job.job_name, other.job_name]).splitlines()
    assert "hyperparameter lr: 0.5 | 0.25" in compared
    assert "already Failed" in answers.stop_job(job.job_name)


def test_the_same_failure_at_another_line_is_another_problem(jobs: JobService, tmp_path: Path):
    """As the page groups them."""
    later = 'def load():\n    raise ValueError("the labels are wrong")\n\nload()\n'
    for name, script in (("bad.py", SCRIPT), ("later.py", later)):
        (tmp_path / name).write_text(script)
        jobs.wait(start(entry_point=name).job_name)
    said = Answers(jobs, str).what_is_wrong().splitlines()
    problems = [line for line in said if "the labels are wrong" in line]
    assert len(problems) == 2
    assert ["later.py:2" in line for line in problems].count(True) == 1


def test_a_key_that_may_only_read_stops_nothing(
    server: ServerProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    server.use(monkeypatch)
    (tmp_path / "slow.py").write_text("import time; time.sleep(600)")
    job = start(entry_point="slow.py")
    until_training(job)
    key, secret = AccessKeys(Home(server.home).server.root).create("reader", Rights.READ)
    monkeypatch.setenv("TRACKSIDE_ACCESS_KEY_ID", key.id)
    monkeypatch.setenv("TRACKSIDE_SECRET_ACCESS_KEY", secret)
    reading = Answers(known_jobs(), str)
    assert "Not watched" in reading.what_is_wrong(job.job_name)
    with pytest.raises(TracksideError, match="read"):
        reading.stop_job(job.job_name)
    server.use(monkeypatch)
    assert "Stop" in Answers(known_jobs(), str).stop_job(job.job_name)
    known_jobs().wait(job.job_name)
