"""Section 7 of the contract, seen by a script: every SM_* variable, byte for byte."""

import json
import os
from typing import Any

import pytest

from tests.toolkit.conftest import Host
from trackside.errors import ToolkitError
from trackside.toolkit.variables import LONGEST_BYTES, accepted

DUMP = (
    "import json, os, sys\n"
    "seen = {'argv': sys.argv, 'cwd': os.getcwd(), 'path': sys.path, 'env': dict(os.environ)}\n"
    "json.dump(seen, open(os.environ['SM_MODEL_DIR'] + '/seen.json', 'w'))\n"
)
CHANNEL = {
    "TrainingInputMode": "File",
    "S3DistributionType": "FullyReplicated",
    "RecordWrapperType": "None",
}
RESOURCES = {
    "current_host": "algo-1",
    "current_instance_type": "ml.m5.large",
    "current_group_name": "second",
    "hosts": ["algo-1"],
    "network_interface_name": "eth7",
    "instance_groups": [
        {"instance_group_name": "first", "instance_type": "ml.x", "hosts": []},
        {"instance_group_name": "second", "instance_type": "ml.m5.large", "hosts": ["algo-1"]},
    ],
}


def seen_by_script(host: Host, **variables: str) -> dict[str, Any]:
    host.script(DUMP)
    finished = host.train(**variables)
    assert finished.code == 0, finished.log
    seen: dict[str, Any] = json.loads((host.base / "model" / "seen.json").read_text())
    return seen


def test_every_variable_of_the_contract(host: Host):
    host.hyperparameters(
        **{
            "batch-size": "256",
            "learning-rate": "0.0001",
            "communicator": "pure_nccl",
            "sagemaker_submit_directory": str(host.code),
            "sagemaker_job_name": '"job-1"',
            "sagemaker_region": '"eu-north-1"',
            "sagemaker_custom": "[1]",
        }
    )
    host.configure("inputdataconfig", {"training": CHANNEL, "my-data": CHANNEL, "Data.v2": CHANNEL})
    host.configure("resourceconfig", RESOURCES)
    base = str(host.base)
    seen = seen_by_script(host, TRAINING_JOB_NAME="Job-1")["env"]
    arguments = ["--batch-size", "256", "--communicator", "pure_nccl", "--learning-rate", "0.0001"]
    expected = {
        "SM_HOSTS": '["algo-1"]',
        "SM_CURRENT_HOST": "algo-1",
        "SM_NETWORK_INTERFACE_NAME": "eth7",
        "SM_HPS": '{"batch-size":256,"communicator":"pure_nccl","learning-rate":0.0001}',
        "SM_HP_BATCH-SIZE": "256",
        "SM_HP_LEARNING-RATE": "0.0001",
        "SM_HP_COMMUNICATOR": "pure_nccl",
        "SM_USER_ARGS": json.dumps(arguments, separators=(",", ":")),
        "SM_USER_ENTRY_POINT": "train.py",
        "SM_MODULE_NAME": "train",
        "SM_MODULE_DIR": f"{base}/code",
        "SM_FRAMEWORK_MODULE": "",
        "SM_FRAMEWORK_PARAMS": '{"sagemaker_custom":[1]}',
        "SM_RESOURCE_CONFIG": json.dumps(RESOURCES, sort_keys=True, separators=(",", ":")),
        "SM_CHANNELS": '["Data.v2","my-data","training"]',
        "SM_CHANNEL_TRAINING": f"{base}/input/data/training",
        "SM_CHANNEL_MY-DATA": f"{base}/input/data/my-data",
        "SM_CHANNEL_DATA.V2": f"{base}/input/data/Data.v2",
        "SM_MODEL_DIR": f"{base}/model",
        "SM_INPUT_DIR": f"{base}/input",
        "SM_INPUT_CONFIG_DIR": f"{base}/input/config",
        "SM_OUTPUT_DIR": f"{base}/output",
        "SM_OUTPUT_DATA_DIR": f"{base}/output/data",
        "SM_OUTPUT_INTERMEDIATE_DIR": f"{base}/output/intermediate",
        "SM_LOG_LEVEL": "20",
        "SM_CURRENT_INSTANCE_TYPE": "ml.m5.large",
        "SM_CURRENT_INSTANCE_GROUP": "second",
        "SM_CURRENT_INSTANCE_GROUP_HOSTS": '["algo-1"]',
        "SM_INSTANCE_GROUPS": '["first","second"]',
        "SM_DISTRIBUTION_INSTANCE_GROUPS": "[]",
        "SM_IS_HETERO": "true",
        "SM_NUM_NEURONS": "0",
        "SAGEMAKER_JOB_NAME": "job-1",
        "SAGEMAKER_REGION": "eu-north-1",
        "CURRENT_HOST": "algo-1",
        "PYTHONUNBUFFERED": "1",
    }
    assert {name: seen.get(name) for name in expected} == expected
    assert json.loads(seen["SM_INPUT_DATA_CONFIG"])["training"] == CHANNEL
    groups = {group["instance_group_name"]: group for group in RESOURCES["instance_groups"]}  # type: ignore[index]
    assert json.loads(seen["SM_INSTANCE_GROUPS_DICT"]) == groups
    assert int(seen["SM_NUM_CPUS"]) >= 1
    assert "SM_TOPOLOGY" not in seen


