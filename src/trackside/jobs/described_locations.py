"""Where a job's files are stored, from its description: for readers that have no `Record`. Pure."""

from collections.abc import Mapping
from typing import Any

from trackside.records.layout import CURVES_FOLDER, JobKeys

Described = Mapping[str, Any]
"""The response of DescribeTrainingJob, with Trackside's own members."""


def num_hosts_of(described: Described) -> int:
    resources = described["ResourceConfig"]
    groups = resources.get("InstanceGroups", ())
    return sum(group["InstanceCount"] for group in groups) or int(resources["InstanceCount"])


def keys_of(described: Described) -> JobKeys:
    """Of what is below the job's own output, wherever it was found."""
    name = described["TrainingJobName"]
    return JobKeys(described["Trackside"]["output"].removesuffix(f"/{name}"), name)


def curves_uri(described: Described) -> str:
    """The TensorBoard output, or a folder below its own output."""
    keys, tensorboard = keys_of(described), described.get("TensorBoardOutputConfig")
    if tensorboard is None:
        return keys.curves
    return keys.under(tensorboard["S3OutputPath"], CURVES_FOLDER)


def environment_uri(described: Described) -> str:
    """A file for each host: which packages its script had."""
    return keys_of(described).environment


def tensors_uri(described: Described) -> str | None:
    """What the hook saved; None if the job captures nothing."""
    return _below(described, "DebugHookConfig", "debug-output")


def tensorboard_uri(described: Described) -> str | None:
    return _below(described, "TensorBoardOutputConfig", CURVES_FOLDER)


def profile_uri(described: Described) -> str | None:
    return _below(described, "ProfilerConfig", "profiler-output")


def _below(described: Described, member: str, folder: str) -> str | None:
    config = described.get(member)
    if config is None or config.get("DisableProfiler"):
        return None
    output = described["OutputDataConfig"]["S3OutputPath"]
    keys = JobKeys(output, described["TrainingJobName"])
    return keys.under(config.get("S3OutputPath") or output, folder)
