"""The line of the script that a finding names."""

import os
from pathlib import Path

import pytest

from tests.rules.conftest import MakeJob
from trackside.rules.evaluation.script_lines import ScriptLines
from trackside.rules.watched_job import WatchedJob

SOFTMAX = "LossInputAlreadySoftmax"
MODEL = "import torch\nmodel = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Softmax(1))\n"
TRAINING = (
    "import torch\nfrom model import model\n"
    "loss = torch.nn.functional.cross_entropy(model(torch.ones(4, 2)), torch.ones(4).long())\n"
    "loss.backward()\n"
)


def code_of(job: WatchedJob) -> Path:
    code = job.folder.host("algo-1", job.attempt).code
    code.mkdir(parents=True)
    return code


def test_a_fault_that_reading_shows_too_has_its_line(make_job: MakeJob):
    job = make_job()
    code = code_of(job)
    (code / "train.py").write_text(TRAINING)
    (code / "model.py").write_text(MODEL)
    lines = ScriptLines(job)
    assert lines.of(SOFTMAX) == "train.py:3"
    assert lines.of("LearningRateTooHigh") == ""


def test_a_script_that_runs_in_the_user_s_own_folder(make_job: MakeJob, tmp_path: Path):
    (tmp_path / "train.py").write_text(MODEL + TRAINING.replace("from model import model\n", ""))
    job = make_job(Trackside={"InPlace": str(tmp_path)})
    assert ScriptLines(job).of(SOFTMAX) == "train.py:4"


@pytest.mark.parametrize(
    "text", ["this is no Python", "# " + "x" * 300_000, b"\xff\xfe".decode("latin-1"), None]
)
def test_a_script_that_cannot_be_read_has_no_lines(make_job: MakeJob, text: str | None):
    job = make_job()
    code = code_of(job)
    if text is not None:
        (code / "train.py").write_text(text, encoding="latin-1")
    assert ScriptLines(job).of(SOFTMAX) == ""


def test_a_program_that_is_no_script_of_python(make_job: MakeJob):
    job = make_job(HyperParameters={"sagemaker_program": "train.sh"})
    assert ScriptLines(job).of(SOFTMAX) == ""


def test_a_fifo_in_place_of_a_module_blocks_nobody(make_job: MakeJob):
    job = make_job()
    code = code_of(job)
    (code / "train.py").write_text(TRAINING)
    os.mkfifo(code / "model.py")
    assert ScriptLines(job).of(SOFTMAX) == ""
