"""Every argument of an estimator in one table: its type, and its member in the request.

The table is a TypedDict, so that editors and type checkers use the same list that is read here at
run time. `estimator.py` handles any other meaning.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict

from trackside.errors import InvalidSpec, Violation
from trackside.quick_dataclass import dataclass
from trackside.sdk.debugger import DebuggerHookConfig, ProfilerConfig, TensorBoardOutputConfig
from trackside.sdk.locations import location
from trackside.sdk.rule import AnyRule
from trackside.sdk.user_warnings import caution

PathText = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Place:
    """The request member of an argument."""

    path: str = ""
    """The request's member, dotted; empty if only the estimator reads it, or nothing does."""
    write: Callable[[Any], Any] | None = None
    """Turns the argument into the member's value."""
    warning: str = ""
    """A warning for an argument that does not have its full effect here."""


HERE = Place()
"""Read by the estimator itself."""
UNUSED = Place()
"""Has no effect on a local machine, and nothing is lost by ignoring it."""


def _compression(is_disabled: bool) -> str:
    return "NONE" if is_disabled else "GZIP"


def _tags(tags: Any) -> Any:
    """A plain mapping is accepted besides the wire format."""
    if isinstance(tags, Mapping):
        return [{"Key": str(key), "Value": str(value)} for key, value in tags.items()]
    return tags


def _words(given: Any) -> Any:
    """A string is kept, to be rejected later: splitting it would be a guess."""
    return given if isinstance(given, str) else list(given)


def _profiler(config: ProfilerConfig | Mapping[str, Any]) -> dict[str, Any]:
    return config.to_request() if isinstance(config, ProfilerConfig) else dict(config)


class Arguments(TypedDict, total=False):
    """For all of them None means not given."""

    # What runs
    entry_point: Annotated[PathText | None, HERE]
    source_dir: Annotated[PathText | None, HERE]
    dependencies: Annotated[Sequence[PathText] | None, HERE]
    in_place: Annotated[bool | None, HERE]
    code_location: Annotated[PathText | None, HERE]
    hyperparameters: Annotated[Mapping[str, Any] | None, HERE]
    module: Annotated[str | None, Place("Trackside.Module")]
    command: Annotated[Sequence[str] | None, Place("Trackside.Command", _words)]
    arguments: Annotated[Sequence[str] | None, Place("Trackside.Arguments", _words)]
    distribution: Annotated[Mapping[str, Any] | None, HERE]
    container_log_level: Annotated[int | str | None, HERE]
    environment: Annotated[Mapping[str, str] | None, Place("Environment")]
    image_uri: Annotated[str | None, Place("AlgorithmSpecification.TrainingImage")]
    container_entry_point: Annotated[
        Sequence[str] | None, Place("AlgorithmSpecification.ContainerEntrypoint", list)
    ]
    container_arguments: Annotated[
        Sequence[str] | None, Place("AlgorithmSpecification.ContainerArguments", list)
    ]
    python: Annotated[PathText | None, Place("Trackside.Python", str)]

    # Where, and for how long
    base_job_name: Annotated[str | None, HERE]
    instance_count: Annotated[int | None, Place("ResourceConfig.InstanceCount")]
    instance_type: Annotated[str | None, Place("ResourceConfig.InstanceType")]
    instance_groups: Annotated[
        Sequence[Mapping[str, Any]] | None, Place("ResourceConfig.InstanceGroups", list)
    ]
    volume_size: Annotated[int | None, Place("ResourceConfig.VolumeSizeInGB")]
    keep_alive_period_in_seconds: Annotated[
        int | None, Place("ResourceConfig.KeepAlivePeriodInSeconds")
    ]
    max_run: Annotated[int | None, Place("StoppingCondition.MaxRuntimeInSeconds")]
    max_wait: Annotated[int | None, Place("StoppingCondition.MaxWaitTimeInSeconds")]
    max_retry_attempts: Annotated[int | None, Place("RetryStrategy.MaximumRetryAttempts")]
    use_spot_instances: Annotated[bool | None, Place("EnableManagedSpotTraining")]
    grace_seconds: Annotated[int | None, Place("Trackside.GraceSeconds")]
    placement: Annotated[str | None, Place("Trackside.Placement")]
    placement_options: Annotated[
        Mapping[str, str] | None, Place("Trackside.PlacementOptions", write=dict)
    ]
    cores: Annotated[int | None, Place("Trackside.Cores")]
    memory_gb: Annotated[int | None, Place("Trackside.MemoryGB")]
    gpus: Annotated[int | None, Place("Trackside.GPUs")]
    shm_gb: Annotated[float | None, Place("Trackside.ShmGB")]
    read_only_root: Annotated[bool | None, Place("Trackside.ReadOnlyRoot")]

    # What comes in and out
    input_mode: Annotated[
        Literal["File", "FastFile", "Pipe"] | None,
        Place("AlgorithmSpecification.TrainingInputMode"),
    ]
    output_path: Annotated[PathText | None, Place("OutputDataConfig.S3OutputPath", location)]
    disable_output_compression: Annotated[
        bool | None, Place("OutputDataConfig.CompressionType", _compression)
    ]
    checkpoint_s3_uri: Annotated[PathText | None, Place("CheckpointConfig.S3Uri", location)]
    checkpoint_local_path: Annotated[PathText | None, Place("CheckpointConfig.LocalPath", str)]
    metric_definitions: Annotated[
        Sequence[Mapping[str, str]] | None, Place("AlgorithmSpecification.MetricDefinitions", list)
    ]
    enable_sagemaker_metrics: Annotated[
        bool | None, Place("AlgorithmSpecification.EnableSageMakerMetricsTimeSeries")
    ]
    tags: Annotated[Mapping[str, str] | Sequence[Mapping[str, str]] | None, Place("Tags", _tags)]

    # Watching
    tensorboard_output_config: Annotated[
        TensorBoardOutputConfig | None,
        Place("TensorBoardOutputConfig", TensorBoardOutputConfig.to_request),
    ]
    debugger_hook_config: Annotated[DebuggerHookConfig | bool | None, HERE]
    rules: Annotated[Sequence[AnyRule] | None, HERE]
    profiler_config: Annotated[
        ProfilerConfig | Mapping[str, Any] | None, Place("ProfilerConfig", _profiler)
    ]
    notify: Annotated[Sequence[str] | None, Place("Trackside.Notify", _words)]
    disable_profiler: Annotated[bool | None, Place("ProfilerConfig.DisableProfiler")]

    # Accepted for scripts that also run elsewhere
    role: Annotated[str | None, Place("RoleArn")]
    framework_version: Annotated[str | None, UNUSED]
    py_version: Annotated[str | None, UNUSED]
    sagemaker_session: Annotated[Any, UNUSED]
    subnets: Annotated[
        Sequence[str] | None, Place(warning="the job runs in the network of this machine")
    ]
    security_group_ids: Annotated[
        Sequence[str] | None, Place(warning="the job runs in the network of this machine")
    ]
    enable_network_isolation: Annotated[
        bool | None, Place("EnableNetworkIsolation", warning="the script can reach the network")
    ]
    encrypt_inter_container_traffic: Annotated[
        bool | None,
        Place(
            "EnableInterContainerTrafficEncryption",
            warning="hosts of one machine talk over its loopback, unencrypted",
        ),
    ]
    output_kms_key: Annotated[
        str | None,
        Place("OutputDataConfig.KmsKeyId", warning="objects are stored as the store does"),
    ]
    volume_kms_key: Annotated[
        str | None, Place("ResourceConfig.VolumeKmsKeyId", warning="the disk is used as it is")
    ]
    git_config: Annotated[
        Mapping[str, str] | None,
        Place(warning="source_dir is read from this machine; clone it first"),
    ]
    enable_remote_debug: Annotated[bool | None, Place(warning="there is no remote shell to open")]


