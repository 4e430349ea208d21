"""Channels from every form that `fit` takes."""

from pathlib import Path
from typing import Any

import pytest

from trackside.sdk.inputs import ShuffleConfig, TrainingInput, channels


def channel(name: str, uri: str, **more: Any) -> dict[str, Any]:
    source = {
        "S3DataType": "S3Prefix",
        "S3Uri": uri,
        "S3DataDistributionType": "FullyReplicated",
    }
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}, **more}


def test_no_inputs_are_no_channels():
    assert channels(None) == []


def test_a_single_location_is_the_training_channel():
    assert channels("s3://b/train") == [channel("training", "s3://b/train")]


def test_a_mapping_has_a_channel_for_each_entry():
    assert channels({"a": "s3://b/a", "b": TrainingInput("s3://b/b", content_type="text/csv")}) == [
        channel("a", "s3://b/a"),
        channel("b", "s3://b/b", ContentType="text/csv"),
    ]


def test_a_path_of_this_machine_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert channels(Path("data")) == [channel("training", str(tmp_path / "data"))]
    assert channels("./data/") == [channel("training", f"{tmp_path}/data/")]


def test_everything_about_an_input_reaches_the_request():
    given = TrainingInput(
        "s3://b/m.json",
        distribution="ShardedByS3Key",
        compression="Gzip",
        record_wrapping="RecordIO",
        s3_data_type="AugmentedManifestFile",
        instance_groups=["g"],
        input_mode="Pipe",
        attribute_names=["image-ref"],
        shuffle_config=ShuffleConfig(7),
    )
    assert channels(given) == [
        {
            "ChannelName": "training",
            "DataSource": {
                "S3DataSource": {
                    "S3DataType": "AugmentedManifestFile",
                    "S3Uri": "s3://b/m.json",
                    "S3DataDistributionType": "ShardedByS3Key",
                    "AttributeNames": ["image-ref"],
                    "InstanceGroupNames": ["g"],
                }
            },
            "CompressionType": "Gzip",
            "RecordWrapperType": "RecordIO",
            "InputMode": "Pipe",
            "ShuffleConfig": {"Seed": 7},
        }
    ]


def test_anything_else_is_refused_by_the_channels_name():
    with pytest.raises(TypeError, match="Channel 'a' is 5"):
        channels({"a": 5})  # type: ignore[dict-item]
