"""The notebook "Using Debugger with your own PyTorch container", from estimator to analysis."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_capture import NAMES, SMDEBUG
from trackside import PyTorch, Rule, create_trial, get_execution_role, rule_configs
from trackside.sdk.job import TrainingJob


@pytest.fixture
def estimator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PyTorch:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "pytorch_mnist.py").write_text(SMDEBUG)
    rules = [Rule.sagemaker(rule_configs.vanishing_gradient())]
    with pytest.warns(FutureWarning):
        return PyTorch(  # type: ignore[call-arg]  # old names
            entry_point="scripts/pytorch_mnist.py",
            base_job_name="smdebugger-demo-mnist-pytorch",
            role=get_execution_role(),
            train_instance_count=1,
            train_instance_type="ml.m4.xlarge",
            train_volume_size=400,
            train_max_run=3600,
            hyperparameters={"random_seed": True, "num_steps": 50, "epochs": 5},
            framework_version="1.3.1",
            py_version="py3",
            rules=rules,
        )


def finished(estimator: PyTorch) -> TrainingJob:
    estimator.fit(wait=False)
    job = estimator.latest_training_job
    assert job is not None
    job.wait(logs="Rules")
    return job


def test_its_tensors_are_read_as_written(estimator: PyTorch):
    finished(estimator)
    path = estimator.latest_job_debugger_artifacts_path()
    assert path is not None
    assert path.endswith("/debug-output")
    trial = create_trial(path)
    losses = [f"CrossEntropyLoss_{part}" for part in ("input_0", "input_1", "output_0")]
    assert trial.tensor_names() == [*losses, *NAMES]
    assert trial.tensor_names(collection="losses") == losses
    assert trial.tensor(NAMES[0]).reduction_value(0, "mean", abs=True) > 0


def test_its_rules_are_summed_up(estimator: PyTorch, capsys: pytest.CaptureFixture[str]):
    job = finished(estimator)
    (status,) = job.rule_job_summary()
    assert status["RuleConfigurationName"] == "VanishingGradient"
    assert status["RuleEvaluationStatus"] == "NoIssuesFound"
    *before, last = capsys.readouterr().out.splitlines()
    assert last == "VanishingGradient: NoIssuesFound"
    assert before in ([], ["VanishingGradient: InProgress"])  # which may pass unseen
    assert rule_job_names(job) == {
        "VanishingGradient": f"{job.name[:26]}-VanishingGradient-{arn_end(status)}"
    }


def rule_job_names(job: TrainingJob) -> dict[str, str]:
    """As the notebook makes them of what it is told."""
    return {
        status["RuleConfigurationName"]: "{}-{}-{}".format(
            job.describe()["TrainingJobName"][:26],
            status["RuleConfigurationName"][:26],
            status["RuleEvaluationJobArn"][-8:],
        )
        for status in job.describe()["DebugRuleEvaluationStatuses"]
    }


def arn_end(status: dict[str, Any]) -> str:
    return str(status["RuleEvaluationJobArn"]).rpartition("-")[2]
