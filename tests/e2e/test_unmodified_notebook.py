"""A notebook of SageMaker's first generation, without an edit and without a word to Amazon."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.aws_clients import program
from tests.client_shell import SOURCE, ClientShell, client_shell, loopback_alone
from tests.e2e.test_capture import NAMES, SMDEBUG

NOTEBOOK = """
import boto3
import pytest
from sagemaker import get_execution_role
from sagemaker.debugger import Rule, rule_configs
from sagemaker.pytorch import PyTorch

role = get_execution_role()
estimator = PyTorch(
    entry_point="scripts/pytorch_mnist.py",
    base_job_name="smdebugger-demo-mnist-pytorch",
    role=role,
    train_instance_count=1,
    train_instance_type="ml.m4.xlarge",
    train_volume_size=400,
    train_max_run=3600,
    hyperparameters={"random_seed": True, "num_steps": 50, "epochs": 5, "data_dir": "/tmp/x"},
    framework_version="1.3.1",
    py_version="py3",
    rules=[Rule.sagemaker(rule_configs.vanishing_gradient())],
)
estimator.fit(wait=False)
summary = estimator.latest_training_job.rule_job_summary()

from smdebug.trials import create_trial
trial = create_trial(estimator.latest_job_debugger_artifacts_path())
trial.tensor_names()
trial.tensor_names(collection="losses")
"""

AFTERWARDS = """
import json, time
while estimator.latest_training_job.describe()["TrainingJobStatus"] == "InProgress":
    time.sleep(0.5)
print(json.dumps({
    "role": role,
    "image": estimator.latest_training_job.describe()["AlgorithmSpecification"]["TrainingImage"],
    "rules": [each["RuleConfigurationName"] for each in summary],
    "status": estimator.latest_training_job.describe()["TrainingJobStatus"],
    "bucket": estimator.sagemaker_session.default_bucket(),
    "names": trial.tensor_names()}))
"""

WHO_AM_I = """
import json, os, sagemaker
os.environ["AWS_MAX_ATTEMPTS"] = "1"
try:
    print(json.dumps(sagemaker.get_execution_role()))
except Exception as error:
    print(json.dumps(type(error).__name__))
"""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[ClientShell]:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "pytorch_mnist.py").write_text(SMDEBUG)
    with (
        loopback_alone() as prefix,
        client_shell(tmp_path, "--region", "us-west-2", prefix=prefix) as shell,
    ):
        yield shell


@pytest.mark.parametrize("sdk", [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_it_runs_and_reaches_nothing_but_the_server(shell: ClientShell, sdk: int):
    _, reported, contacts = shell.traced(NOTEBOOK + AFTERWARDS, sdk=sdk)
    assert contacts == {shell.address}
    assert reported["role"] == "arn:aws:iam::000000000000:role/trackside"
    assert "amazonaws.com/" in reported["image"]
    assert reported["rules"] == ["VanishingGradient"]
    assert reported["status"] == "Completed"
    # The first version reads no configuration file: it asks for the account, as the role does.
    assert reported["bucket"] == {1: "sagemaker-us-west-2-000000000000", 2: "trackside"}[sdk]
    assert set(NAMES) < set(reported["names"])


def test_a_kernel_that_runs_already_is_set_up_by_one_line(shell: ClientShell):
    code = """
%load_ext trackside
import json, os, sagemaker
from smdebug.trials import create_trial
told = [sagemaker.get_execution_role(), create_trial.__module__]
%unload_ext trackside
left = [name for name in os.environ if name.startswith(("AWS_", "_TRACKSIDE"))]
print(json.dumps([*told, left]))
"""
    (shell.folder / "cell.ipy").write_text(code)
    bare = shell.without("AWS_", "_TRACKSIDE", "SAGEMAKER_USER", "PYTHONPATH")
    done = bare.run("env", f"PYTHONPATH={SOURCE}", program("ipython"), "--no-banner", "cell.ipy")
    assert f"AWS clients of this notebook talk to {shell.url}" in done.stdout, done.stderr
    role, module, left = json.loads(done.stdout.splitlines()[-1])
    assert role.endswith(":role/trackside")
    assert module.startswith("trackside.")
    assert left == []


def test_without_our_folder_the_sdk_would_ask_amazon(shell: ClientShell):
    """So the test above can fail."""
    _, reported, contacts = shell.without("PYTHONPATH").traced(WHO_AM_I)
    assert reported == "EndpointConnectionError"
    assert contacts - {shell.address}
