"""Hyperparameters: from the request's strings to values, arguments and variables.

Byte for byte what `sagemaker-training` does; docs/toolkit.md shows the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

RESERVED_PREFIX = "sagemaker_"

# The toolkit's own, so neither the script's nor a framework's.
_OWN = frozenset(
    {
        "sagemaker_program",
        "sagemaker_submit_directory",
        "sagemaker_container_log_level",
        "sagemaker_job_name",
        "sagemaker_region",
        "sagemaker_s3_output",
        "sagemaker_enable_cloudwatch_metrics",
    }
)
_HIDDEN = frozenset({"default_user_module_name", "_tuning_objective_metric"})


class Split(NamedTuple):
    user: dict[str, object]
    """What the script sees."""
    framework: dict[str, object]
    """`sagemaker_…` parameters unknown to the toolkit: SM_FRAMEWORK_PARAMS."""
    own: dict[str, object]


def decode(raw: Mapping[str, object]) -> dict[str, object]:
    """Each string that is JSON becomes its value; every other value is unchanged."""
    return {key: _decode_value(value) for key, value in raw.items()}


def split(hyperparameters: Mapping[str, object]) -> Split:
    parts = Split({}, {}, {})
    for key, value in hyperparameters.items():
        if key in _OWN:
            parts.own[key] = value
        elif key.startswith(RESERVED_PREFIX):
            parts.framework[key] = value
        elif key not in _HIDDEN:
            parts.user[key] = value
    return parts


def to_arguments(hyperparameters: Mapping[str, object], *, sort: bool = True) -> list[str]:
    """Name and value of each, always two elements; sorted by code point by default."""
    names: Iterable[str] = sorted(hyperparameters) if sort else hyperparameters
    return [part for name in names for part in (_option(name), _argument(hyperparameters[name]))]


def to_text(value: object) -> str:
    """A value as an environment variable holds it."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _decode_value(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _option(name: str) -> str:
    if not name:
        return ""
    return f"--{name}" if len(name) > 1 else f"-{name}"


def _argument(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return ",".join(f"{key}={value[key]}" for key in sorted(value))
    return str(value)
