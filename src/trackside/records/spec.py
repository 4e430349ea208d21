"""What the user requested: one `JobSpec`, read from and written as a CreateTrainingJob request.

Validated once, here, with every violation reported together. `job.json` is its wire form.
"""

import posixpath
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from trackside.errors import InvalidSpec, Violation
from trackside.files.json_record import FORMAT, check_format, parsed_object
from trackside.quick_dataclass import dataclass
from trackside.records import notify_targets
from trackside.records.members import member, read, write, wrong
from trackside.texts.shown_names import JOB_NAME as JOB_NAME
from trackside.texts.storage_schemes import LOCATION_FORM, LOCATION_PATTERN

_JOB_NAME_SAYS = "1 to 63 letters, digits and inner dashes"
MODULE_NAME = r"[^\W\d]\w*(\.[^\W\d]\w*)*"
MODULE_NAME_SAYS = "a module's dotted name, such as package.train"
_LOCATION: dict[str, Any] = {"pattern": LOCATION_PATTERN, "says": LOCATION_FORM}
COMMIT = "[0-9a-f]{40}([0-9a-f]{24})?"
BRANCH_MOST, REMOTE_MOST = 255, 1024
COMMAND_MOST, FOLDER_MOST = 1000, 4096
_INPUT_MODES = ("File", "FastFile", "Pipe")

PROCESS = "process"
"""The sandbox of a script that runs as a process of this machine."""
DOCKER = "docker"
"""The sandbox of a script that runs in a container, by Docker or Podman."""
ATTACHED = "attached"
"""The sandbox of a script that Trackside did not start: it called `trackside.init`."""
PRIORITY_TAG = "trackside:priority"
"""Stands for the option, for clients that can only send AWS's members."""
_PRIORITY = r"0|-?(1000|[1-9]\d{0,2})"

BUILT_IN_RULES = "sagemaker-debugger-rules"
CUSTOM_RULES = "sagemaker-debugger-rule-evaluator"
"""Evaluator images are recognized by their repository: registry and tag differ between regions."""
_UNRESOLVED_IMAGE = "DEFAULT_RULE_EVALUATOR_IMAGE"
"""Sent by clients without a region."""
_PROFILER_IMAGE = "detailed-profiler-processing"
_PROFILER_NAME = "DetailedProfilerProcessingJobConfig"