def test_the_training_environment_has_every_key_sorted(host: Host):
    host.hyperparameters(lr="0.1")
    host.configure("inputdataconfig", {"training": CHANNEL})
    host.configure("resourceconfig", {**RESOURCES, "topology": [{"hostName": "x"}]})
    seen = seen_by_script(host, TRAINING_JOB_NAME="Job-1")["env"]
    described = json.loads(seen["SM_TRAINING_ENV"])
    assert list(described) == sorted(described)
    assert set(described) == {
        *("additional_framework_parameters", "channel_input_dirs", "current_host"),
        *("current_instance_group", "current_instance_group_hosts", "current_instance_type"),
        *("distribution_hosts", "distribution_instance_groups", "framework_module", "hosts"),
        *("hyperparameters", "input_config_dir", "input_data_config", "input_dir"),
        *("instance_groups", "instance_groups_dict", "is_hetero", "is_master"),
        *("is_modelparallel_enabled", "is_smddpmprun_installed", "is_smddprun_installed"),
        *("job_name", "log_level", "master_hostname", "model_dir", "module_dir", "module_name"),
        *("network_interface_name", "num_cpus", "num_gpus", "num_neurons", "output_data_dir"),
        *("output_dir", "output_intermediate_dir", "resource_config", "topology"),
        "user_entry_point",
    }
    assert described["job_name"] == "Job-1"
    assert described["is_master"] is True
    assert described["framework_module"] is None
    assert described["distribution_hosts"] == []
    assert seen["SM_TOPOLOGY"] == '[{"hostName":"x"}]'


def test_without_any_configuration_there_is_one_host(host: Host):
    seen = seen_by_script(host)["env"]
    assert seen["SM_HOSTS"] == '["algo-1"]'
    assert seen["SM_CURRENT_INSTANCE_TYPE"] == "local"
    assert seen["SM_CURRENT_INSTANCE_GROUP"] == "homogeneousCluster"
    assert seen["SM_NETWORK_INTERFACE_NAME"] == "eth0"
    assert seen["SM_CHANNELS"] == "[]"
    assert json.loads(seen["SM_TRAINING_ENV"])["job_name"] is None


def test_the_script_runs_in_the_code_folder_and_can_import_from_it(host: Host):
    host.hyperparameters(a="1", lr="it is")
    seen = seen_by_script(host, PYTHONPATH=host.variables["PYTHONPATH"] + os.pathsep + "/extra")
    assert seen["argv"] == ["train.py", "-a", "1", "--lr", "it is"]
    assert seen["cwd"] == str(host.code)
    assert seen["path"][0] == str(host.code)
    paths = seen["env"]["PYTHONPATH"].split(os.pathsep)
    assert paths[0] == str(host.code)
    assert "/extra" in paths


def test_names_no_shell_can_read_get_an_alias_unless_it_is_taken(host: Host):
    host.hyperparameters(**{"batch-size": "1", "a-b": "2", "a_b": "3"})
    host.configure("inputdataconfig", {"my-data": CHANNEL})
    seen = seen_by_script(host)["env"]
    assert seen["SM_HP_BATCH-SIZE"] == seen["SM_HP_BATCH_SIZE"] == "1"
    assert (seen["SM_HP_A-B"], seen["SM_HP_A_B"]) == ("2", "3")
    assert seen["SM_CHANNEL_MY_DATA"] == f"{host.base}/input/data/my-data"


def test_of_two_keys_that_differ_in_case_the_later_one_wins(host: Host):
    host.hyperparameters(x="1", X="2")
    assert seen_by_script(host)["env"]["SM_HP_X"] == "2"


def test_an_empty_program_variable_leaves_the_choice_to_the_hyperparameter(host: Host):
    host.hyperparameters(sagemaker_program="train.py")
    seen = seen_by_script(host, SAGEMAKER_PROGRAM="")["env"]
    assert seen["SM_USER_ENTRY_POINT"] == "train.py"
    assert seen["SM_MODULE_NAME"] == ""


def test_hyperparameters_too_long_for_a_variable_still_arrive_as_arguments(host: Host):
    host.hyperparameters(**{f"p{number:02}": "x" * 2400 for number in range(93)})
    seen = seen_by_script(host)
    assert len(seen["argv"]) == 1 + 2 * 93
    assert "SM_HPS" not in seen["env"]
    assert "SM_TRAINING_ENV" not in seen["env"]
    assert seen["env"]["SM_HP_P00"] == "x" * 2400


def test_a_name_with_an_equals_sign_is_an_argument_only(host: Host):
    host.hyperparameters(**{"a=b": "1"})
    seen = seen_by_script(host)
    assert seen["argv"][1:] == ["--a=b", "1"]
    assert "SM_HP_A" not in seen["env"]


@pytest.mark.parametrize("level", ["30", '"WARNING"', "WARNING"])
def test_log_levels_are_numbers_or_names(host: Host, level: str):
    host.hyperparameters(sagemaker_container_log_level=level)
    assert seen_by_script(host)["env"]["SM_LOG_LEVEL"] == "30"


def test_a_numeric_job_name_is_a_name(host: Host):
    host.hyperparameters(sagemaker_job_name="2024")
    assert seen_by_script(host)["env"]["SAGEMAKER_JOB_NAME"] == "2024"


def test_the_users_own_buffering_choice_is_kept(host: Host):
    assert seen_by_script(host, PYTHONUNBUFFERED="")["env"]["PYTHONUNBUFFERED"] == ""


def test_the_exact_limit_of_the_kernel_is_accepted():
    longest = "x" * (LONGEST_BYTES - len("NAME="))
    assert accepted({"NAME": longest}) == {"NAME": longest}
    assert accepted({"NAME": longest + "x"}) == {}


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_a_value_no_program_can_receive_is_named(value: str):
    with pytest.raises(ToolkitError, match="SM_HP_BAD"):
        accepted({"SM_HP_BAD": value})
