import json
from pathlib import Path
from typing import Any

import pytest

from trackside.capture.environment import CaptureEnvironment
from trackside.capture.exceptions import SMDebugValueError
from trackside.capture.modes import ModeKeys
from trackside.capture.selection.collection import Collection
from trackside.capture.selection.configuration import (
    HookConfiguration,
    parse_configuration,
    read_configuration,
)
from trackside.capture.selection.reduction_config import ReductionConfig


def hook_parameters(**parameters: Any) -> HookConfiguration:
    return parse_configuration({"HookParameters": parameters})


def one_collection(parameters: dict[str, str], hook: dict[str, str] | None = None) -> Collection:
    entry = {"CollectionName": "weights", "CollectionParameters": parameters}
    given = {"HookParameters": hook or {}, "CollectionConfigurations": [entry]}
    return parse_configuration(given).collections[0]


def test_the_example_of_the_sdk_is_read():
    read = parse_configuration(
        {
            "S3OutputPath": "s3://bucket/prefix",
            "HookParameters": {"save_interval": "100"},
            "CollectionConfigurations": [
                {"CollectionName": "gradients", "CollectionParameters": {"save_interval": "500"}},
                {
                    "CollectionName": "relu_output",
                    "CollectionParameters": {
                        "include_regex": ".*relu_output",
                        "save_interval": "500",
                    },
                },
                {"CollectionName": "losses"},
            ],
        }
    )

    assert read.out_dir == "/opt/ml/output/tensors"
    assert read.save_config.get_save_config(ModeKeys.TRAIN).save_interval == 100
    assert [each.name for each in read.collections] == ["gradients", "relu_output", "losses"]
    assert read.collections[1].include_regex == [".*relu_output"]
    assert read.collections[2].save_config is None


def test_a_collections_setting_beats_the_hooks_even_the_hooks_for_one_mode():
    weights = one_collection(
        {"save_steps": "1, 2", "eval.save_interval": "3", "end_step": "50"},
        hook={"save_interval": "10", "train.save_interval": "7"},
    )

    assert weights.save_config is not None
    train, evaluation, predict = (
        weights.save_config.get_save_config(mode)
        for mode in (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)
    )
    assert (train.save_interval, train.save_steps, train.end_step) == (7, [1, 2], 50)
    assert (evaluation.save_interval, predict.save_interval) == (3, 10)
    plain = one_collection({"save_interval": "5"}, hook={"train.save_interval": "7"})
    assert plain.save_config is not None
    assert plain.save_config.get_save_config(ModeKeys.TRAIN).save_interval == 5


@pytest.mark.parametrize("reverse", [False, True])
def test_a_collection_listed_twice_is_merged_whatever_the_order(reverse):
    entries = [
        {
            "CollectionName": "mine",
            "CollectionParameters": {
                "save_interval": "100",
                "save_steps": "1,5",
                "end_step": "10",
                "include_regex": "a",
                "exclude_regex": "x,y",
                "reductions": "min",
                "colour": "red",
            },
        },
        {
            "CollectionName": "mine",
            "CollectionParameters": {
                "save_interval": "20",
                "save_steps": "3",
                "end_step": "90",
                "include_regex": "b",
                "exclude_regex": "y,z",
                "reductions": "max",
                "colour": "blue",
            },
        },
    ]
    read = parse_configuration(
        {"CollectionConfigurations": entries[::-1] if reverse else entries}
    ).collections

    assert len(read) == 1
    assert read[0].include_regex == ["a", "b"]
    assert read[0].exclude_regex == ["y"], "what either wants is saved"
    assert read[0].reduction_config == ReductionConfig(["max", "min"])
    assert read[0].save_config is not None
    train = read[0].save_config.get_save_config(ModeKeys.TRAIN)
    assert (train.save_interval, train.save_steps, train.end_step) == (20, [1, 3, 5], 90)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, None),
        ({"reductions": "min"}, ReductionConfig(["min"])),
        (
            {"reductions": "min", "save_raw_tensor": "True"},
            ReductionConfig(["min"], save_raw_tensor=True),
        ),
        ({"save_shape": "true"}, ReductionConfig(save_raw_tensor=True, save_shape=True)),
        ({"save_raw_tensor": False, "save_shape": True}, ReductionConfig(save_shape=True)),
    ],
)
def test_naming_reductions_switches_raw_values_off_unless_requested(parameters, expected):
    assert hook_parameters(**parameters).reduction_config == expected


@pytest.mark.parametrize(
    "parameters",
    [
        {"save_steps": ""},
        {"save_steps": "[1,2]"},
        {"save_interval": "often"},
        {"save_all": "yes"},
        {"export_tensorboard": "1"},
        {"reductions": "mode"},
        {"save_raw_tensor": "maybe"},
        {"ring": "few"},
    ],
)
def test_a_wrong_value_is_refused_by_name(parameters):
    with pytest.raises(SMDebugValueError):
        hook_parameters(**parameters)


@pytest.mark.parametrize(
    "given",
    [
        [],
        {"HookParameters": []},
        {"CollectionConfigurations": [{}]},
        {"CollectionConfigurations": [{"CollectionName": "a", "CollectionParameters": 3}]},
    ],
)
def test_a_wrong_shape_is_refused(given):
    with pytest.raises(SMDebugValueError):
        parse_configuration(given)


def test_absent_and_null_members_are_the_same():
    given = {"HookParameters": None, "CollectionConfigurations": None, "LocalPath": None}

    assert parse_configuration(given).collections == parse_configuration({}).collections == ()


def test_malformed_json_is_refused_with_file_and_position(tmp_path: Path):
    path = tmp_path / "debughookconfig.json"
    path.write_text('{"HookParameters": ')

    with pytest.raises(SMDebugValueError, match=r"debughookconfig.json.*line 1"):
        read_configuration(path, CaptureEnvironment())


def test_under_the_platform_only_its_own_file_decides_about_tensorboard(tmp_path: Path):
    config = tmp_path / "hook.json"
    config.write_text(json.dumps({"HookParameters": {"tensorboard_dir": "/elsewhere"}}))
    platform = tmp_path / "tensorboard.json"
    inside = CaptureEnvironment(job_name="job-1", tensorboard_config=platform)

    assert read_configuration(config, CaptureEnvironment()).tensorboard_dir == "/elsewhere"
    assert read_configuration(config, inside).tensorboard_dir is None
    platform.write_text(json.dumps({"LocalPath": "/opt/ml/output/tensorboard"}))
    assert read_configuration(config, inside).tensorboard_dir == "/opt/ml/output/tensorboard"


def test_the_environment_names_the_files_and_switches():
    read = CaptureEnvironment.load(
        {
            "SMDEBUG_CONFIG_FILE_PATH": "/a",
            "USE_SMDEBUG": "False",
            "TRAINING_JOB_NAME": "j",
            "TRACKSIDE_CAPTURE": "auto",
        }
    )

    assert (read.hook_config, read.enabled, read.job_name, read.auto) == (
        Path("/a"),
        False,
        "j",
        True,
    )
