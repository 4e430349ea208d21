"""What is wrong with a request, in the words of AWS: programs look for them.

The constraints themselves are `members`' and `spec`'s.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from trackside.api.call import ServiceError
from trackside.errors import Violation
from trackside.members import read
from trackside.spec import JobSpec

T = TypeVar("T")

NOT_FOUND = "Requested resource not found."
ROLE = r"arn:aws[a-z\-]*:iam::\d{12}:role/?[a-zA-Z_0-9+=,.@\-_/]+"
_URI = r"(https|s3)://([^/]+)/?(.*)"
_REMOTE = ("s3://", "gs://", "az://")
_MAPS = (
    "HyperParameters",
    "Environment",
    "RuleParameters",
    "HookParameters",
    "CollectionParameters",
    "ProfilingParameters",
)
_PART = re.compile(r"(.*?)((?:\[\d+\])*)")
_SHOWN_MOST = 512
PROFILING_INTERVALS = (100, 200, 500, 1000, 5000, 60000)
"""Milliseconds."""


def invalid(text: str) -> ServiceError:
    return ServiceError("ValidationException", text)


def not_found() -> ServiceError:
    return invalid(NOT_FOUND)


def refused(violations: Sequence[Violation]) -> ServiceError:
    """All of them at once."""
    count = len(violations)
    head = "1 validation error" if count == 1 else f"{count} validation errors"
    return invalid(f"{head} detected: {'; '.join(map(sentence, violations))}")


def sentence(violation: Violation) -> str:
    where = path(violation.field)
    if violation.constraint == "required":
        value, constraint = "null", "Member must not be null"
    else:
        shown = "null" if violation.value is None else f"'{violation.value}'"[:_SHOWN_MOST]
        value, constraint = shown, violation.constraint or f"Member {violation.advice}"
    return f"Value {value} at '{where}' failed to satisfy constraint: {constraint}"


def path(field: str) -> str:
    """`InputDataConfig[0].ChannelName` as AWS writes it: `inputDataConfig.1.member.channelName`."""
    parts = []
    rest = field
    while rest:
        part, _, rest = rest.partition(".")
        match = _PART.fullmatch(part)
        assert match is not None
        name, indices = match.groups()
        parts.append(name[:1].lower() + name[1:])
        parts += [f"{int(index) + 1}.member" for index in re.findall(r"\d+", indices)]
        if name in _MAPS and rest:
            parts.append(rest)  # a key of the user's: as it is
            break
    return ".".join(parts)


def parsed(cls: type[T], given: Mapping[str, Any]) -> T:
    """The input of an operation, declared by `members`."""
    violations: list[Violation] = []
    found = read(cls, given, "", violations)
    if violations or found is None:
        raise refused(violations)
    return found


def wire_violations(spec: JobSpec) -> Iterator[Violation]:
    """What is good for a job of this machine's own, and not for one that comes over the wire."""
    if spec.role is None:
        yield Violation("RoleArn", None, "is required", constraint="required")
    elif not re.fullmatch(ROLE, spec.role):
        constraint = f"Member must satisfy regular expression pattern: {ROLE}"
        yield Violation("RoleArn", spec.role, "is no role", constraint=constraint)
    for field, uri in _uris(spec):
        if uri is not None and not uri.startswith(_REMOTE):
            constraint = f"Member must satisfy regular expression pattern: {_URI}"
            yield Violation(field, uri, "is no s3:// location", constraint=constraint)
    if spec.profiler and spec.profiler.interval_milliseconds not in PROFILING_INTERVALS:
        known = ", ".join(map(str, PROFILING_INTERVALS))
        yield Violation(
            "ProfilerConfig.ProfilingIntervalInMilliseconds",
            spec.profiler.interval_milliseconds,
            f"must be one of {known}",
            constraint=f"Member must satisfy enum value set: [{known}]",
        )
    if not (spec.entry_point or spec.algorithm.entrypoint):
        yield Violation(
            "AlgorithmSpecification.TrainingImage",
            spec.algorithm.image,
            "is not run as a container here; name the script in the hyperparameter"
            " sagemaker_program (entry_point in the SDKs), or a ContainerEntrypoint",
        )


def _uris(spec: JobSpec) -> Iterator[tuple[str, str | None]]:
    yield "OutputDataConfig.S3OutputPath", spec.output.uri
    yield "HyperParameters.sagemaker_submit_directory", spec.source
    for index, channel in enumerate(spec.inputs):
        yield f"InputDataConfig[{index}].DataSource.S3DataSource.S3Uri", channel.uri
    if spec.checkpoints:
        yield "CheckpointConfig.S3Uri", spec.checkpoints.uri
    if spec.debug_hook:
        yield "DebugHookConfig.S3OutputPath", spec.debug_hook.uri
    if spec.tensorboard:
        yield "TensorBoardOutputConfig.S3OutputPath", spec.tensorboard.uri
    if spec.profiler:
        yield "ProfilerConfig.S3OutputPath", spec.profiler.uri
    for member, rules in (
        ("DebugRuleConfigurations", spec.debug_rules),
        ("ProfilerRuleConfigurations", spec.profiler_rules),
    ):
        for index, rule in enumerate(rules):
            yield f"{member}[{index}].S3OutputPath", rule.uri
            source = rule.parameters.get("source_s3_uri")
            yield f"{member}[{index}].RuleParameters.source_s3_uri", source
