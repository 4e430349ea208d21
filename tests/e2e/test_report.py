"""Reports on real jobs, and what profiler rules say of them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from tests import browser
from tests.e2e.test_capture import NET
from trackside.records.layout import profile_of
from trackside.records.status import Status
from trackside.rules.parameters import build
from trackside.rules.profiler.steps import MaxInitializationTime, StepOutlier
from trackside.rules.profiler.usage import system_usage
from trackside.rules.report.profiler_report import ProfilerReport
from trackside.rules.saved.profile import Profile

# The loader of every thirtieth batch sleeps. The script itself knows nothing of being watched.
STALLED = (
    NET
    + """
import time
from torch.utils.tensorboard import SummaryWriter

class Batches(torch.utils.data.IterableDataset):
    def __iter__(self):
        for number in range(420):
            if number % 30 == 17:
                time.sleep(0.2)
            x = torch.randn(16, 1, 10, 10)
            yield x, (x.mean((1, 2, 3)) * 40).long().clamp(0, 9)

optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
writer = SummaryWriter("/opt/ml/output/tensorboard")
for step, (x, y) in enumerate(torch.utils.data.DataLoader(Batches(), batch_size=None)):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    writer.add_scalar("loss/train <&>", loss.item(), step)
writer.close()
"""
)
WATCHED = {
    "DebugHookConfig": {
        "S3OutputPath": "s3://bucket/debug",
        "HookParameters": {"save_interval": "10"},
        "CollectionConfigurations": [
            {"CollectionName": name, "CollectionParameters": {"reductions": "abs_mean"}}
            for name in ("gradients", "weights")
        ],
    },
    "TensorBoardOutputConfig": {"S3OutputPath": "s3://bucket/curves"},
    "ProfilerConfig": {"ProfilingIntervalInMilliseconds": 100},
}
WORKER = "0-algo-1"


@pytest.fixture
def report(tmp_path):
    def run(job: str) -> Path:
        path = tmp_path / f"{job} report.html"
        done = subprocess.run(
            [sys.executable, "-m", "trackside.cli", "report", job, "-o", str(path)],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        assert done.returncode == 0, done.stderr
        assert str(path) in done.stdout
        return path

    return run


def opened(job) -> Profile:
    where = profile_of(job.spec)
    assert where is not None
    profile = Profile(where, home=job.machine.settings.home)
    profile.advance()
    assert profile.is_all
    return profile


def test_a_stalled_loader_is_found_and_shown(machine, report, tmp_path):
    job = machine.run(STALLED, **WATCHED)
    assert job.history().state.status is Status.COMPLETED, job.log()
    profile = opened(job)

    # The fourteen that slept, or as many as stand out where the machine itself stands still.
    outliers = build(StepOutlier, {"n_outliers": "0"}).check(profile)
    [finding] = [each for each in outliers if each.worker == WORKER]
    assert finding.value is not None
    assert 1 <= finding.value <= 20
    assert "busy" in finding.message
    assert list(build(MaxInitializationTime, {"threshold": "0.001"}).check(profile))
    assert list(MaxInitializationTime().check(profile)) == []
    processors = system_usage(profile)["algo-1"]["CPU"]
    assert max(figures["max"] for figures in processors.values()) > 0
    assert list(ProfilerReport().check(profile))

    shown = browser.show(report(job.name), tmp_path / "browser")
    assert shown.complaints == []
    assert shown.is_drawn
    for text in (
        "Completed",
        "StepOutlier",
        "loss/train &lt;&amp;&gt;",
        "Net_conv1.weight",
        "TRAIN step times, 0-algo-1",
        "gradient_norm",
        "CPUBottleneck",
        "MemoryUsedPercent",
        f"numpy {numpy.__version__}",
    ):
        assert text in shown.dom, text
    assert shown.dom.count("data-heat=") == 3  # gradients, weights, activations


def test_the_report_is_the_same_when_only_storage_has_the_job(machine, report):
    job = machine.run(NET + "print(1)", **WATCHED)
    assert machine.jobs.list()  # indexed while it is here
    shutil.rmtree(job.folder.root)
    page = report(job.name).read_text()
    assert "Completed" in page
    assert "No tensors, so no layers." in page


def test_a_running_job_that_captures_nothing_has_a_report(machine, report):
    job = machine.submit("import time\nprint('ready', flush=True)\ntime.sleep(600)\n")
    job.wait_for_line("ready")
    page = report(job.name).read_text()
    assert "the job is still running" in page
    assert "InProgress" in page
    assert "profiler_config" in page
    machine.jobs.stop(job.name)
    job.wait()


def test_a_failed_job_s_report_says_why(machine, report):
    job = machine.run("raise ValueError('<b>no such thing</b>')")
    page = report(job.name).read_text()
    assert "&lt;b&gt;no such thing&lt;/b&gt;" in page
    assert "<b>no such thing" not in page
