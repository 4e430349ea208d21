"""What is wrong with a request, in AWS's own wording, which programs check for.

`members` and `spec` define the constraints.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from trackside.api.call import ServiceError
from trackside.errors import Violation
from trackside.jobs.instance_types import is_possible
from trackside.records.members import read
from trackside.records.spec import JobSpec

T = TypeVar("T")

NOT_FOUND = "Requested resource not found."
ROLE = r"arn:aws[a-z\-]*:iam::\d{12}:role/?[a-zA-Z_0-9+=,.@\-_/]+"
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
_INSTANCE_TYPES = "Member must satisfy enum value set: [ml.<family>.<size>, as ml.m5.xlarge]"
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
            parts.append(rest)  # a user's key: unchanged
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
    """What is valid for a local job, but not for one from a client; `locations` checks the
    locations that it names."""
    if spec.role is None:
        yield Violation("RoleArn", None, "is required", constraint="required")
    elif not re.fullmatch(ROLE, spec.role):
        constraint = f"Member must satisfy regular expression pattern: {ROLE}"
        yield Violation("RoleArn", spec.role, "is no role", constraint=constraint)
    if spec.profiler and spec.profiler.interval_milliseconds not in PROFILING_INTERVALS:
        known = ", ".join(map(str, PROFILING_INTERVALS))
        yield Violation(
            "ProfilerConfig.ProfilingIntervalInMilliseconds",
            spec.profiler.interval_milliseconds,
            f"must be one of {known}",
            constraint=f"Member must satisfy enum value set: [{known}]",
        )
    if spec.options.in_place is not None:
        advice = "is for jobs that are started on their own machine; send the code as an archive"
        yield Violation("Trackside.InPlace", spec.options.in_place, advice)
    yield from _impossible_types(spec)


def _impossible_types(spec: JobSpec) -> Iterator[Violation]:
    """A typo would silently become the smallest machine."""
    resources = spec.resources
    types = {
        f"ResourceConfig.InstanceGroups[{index}].InstanceType": group.instance_type
        for index, group in enumerate(resources.groups)
    } or {"ResourceConfig.InstanceType": resources.instance_type}
    for field, given in types.items():
        if not is_possible(given):
            yield Violation(field, given, "is no instance type", constraint=_INSTANCE_TYPES)