IGNORED = (
    "ExperimentConfig",
    "InfraCheckConfig",
    "MlflowConfig",
    "ModelPackageConfig",
    "RemoteDebugConfig",
    "ServerlessJobConfig",
    "SessionChainingConfig",
    "VpcConfig",
)
"""Members of the request that are stored and returned, but have no effect on local machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDefinition:
    name: str = member("Name", least=1, most=255)
    regex: str = member("Regex", least=1, most=500)


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """The image, or nothing when an entry point is named by `sagemaker_program`."""

    image: str | None = member("TrainingImage", default=None, most=255)
    name: str | None = member("AlgorithmName", default=None, most=170)
    input_mode: str = member("TrainingInputMode", default="File", choices=_INPUT_MODES)
    metrics: tuple[MetricDefinition, ...] = member(
        "MetricDefinitions", tuple, of=MetricDefinition, default=(), most=40
    )
    entrypoint: tuple[str, ...] = member("ContainerEntrypoint", tuple, default=(), most=100)
    arguments: tuple[str, ...] = member("ContainerArguments", tuple, default=(), most=100)
    metrics_time_series: bool = member("EnableSageMakerMetricsTimeSeries", bool, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    name: str = member(
        "ChannelName",
        pattern=r"[A-Za-z0-9._-]{1,64}",
        says="1 to 64 letters, digits, dots, dashes and underscores",
    )
    uri: str = member("DataSource.S3DataSource.S3Uri", **_LOCATION, most=1024)
    data_type: str = member(
        "DataSource.S3DataSource.S3DataType",
        default="S3Prefix",
        choices=("S3Prefix", "ManifestFile", "AugmentedManifestFile"),
    )
    distribution: str = member(
        "DataSource.S3DataSource.S3DataDistributionType",
        default="FullyReplicated",
        choices=("FullyReplicated", "ShardedByS3Key"),
    )
    attributes: tuple[str, ...] = member(
        "DataSource.S3DataSource.AttributeNames", tuple, default=(), most=16
    )
    instance_groups: tuple[str, ...] = member(
        "DataSource.S3DataSource.InstanceGroupNames", tuple, default=(), most=5
    )
    content_type: str | None = member("ContentType", default=None, most=256)
    compression: str = member("CompressionType", default="None", choices=("None", "Gzip"))
    record_wrapper: str = member("RecordWrapperType", default="None", choices=("None", "RecordIO"))
    input_mode: str | None = member("InputMode", default=None, choices=_INPUT_MODES)
    shuffle_seed: int | None = member("ShuffleConfig.Seed", int, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    uri: str = member("S3OutputPath", **_LOCATION, least=1, most=1024)
    kms_key: str = member("KmsKeyId", default="", most=2048)
    compression: str = member("CompressionType", default="GZIP", choices=("GZIP", "NONE"))


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceGroup:
    name: str = member("InstanceGroupName", pattern=r".{1,64}", says="1 to 64 characters")
    instance_type: str = member("InstanceType", default="local")
    count: int = member("InstanceCount", int, default=1, least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Instance types and volumes are stored as requested; this machine decides what is
    available."""

    instance_type: str = member("InstanceType", default="local", least=1, most=64)
    count: int = member("InstanceCount", int, default=1, least=1, most=1024)
    volume_gb: int = member("VolumeSizeInGB", int, default=30, least=0)
    keep_alive_seconds: int | None = member(
        "KeepAlivePeriodInSeconds", int, default=None, least=0, most=21600
    )
    groups: tuple[InstanceGroup, ...] = member(
        "InstanceGroups", tuple, of=InstanceGroup, default=(), most=5
    )
    kms_key: str | None = member("VolumeKmsKeyId", default=None, most=2048)

    @property
    def num_hosts(self) -> int:
        return sum(group.count for group in self.groups) or self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    max_runtime_seconds: int | None = member("MaxRuntimeInSeconds", int, default=None, least=1)
    """None is no limit. A request of AWS's clients that names none gets one day, from the API."""
    max_wait_seconds: int | None = member("MaxWaitTimeInSeconds", int, default=None, least=1)
    max_pending_seconds: int | None = member(
        "MaxPendingTimeInSeconds", int, default=None, least=1800, most=2419200
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    uri: str = member("S3Uri", **_LOCATION, most=1024)
    local_path: str = member("LocalPath", default="/opt/ml/checkpoints", most=4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    name: str | None = member("CollectionName", default=None, least=1, most=256)
    parameters: Mapping[str, str] = member(
        "CollectionParameters", dict, default=dict, most=20, key_most=256, value_most=256
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugHook:
    uri: str = member("S3OutputPath", **_LOCATION, most=1024)
    local_path: str = member("LocalPath", default="/opt/ml/output/tensors", most=4096)
    parameters: Mapping[str, str] = member(
        "HookParameters", dict, default=dict, most=20, key_most=256, value_most=256
    )
    collections: tuple[Collection, ...] = member(
        "CollectionConfigurations", tuple, of=Collection, default=(), most=20
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleConfiguration:
    name: str = member("RuleConfigurationName", least=1, most=256)
    image: str = member("RuleEvaluatorImage", default="", most=255)
    parameters: Mapping[str, str] = member(
        "RuleParameters", dict, default=dict, most=100, key_most=256
    )
    uri: str | None = member("S3OutputPath", default=None, **_LOCATION)
    local_path: str | None = member("LocalPath", default=None, most=4096)
    instance_type: str | None = member("InstanceType", default=None)
    volume_gb: int | None = member("VolumeSizeInGB", int, default=None, least=0)

    @property
    def invokes(self) -> str:
        """What is evaluated; `name` is free text."""
        return self.parameters.get("rule_to_invoke", "")

    @property
    def is_built_in(self) -> bool:
        """Whether it is one of ours: it has neither its own source nor its own image."""
        is_ours = self._repository in ("", BUILT_IN_RULES, _UNRESOLVED_IMAGE)
        return is_ours and not self.is_ignored and "source_s3_uri" not in self.parameters

    @property
    def is_ignored(self) -> bool:
        """Not a rule, but SageMaker's own processing of its profiler files."""
        return self._repository == _PROFILER_IMAGE or self.name.startswith(_PROFILER_NAME)

    @property
    def _repository(self) -> str:
        return self.image.rpartition("/")[2].partition("@")[0].partition(":")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorBoard:
    uri: str = member("S3OutputPath", **_LOCATION, most=1024)
    local_path: str = member("LocalPath", default="/opt/ml/output/tensorboard", most=4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiler:
    uri: str | None = member("S3OutputPath", default=None, **_LOCATION)
    interval_milliseconds: int = member("ProfilingIntervalInMilliseconds", int, default=500)
    parameters: Mapping[str, str] = member("ProfilingParameters", dict, default=dict, most=20)
    disabled: bool = member("DisableProfiler", bool, default=False)

    @property
    def local_path(self) -> str:
        return self.parameters.get("LocalPath") or "/opt/ml/output/profiler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    key: str = member("Key", least=1, most=128)
    value: str = member("Value", most=256)


@dataclass(frozen=True, slots=True, kw_only=True)
class GitState:
    """Which commit the source was of when the job was submitted."""

    commit: str = member("Commit", pattern=COMMIT, says="a commit's full number")
    branch: str | None = member("Branch", default=None, most=BRANCH_MOST)
    is_changed: bool | None = member("Changed", bool, default=None)
    """Whether tracked files were not as in the commit; None when that is unknown."""
    remote: str | None = member("Remote", default=None, most=REMOTE_MOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How the job was submitted."""

    command: tuple[str, ...] = member("Command", tuple, default=(), most=COMMAND_MOST)
    """As typed, or of the program that submitted it; secrets are masked."""
    folder: str | None = member("Folder", default=None, most=FOLDER_MOST)
    """Of the source: its path in a repository that has a remote, else on the submitter's machine.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the contract does not have. Absent from requests of AWS's clients."""

    placement: str = member("Placement", default="local")
    placement_options: Mapping[str, str] = member(
        "PlacementOptions", dict, default=dict, most=50, key_most=64, value_most=4096
    )
    """What is asked of the engine that it names, in that engine's words."""
    sandbox: str = member("Sandbox", default=PROCESS)
    python: str | None = member("Python", default=None)
    """The interpreter that runs the script; the supervisor's own when not given."""
    arguments: tuple[str, ...] = member("Arguments", tuple, default=(), most=1000)
    """For the script, byte for byte, behind those that the hyperparameters become."""
    module: str | None = member("Module", default=None, pattern=MODULE_NAME, says=MODULE_NAME_SAYS)
    """Run by `python -m` in place of a script."""
    command: tuple[str, ...] = member("Command", tuple, default=(), most=1000)
    """A program and its arguments, run as they are in place of a script."""
    in_place: str | None = member("InPlace", default=None)
    """A folder of this machine that is the script's working folder itself, in place of a copy."""
    grace_seconds: int = member("GraceSeconds", int, default=120, least=0, most=86400)
    """Between SIGTERM and SIGKILL when a job is stopped."""
    cores: int | None = member("Cores", int, default=None, least=1)
    """What each host needs of a server's machine; what is not given goes by the instance type."""
    memory_gb: int | None = member("MemoryGB", int, default=None, least=0)
    gpus: int | None = member("GPUs", int, default=None, least=0)
    shm_gb: float | None = member("ShmGB", float, default=None, least=0)
    """Size of /dev/shm in a container; half of its memory when not given."""
    read_only_root: bool = member("ReadOnlyRoot", bool, default=False)
    """A container's image cannot be written to; /tmp and /run can."""
    image: str | None = member("Image", default=None, most=255)
    """What a container is made of, where a table replaces TrainingImage."""
    image_id: str | None = member("ImageId", default=None, most=255)
    """Its content when the job was submitted, so that every attempt runs the same, …"""
    image_digest: str | None = member("ImageDigest", default=None, most=512)
    """… and by which others pull it, if it is from a registry."""
    priority: int | None = member("Priority", int, default=None, least=-1000, most=1000)
    """Order of queued jobs: greater first. 0 unless given, here or by a tag."""
    git: GitState | None = member("Git", GitState, default=None)
    launch: Launch | None = member("Launch", Launch, default=None)
    notify: tuple[str, ...] = member("Notify", tuple, default=(), most=notify_targets.MOST)
    """Who is notified of findings and of the end: see `notify_targets`."""


OPTION_NAMES = tuple(each.metadata["member"].path for each in fields(Options))
"""A server lists them: an older one rejects those that it does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One training job. Immutable; every part has passed validation."""

    name: str = member("TrainingJobName", pattern=JOB_NAME, says=_JOB_NAME_SAYS)
    output: Output = member("OutputDataConfig", Output)
    algorithm: Algorithm = member("AlgorithmSpecification", Algorithm, default=Algorithm())
    role: str | None = member("RoleArn", default=None, most=2048)
    hyperparameters: Mapping[str, str] = member(
        "HyperParameters", dict, default=dict, most=100, key_most=256, value_most=2500
    )
    inputs: tuple[Channel, ...] = member("InputDataConfig", tuple, of=Channel, default=(), most=20)
    resources: Resources = member("ResourceConfig", Resources, default=Resources())
    stopping: Stopping = member("StoppingCondition", Stopping, default=Stopping())
    retry_attempts: int | None = member(
        "RetryStrategy.MaximumRetryAttempts", int, default=None, least=1, most=30
    )
    checkpoints: Checkpoints | None = member("CheckpointConfig", Checkpoints, default=None)
    environment: Mapping[str, str] = member(
        "Environment",
        dict,
        default=dict,
        most=100,
        key_pattern="[a-zA-Z_][a-zA-Z0-9_]*",
        key_most=512,
        value_most=512,
    )
    debug_hook: DebugHook | None = member("DebugHookConfig", DebugHook, default=None)
    debug_rules: tuple[RuleConfiguration, ...] = member(
        "DebugRuleConfigurations", tuple, of=RuleConfiguration, default=(), most=20
    )
    tensorboard: TensorBoard | None = member("TensorBoardOutputConfig", TensorBoard, default=None)
    profiler: Profiler | None = member("ProfilerConfig", Profiler, default=None)
    profiler_rules: tuple[RuleConfiguration, ...] = member(
        "ProfilerRuleConfigurations", tuple, of=RuleConfiguration, default=(), most=20
    )
    tags: tuple[Tag, ...] = member("Tags", tuple, of=Tag, default=(), most=50)
    spot: bool = member("EnableManagedSpotTraining", bool, default=False)
    network_isolation: bool = member("EnableNetworkIsolation", bool, default=False)
    traffic_encryption: bool = member("EnableInterContainerTrafficEncryption", bool, default=False)
    options: Options = member("Trackside", Options, default=Options())
    ignored: tuple[tuple[str, Any], ...] = ()
    """Members of `IGNORED` as received, to be returned."""

    @classmethod
    def from_request(cls, request: Mapping[str, Any]) -> "JobSpec":
        """Validate a CreateTrainingJob request; `InvalidSpec` lists every violation."""
        return cls._read(request, ignores_unknown=False)

    @classmethod
    def from_stored(cls, data: bytes) -> "JobSpec":
        """From a job.json. Members that are not known are ignored: a later version may have
        written them. `DamagedRecord` or `InvalidSpec` if it cannot be read.
        """
        request = parsed_object(data)
        check_format(request)
        return cls._read(request, ignores_unknown=True)

    @classmethod
    def _read(cls, request: Mapping[str, Any], *, ignores_unknown: bool) -> "JobSpec":
        violations: list[Violation] = []
        known = {key: value for key, value in request.items() if key not in IGNORED}
        spec = read(cls, known, "", violations)
        if spec is None:
            raise InvalidSpec(violations)
        if ignores_unknown:
            violations = wrong(violations)
        violations.extend(_inconsistencies(spec))
        if violations:
            raise InvalidSpec(violations)
        ignored = tuple((key, request[key]) for key in IGNORED if key in request)
        object.__setattr__(spec, "ignored", ignored)
        return spec

    def to_request(self) -> dict[str, Any]:
        return {**write(self), **dict(self.ignored)}

    def to_stored(self) -> dict[str, Any]:
        """A job.json."""
        return {"format": FORMAT, **self.to_request()}

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(f"algo-{number}" for number in range(1, self.resources.num_hosts + 1))

    @property
    def is_attached(self) -> bool:
        """Whether its script runs by itself, and is only watched."""
        return self.options.sandbox == ATTACHED

    @property
    def is_container(self) -> bool:
        return self.options.sandbox == DOCKER

    @property
    def image(self) -> str:
        """The image that a container is made of, by name; empty without one."""
        return self.options.image or self.algorithm.image or ""

    @property
    def max_attempts(self) -> int:
        return 1 + (self.retry_attempts or 0)

    @property
    def entry_point(self) -> str | None:
        """`sagemaker_program`, which clients send JSON-encoded or plain."""
        return _unquoted(self.hyperparameters.get("sagemaker_program"))

    @property
    def source(self) -> str | None:
        return _unquoted(self.hyperparameters.get("sagemaker_submit_directory"))


def _unquoted(value: str | None) -> str | None:
    if value is not None and len(value) > 1 and value[0] == value[-1] == '"':
        return value[1:-1]
    return value


def _inconsistencies(spec: JobSpec) -> Iterator[Violation]:
    """Violations that involve several members."""
    yield from _unique("InputDataConfig.ChannelName", [channel.name for channel in spec.inputs])
    yield from _unique("Tags.Key", [tag.key for tag in spec.tags])
    for where, rules in (
        ("DebugRuleConfigurations", spec.debug_rules),
        ("ProfilerRuleConfigurations", spec.profiler_rules),
    ):
        yield from _unique(f"{where}.RuleConfigurationName", [rule.name for rule in rules])
    for tag in spec.tags:
        if tag.key == PRIORITY_TAG and not re.fullmatch(_PRIORITY, tag.value):
            yield Violation(
                f"Tags.{PRIORITY_TAG}", tag.value, "must be a whole number from -1000 to 1000"
            )
    for channel in spec.inputs:
        yield from _channel_problems(channel, spec)
    yield from _metric_problems(spec)
    yield from _folder_problems(spec)
    yield from _program_problems(spec)
    yield from _notify_problems(spec)
    wait, runtime = spec.stopping.max_wait_seconds, spec.stopping.max_runtime_seconds
    if wait is not None and runtime is not None and wait < runtime:
        yield Violation(
            "StoppingCondition.MaxWaitTimeInSeconds",
            wait,
            f"must be at least MaxRuntimeInSeconds ({runtime})",
        )
    for key in spec.hyperparameters:
        if "=" in key or "\0" in key:
            yield Violation(f"HyperParameters.{key}", key, "name must not contain '=' or NUL")


def _program_problems(spec: JobSpec) -> Iterator[Violation]:
    algorithm = spec.algorithm
    if algorithm.image and algorithm.name:
        yield Violation(
            "AlgorithmSpecification",
            algorithm.name,
            "give TrainingImage or AlgorithmName, not both",
        )
    named = [spec.entry_point, spec.options.module, spec.options.command]
    if spec.options.in_place is not None and not spec.options.in_place.startswith("/"):
        yield Violation("Trackside.InPlace", spec.options.in_place, "must be an absolute path")
    if sum(map(bool, named)) > 1:
        advice = "give one of sagemaker_program, Trackside.Module and Trackside.Command"
        yield Violation("Trackside", None, advice)
    if not (algorithm.image or algorithm.name or algorithm.entrypoint or any(named)):
        yield Violation(
            "AlgorithmSpecification",
            None,
            "names nothing to run; give the hyperparameter sagemaker_program (entry_point in the"
            " SDK), a ContainerEntrypoint or a TrainingImage",
        )


def _notify_problems(spec: JobSpec) -> Iterator[Violation]:
    for index, text in enumerate(spec.options.notify):
        try:
            notify_targets.Target.parse(text)
        except ValueError as error:
            yield Violation(f"Trackside.Notify[{index}]", text, str(error))


def _channel_problems(channel: Channel, spec: JobSpec) -> Iterator[Violation]:
    where = f"InputDataConfig.{channel.name}"
    mode = channel.input_mode or spec.algorithm.input_mode
    if channel.name in (".", ".."):
        yield Violation(f"{where}.ChannelName", channel.name, "would leave the data folder")
    if channel.data_type == "AugmentedManifestFile" and not channel.attributes:
        yield Violation(
            f"{where}.AttributeNames", (), "is required with AugmentedManifestFile: name 1 to 16"
        )
    if mode == "FastFile" and channel.data_type != "S3Prefix":
        yield Violation(
            f"{where}.S3DataType", channel.data_type, "FastFile takes only S3Prefix; use File"
        )
    if channel.record_wrapper == "RecordIO" and mode != "Pipe":
        yield Violation(
            f"{where}.RecordWrapperType", "RecordIO", "is only for input mode Pipe; use None"
        )
    groups = {group.name for group in spec.resources.groups}
    for name in channel.instance_groups:
        if name not in groups:
            known = ", ".join(sorted(groups)) or "none"
            yield Violation(f"{where}.InstanceGroupNames", name, f"unknown group; known: {known}")


def _metric_problems(spec: JobSpec) -> Iterator[Violation]:
    for index, definition in enumerate(spec.algorithm.metrics):
        if definition is None:  # not an object, which is a violation already
            continue
        try:
            with warnings.catch_warnings():  # of what a later Python may read otherwise
                warnings.simplefilter("ignore")
                re.compile(definition.regex)
        except (re.error, RecursionError, OverflowError) as error:
            where = f"AlgorithmSpecification.MetricDefinitions[{index}].Regex"
            yield Violation(
                where,
                definition.regex,
                f"is not a regular expression of Python's ({error}); the value is its first group, "
                "as in 'loss: ([0-9.]+)'",
            )


def _folder_problems(spec: JobSpec) -> Iterator[Violation]:
    folders = {
        "CheckpointConfig.LocalPath": spec.checkpoints and spec.checkpoints.local_path,
        "DebugHookConfig.LocalPath": spec.debug_hook and spec.debug_hook.local_path,
        "TensorBoardOutputConfig.LocalPath": spec.tensorboard and spec.tensorboard.local_path,
        "ProfilerConfig.ProfilingParameters.LocalPath": spec.profiler and spec.profiler.local_path,
    }
    for where, path in folders.items():
        if not path:
            continue
        if not path.startswith("/") or posixpath.normpath(path) != path.rstrip("/"):
            yield Violation(where, path, "must be an absolute path without '.' or '..' parts")
        elif path.rstrip("/") in ("", "/opt/ml", "/opt/ml/input", "/opt/ml/code"):
            yield Violation(where, path, "is taken by the contract; choose a folder of its own")


def _unique(where: str, names: list[str]) -> Iterator[Violation]:
    for name, count in Counter(names).items():
        if count > 1:
            yield Violation(where, name, f"is given {count} times; each must be unique")
