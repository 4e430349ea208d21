"""A job's diagnosis has the line of its script, where reading the script agrees with it."""

import json
from pathlib import Path

from tests.cli.conftest import Command
from tests.cli.conftest import command as command
from tests.cli.conftest import workplace as workplace
from trackside.sdk.known_jobs import known_jobs
from trackside.views.agents.agent_answers import Answers
from trackside.views.job.job_view import job_view
from trackside.views.job.script_remarks import lines_of

TRAIN = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for step in range(200):
    inputs = torch.randn(32, 8)
    loss = nn.functional.cross_entropy(model(inputs), inputs[:, :3].argmax(1))
    loss.backward()
    optimizer.step()
"""


def test_a_fault_that_is_seen_and_read_has_its_line(command: Command, workplace: Path):
    (workplace / "train.py").write_text(TRAIN)
    done = command("run", "train.py", "--rule", "all", "--name", "job-1", "--wait")
    assert done.returncode == 0, done.stderr

    view = job_view(known_jobs(), "job-1")

    assert (view.diagnoses[0].cause, view.diagnoses[0].line) == ("ForgottenZeroGrad", "train.py:11")
    assert view.diagnoses[0].certainty == "certain"
    assert json.loads(json.dumps(view.to_json()))["diagnoses"][0]["line"] == "train.py:11"
    assert not view.remarks


SEEDED = TRAIN.replace("    inputs =", "    torch.manual_seed(1)\n    inputs =").replace("200", "2")


def test_what_is_only_read_is_possible(command: Command, workplace: Path):
    (workplace / "train.py").write_text(SEEDED.replace("step()", "step(), optimizer.zero_grad()"))
    done = command("run", "train.py", "--name", "job-1", "--wait")
    assert done.returncode == 0, done.stderr

    view = job_view(known_jobs(), "job-1")

    assert [(each.rule, each.line) for each in view.remarks] == [("SeedInLoop", "train.py:8")]
    assert not view.diagnoses
    told = Answers(known_jobs(), lambda name: name).what_is_wrong("job-1")
    assert "possible, by reading train.py:8: SeedInLoop" in told


def test_another_program_has_no_lines(command: Command, workplace: Path):
    (workplace / "train.sh").write_text("echo done\n")
    done = command("run", "train.sh", "--name", "job-1", "--wait")
    assert done.returncode == 0, done.stderr
    jobs = known_jobs()

    assert lines_of(jobs.describe("job-1"), jobs.settings.home) == {}
