"""Input channels, from any form accepted by `fit`."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from trackside.quick_dataclass import dataclass
from trackside.sdk.locations import location

DEFAULT_CHANNEL = "training"

PathText = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class ShuffleConfig:
    seed: int


@dataclass(frozen=True, slots=True)
class TrainingInput:
    """One channel's data. Only the location is required; the rest has SageMaker's defaults."""

    s3_data: PathText
    """An s3://, gs://, az:// or file:// location, or a path on this machine."""
    distribution: str = "FullyReplicated"
    compression: str | None = None
    content_type: str | None = None
    record_wrapping: str | None = None
    s3_data_type: str = "S3Prefix"
    instance_groups: Sequence[str] | None = None
    input_mode: str | None = None
    attribute_names: Sequence[str] | None = None
    shuffle_config: ShuffleConfig | None = None

    def to_request(self, name: str) -> dict[str, Any]:
        source = {
            "S3DataType": self.s3_data_type,
            "S3Uri": location(self.s3_data),
            "S3DataDistributionType": self.distribution,
            "AttributeNames": list(self.attribute_names or ()) or None,
            "InstanceGroupNames": list(self.instance_groups or ()) or None,
        }
        channel = {
            "ChannelName": name,
            "DataSource": {"S3DataSource": _given(source)},
            "ContentType": self.content_type,
            "CompressionType": self.compression,
            "RecordWrapperType": self.record_wrapping,
            "InputMode": self.input_mode,
            "ShuffleConfig": {"Seed": self.shuffle_config.seed} if self.shuffle_config else None,
        }
        return _given(channel)


Inputs = PathText | TrainingInput | Mapping[str, PathText | TrainingInput]


def channels(inputs: Inputs | None) -> list[dict[str, Any]]:
    """The request's InputDataConfig. A single location is the channel `training`."""
    if inputs is None:
        return []
    if not isinstance(inputs, Mapping):
        inputs = {DEFAULT_CHANNEL: inputs}
    return [_channel(name, data) for name, data in inputs.items()]


def _channel(name: str, data: PathText | TrainingInput) -> dict[str, Any]:
    if isinstance(data, TrainingInput):
        return data.to_request(name)
    if isinstance(data, str | os.PathLike):
        return TrainingInput(data).to_request(name)
    raise TypeError(
        f"Channel {name!r} is {data!r}. Give a location as text, a Path or a TrainingInput."
    )


def _given(members: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in members.items() if value is not None}
