"""What an estimator asks for, checked without starting anything; the seeds' code as written."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from trackside import (
    DebuggerHookConfig,
    Estimator,
    InvalidSpec,
    PyTorch,
    Rule,
    TensorBoardOutputConfig,
    get_execution_role,
    rule_configs,
)
from trackside.errors import JobError
from trackside.records.spec import JobSpec


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('hello')\n")
    return tmp_path


def pytorch(**options: Any) -> JobSpec:
    return PyTorch(entry_point="train.py", **options).spec(job_name="j")


def complaints(estimator: PyTorch | Estimator) -> dict[str, str]:
    with pytest.raises(InvalidSpec) as caught:
        estimator.spec()
    return {violation.field: violation.advice for violation in caught.value.violations}


def test_the_toolkit_is_reported_what_to_start():
    own = pytorch(output_path="s3://b/out/").hyperparameters
    assert own == {
        "sagemaker_program": '"train.py"',
        "sagemaker_submit_directory": '"s3://b/out/j/source/sourcedir.tar.gz"',
        "sagemaker_container_log_level": "20",
        "sagemaker_job_name": '"j"',
        "sagemaker_region": '"us-east-1"',
    }


@pytest.mark.parametrize(
    ("value", "as_json", "as_text"),
    [
        (5, "5", "5"),
        ("abc", '"abc"', "abc"),
        (True, "true", "True"),
        ([1, 2], "[1, 2]", "[1, 2]"),
        (None, "null", "None"),
        (1e-5, "1e-05", "1e-05"),
        ({"a": 1}, '{"a": 1}', "{'a': 1}"),
    ],
)
def test_hyperparameters_are_json_for_pytorch_and_text_otherwise(
    value: Any, as_json: str, as_text: str
):
    options: dict[str, Any] = {"entry_point": "train.py", "hyperparameters": {"x": value}}
    assert PyTorch(**options).spec().hyperparameters["x"] == as_json
    assert Estimator(**options).spec().hyperparameters["x"] == as_text
    assert Estimator(**options).spec().hyperparameters["sagemaker_program"] == '"train.py"'


def test_hyperparameters_can_be_read_and_added_to():
    estimator = PyTorch("train.py", hyperparameters={"a": 1})
    estimator.set_hyperparameters(b=2)
    assert estimator.hyperparameters() == {"a": 1, "b": 2}
    assert estimator.spec().hyperparameters["b"] == "2"


def test_a_value_that_is_no_json_is_named():
    found = complaints(PyTorch("train.py", hyperparameters={"x": object()}))
    assert "cannot be written as JSON" in found["hyperparameters.x"]


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        ({"torch_distributed": {"enabled": True}}, {"sagemaker_torch_distributed_enabled": "true"}),
        (
            {"torch_distributed": {"enabled": True, "processes_per_host": 2}},
            {
                "sagemaker_torch_distributed_enabled": "true",
                "sagemaker_mpi_num_of_processes_per_host": "2",
            },
        ),
        (
            {"mpi": {"enabled": True, "processes_per_host": 4, "custom_mpi_options": "-x A"}},
            {
                "sagemaker_mpi_enabled": "true",
                "sagemaker_mpi_num_of_processes_per_host": "4",
                "sagemaker_mpi_custom_mpi_options": '"-x A"',
            },
        ),
        ({"mpi": {"enabled": False}}, {}),
    ],
)
def test_a_distribution_becomes_reserved_hyperparameters(
    distribution: dict[str, Any], expected: dict[str, str]
):
    given = pytorch(distribution=distribution, instance_type="ml.p3.2xlarge").hyperparameters
    found = {key: value for key, value in given.items() if key not in pytorch().hyperparameters}
    if expected:
        expected = {**expected, "sagemaker_instance_type": '"ml.p3.2xlarge"'}
    assert found == expected


def test_an_unknown_distribution_names_the_known_ones():
    found = complaints(PyTorch("train.py", distribution={"horovod": {"enabled": True}}))
    assert "torch_distributed, pytorchddp, mpi" in found["distribution"]


def test_code_can_be_kept_apart_from_the_output():
    spec = pytorch(output_path="s3://b/out", code_location="s3://code/here/")
    assert spec.source == "s3://code/here/j/source/sourcedir.tar.gz"


def test_output_goes_where_the_settings_say(monkeypatch: pytest.MonkeyPatch, folder: Path):
    assert pytorch().output.uri == "s3://trackside"
    monkeypatch.setenv("TRACKSIDE_OUTPUT", "s3://team/jobs")
    assert pytorch().output.uri == "s3://team/jobs"
    assert pytorch(output_path="results").output.uri == str(folder / "results")


def test_every_problem_is_reported_at_once_under_its_argument():
    found = complaints(
        PyTorch(
            "missing.py",
            instance_count=0,
            distribution={"x": {}},
            environment={"1A": "x"},
            hyperparameters={"f": object()},
            base_job_name="ok",
        )
    )
    assert set(found) == {
        "entry_point",
        "instance_count",
        "distribution",
        "environment.1A",
        "hyperparameters.f",
    }


def test_nothing_to_run_is_said_with_the_way_out():
    assert "entry_point" in complaints(PyTorch())["AlgorithmSpecification"]


def test_an_image_alone_brings_its_program():
    spec = Estimator("tf-2.0", hyperparameters={"epochs": 3}, shm_gb=0.5).spec()
    assert (spec.options.sandbox, spec.image, spec.options.shm_gb) == ("docker", "tf-2.0", 0.5)
    assert spec.entry_point is None
    assert spec.hyperparameters == {"epochs": "3"}
    assert spec.name.startswith("tf-2-0-")


def test_a_script_with_an_image_runs_in_a_container():
    spec = Estimator("tf-2.0", entry_point="train.py").spec()
    assert (spec.options.sandbox, spec.algorithm.image) == ("docker", "tf-2.0")
    assert spec.entry_point == "train.py"


def test_an_interpreter_of_this_machine_is_not_looked_for_in_an_image(monkeypatch):
    monkeypatch.setenv("TRACKSIDE_PYTHON", "/not/here/python")
    assert Estimator("tf-2.0", entry_point="train.py").spec().options.python is None
    spec = Estimator("tf-2.0", entry_point="train.py", python="/opt/conda/bin/python").spec()
    assert spec.options.python == "/opt/conda/bin/python"
    assert Estimator("tf-2.0", command=["/only/there", "x"]).spec().options.command[0] == (
        "/only/there"
    )


def test_the_table_of_images_chooses_an_image_or_an_interpreter(monkeypatch):
    table = f"tf-1*=docker:my-tf,tf-2*={sys.executable}"
    monkeypatch.setenv("TRACKSIDE_IMAGES", table)
    spec = Estimator("registry.example/team/tf-1:9", entry_point="train.py").spec()
    assert (spec.options.sandbox, spec.image) == ("docker", "my-tf")
    assert spec.algorithm.image == "registry.example/team/tf-1:9"
    spec = Estimator("tf-2.0", entry_point="train.py").spec()
    assert (spec.options.sandbox, spec.options.python) == ("process", sys.executable)


def test_what_only_a_container_or_only_a_process_has_is_refused_elsewhere():
    told = complaints(Estimator(entry_point="train.py", shm_gb=1))
    assert "give image_uri too" in told["shm_gb"]
    told = complaints(Estimator("tf-2.0", entry_point="train.py", in_place=True))
    assert "the image gets a copy" in told["in_place"]


def test_the_hook_is_configured_unless_switched_off():
    spec = pytorch(output_path="s3://b/out")
    assert spec.debug_hook is not None
    assert spec.debug_hook.uri == "s3://b/out"
    assert pytorch(debugger_hook_config=False).debug_hook is None
    custom = pytorch(debugger_hook_config=DebuggerHookConfig(hook_parameters={"save_interval": 9}))
    assert custom.debug_hook is not None
    assert custom.debug_hook.parameters == {"save_interval": "9"}


def test_a_rule_brings_the_collections_it_needs():
    rules = [Rule.sagemaker(rule_configs.vanishing_gradient(threshold=1e-9), name="mine")]
    spec = pytorch(rules=rules)
    (rule,) = spec.debug_rules
    assert rule.name == "mine"
    assert rule.parameters == {"rule_to_invoke": "VanishingGradient", "threshold": "1e-09"}
    assert spec.debug_hook is not None
    (collection,) = spec.debug_hook.collections
    assert collection.name == "gradients"
    assert collection.parameters == {"save_interval": "500", "reductions": "abs_mean"}


def test_the_interpreter_is_found_and_its_links_are_kept(folder: Path):
    link = folder / "python"
    link.symlink_to(sys.executable)
    assert pytorch(python="./python").options.python == str(link)
    assert pytorch(python="sh").options.python == "/usr/bin/sh"
    assert "is no program" in complaints(PyTorch("train.py", python="nowhere"))["python"]


def test_another_interpreter_is_not_held_to_this_ones_syntax(folder: Path):
    (folder / "train.py").write_text("print 'old'\n")
    assert "not valid Python" in complaints(PyTorch("train.py"))["entry_point"]
    assert pytorch(python="/bin/sh").entry_point == "train.py"


def test_generated_names_come_from_the_script_or_the_base():
    assert PyTorch("train.py").spec().name.startswith("train-2")
    assert PyTorch("train.py", base_job_name="my_base").spec().name.startswith("my-base-2")


def test_an_estimator_without_a_job_says_so():
    with pytest.raises(JobError, match=r"Call fit\(\) first"):
        _ = PyTorch("train.py").model_data


def test_nothing_is_created_by_looking(folder: Path):
    before = sorted(folder.rglob("*"))
    pytorch()
    assert sorted(folder.rglob("*")) == before


def test_the_tensorboard_tutorials_estimator_runs_as_written():
    with pytest.warns(FutureWarning) as caught:
        estimator = PyTorch(  # type: ignore[call-arg]  # old names
            entry_point="train.py",
            output_path="s3://output-data-bucket/model/",
            train_instance_count=1,
            train_instance_type="ml.p2.xlarge",
        )
    assert len(caught) == 2
    spec = estimator.spec(
        inputs={
            "training": "s3://input-data-bucket/train/",
            "val": "s3://input-data-bucket/val/",
        }
    )
    assert [channel.name for channel in spec.inputs] == ["training", "val"]
    assert spec.resources.instance_type == "ml.p2.xlarge"


def test_the_tensorboard_tutorials_output_config_runs_as_written():
    tensorboard_output_config = TensorBoardOutputConfig(
        s3_output_path="s3://path/for/tensorboard/data/emission",
        container_local_output_path="/local/path/for/tensorboard/data/emission",
    )
    spec = pytorch(role="role", tensorboard_output_config=tensorboard_output_config)
    assert spec.tensorboard is not None
    assert spec.tensorboard.local_path == "/local/path/for/tensorboard/data/emission"


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_debugger_notebooks_estimator_runs_as_written(folder: Path):
    (folder / "scripts").mkdir()
    (folder / "scripts" / "pytorch_mnist.py").write_text("")
    role = get_execution_role()
    smdebug_mnist_script = "scripts/pytorch_mnist.py"
    hyperparameters = {
        "random_seed": True,
        "num_steps": 50,
        "epochs": 5,
        "data_dir": "/tmp/pytorch-smdebug",
    }
    rules = [Rule.sagemaker(rule_configs.vanishing_gradient())]
    estimator = PyTorch(  # type: ignore[call-arg]  # old names
        entry_point=smdebug_mnist_script,
        base_job_name="smdebugger-demo-mnist-pytorch",
        role=role,
        train_instance_count=1,
        train_instance_type="ml.m4.xlarge",
        train_volume_size=400,
        train_max_run=3600,
        hyperparameters=hyperparameters,
        framework_version="1.3.1",
        py_version="py3",
        rules=rules,
    )
    spec = estimator.spec()
    assert spec.entry_point == "pytorch_mnist.py"
    assert spec.hyperparameters["random_seed"] == "true"
    assert json.loads(spec.hyperparameters["data_dir"]) == "/tmp/pytorch-smdebug"
    assert spec.resources.volume_gb == 400
    assert spec.stopping.max_runtime_seconds == 3600
    assert [rule.name for rule in spec.debug_rules] == ["VanishingGradient"]
    assert estimator.debugger_rules == estimator.rules == rules


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_toolkits_image_example_is_a_container():
    estimator = Estimator(  # type: ignore[call-arg]  # old names
        image_name="tf-2.0",
        role="SageMakerRole",
        train_instance_count=1,
        train_instance_type="local",
    )
    spec = estimator.spec()
    assert (spec.options.sandbox, spec.image) == ("docker", "tf-2.0")
    assert (spec.resources.count, spec.resources.instance_type) == (1, "local")


def test_the_toolkits_channels_example_runs_as_written():
    estimator = PyTorch(entry_point="train.py")
    spec = estimator.spec(
        {
            "training": "s3://bucket/path/to/training/data",
            "testing": "s3://bucket/path/to/testing/data",
        }
    )
    assert {channel.name: channel.uri for channel in spec.inputs} == {
        "training": "s3://bucket/path/to/training/data",
        "testing": "s3://bucket/path/to/testing/data",
    }