RENAMED = {
    "image_name": "image_uri",
    "train_instance_count": "instance_count",
    "train_instance_type": "instance_type",
    "train_max_run": "max_run",
    "train_max_wait": "max_wait",
    "train_use_spot_instances": "use_spot_instances",
    "train_volume_size": "volume_size",
    "distributions": "distribution",
}
"""Names of the SageMaker SDK's version 1, as in old notebooks."""

_OF_CONTAINERS = ("enable_network_isolation",)
"""What has its full effect in a container."""

_PLACES: dict[str, Place] = {
    name: annotation.__metadata__[0] for name, annotation in Arguments.__annotations__.items()
}


def read(options: Mapping[str, Any], *, callee: str) -> dict[str, Any]:
    """The options under their current names, without those that are None.

    Old spellings and options with less than their full effect are warned about, at the caller of
    `callee`. An unknown name is a TypeError, as for any Python function.
    """
    known: dict[str, Any] = {}
    in_container = options.get("image_uri") or options.get("image_name")
    for given, value in options.items():
        name = RENAMED.get(given, given)
        if name not in _PLACES:
            raise TypeError(_unknown(callee, given))
        if name != given:
            caution(f"{given} is an old name; write {name}={value!r}", FutureWarning)
            if options.get(name) is not None:
                raise TypeError(f"{callee}() got both {given!r} and {name!r}; give {name!r} only.")
        if value is None:
            continue
        if _PLACES[name].warning and value and not (name in _OF_CONTAINERS and in_container):
            caution(f"{name}={value!r} has no effect: {_PLACES[name].warning}")
        known[name] = value
    return known


def to_request(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that have their own member in a CreateTrainingJob request."""
    request: dict[str, Any] = {}
    for name, value in arguments.items():
        place = _PLACES[name]
        if not place.path:
            continue
        *parents, last = place.path.split(".")
        inner = request
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = place.write(value) if place.write else value
    return request


def in_arguments(failure: InvalidSpec, arguments: Mapping[str, Any]) -> InvalidSpec:
    """The same violations, under the caller's argument names."""
    names = {_PLACES[name].path: name for name in arguments if _PLACES[name].path}
    return InvalidSpec(
        [
            Violation(
                _argument(violation.field, names),
                violation.value,
                violation.advice,
                constraint=violation.constraint,
            )
            for violation in failure.violations
        ]
    )


def _argument(field: str, names: Mapping[str, str]) -> str:
    for path, name in names.items():
        if field == path or field.startswith((f"{path}.", f"{path}[")):
            return name + field[len(path) :]
    return field


def _unknown(callee: str, given: str) -> str:
    import difflib

    close = difflib.get_close_matches(given, [*_PLACES, *RENAMED], n=3)
    meant = list(dict.fromkeys(RENAMED.get(name, name) for name in close))
    hint = f"Close to it: {', '.join(meant)}." if meant else "docs/sdk.md lists all arguments."
    return f"{callee}() has no argument {given!r}. {hint}"
