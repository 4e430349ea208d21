"""What a job captures, as the user configures it: only builds the request.

Rules are in `rule.py`; `debug_request.py` adds what they need saved.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from trackside.quick_dataclass import dataclass
from trackside.sdk.locations import location


@dataclass(frozen=True, slots=True)
class TensorBoardOutputConfig:
    """Where event files go while the job runs, and where the script writes them."""

    s3_output_path: str
    container_local_output_path: str | None = None

    def to_request(self) -> dict[str, Any]:
        request = {"S3OutputPath": location(self.s3_output_path)}
        if self.container_local_output_path:
            request["LocalPath"] = self.container_local_output_path
        return request


@dataclass(frozen=True, slots=True)
class CollectionConfig:
    name: str
    parameters: Mapping[str, Any] | None = None

    def to_request(self) -> dict[str, Any]:
        request: dict[str, Any] = {"CollectionName": self.name}
        if self.parameters:
            request["CollectionParameters"] = texts(self.parameters)
        return request


@dataclass(frozen=True, slots=True)
class DebuggerHookConfig:
    s3_output_path: str | None = None
    """The job's output location when not given."""
    container_local_output_path: str | None = None
    hook_parameters: Mapping[str, Any] | None = None
    collection_configs: Sequence[CollectionConfig] | None = None

    def to_request(self, output: str) -> dict[str, Any]:
        request: dict[str, Any] = {
            "S3OutputPath": location(self.s3_output_path or output),
            "CollectionConfigurations": [
                each.to_request() for each in self.collection_configs or ()
            ],
        }
        if self.container_local_output_path:
            request["LocalPath"] = self.container_local_output_path
        if self.hook_parameters:
            request["HookParameters"] = texts(self.hook_parameters)
        return request


@dataclass(frozen=True, slots=True)
class ProfilerConfig:
    """How the machine is profiled. Framework profile settings are stored but have no effect."""

    s3_output_path: str | None = None
    """The job's output location when not given."""
    system_monitor_interval_millis: int | None = None
    framework_profile_params: Mapping[str, Any] | None = None
    profile_params: Mapping[str, Any] | None = None
    disable_profiler: bool = False

    def to_request(self) -> dict[str, Any]:
        request: dict[str, Any] = {"DisableProfiler": self.disable_profiler}
        if self.s3_output_path:
            request["S3OutputPath"] = location(self.s3_output_path)
        if self.system_monitor_interval_millis is not None:
            request["ProfilingIntervalInMilliseconds"] = self.system_monitor_interval_millis
        if profile := self.framework_profile_params or self.profile_params:
            request["ProfilingParameters"] = texts(profile)
        return request


def texts(parameters: Mapping[str, Any]) -> dict[str, str]:
    """The wire carries nothing else."""
    return {name: str(value) for name, value in parameters.items()}
