"""Hyperparameters on the wire: the user's own, and those that tell the toolkit what to run."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from trackside.errors import InvalidSpec, Violation

DEFAULT_LOG_LEVEL = 20
REGION = "us-east-1"
"""Sent because scripts and the toolkit expect one; no region is ever contacted."""


def as_json(value: Any) -> str:
    """How framework estimators encode a value: `True` is `true`, `"abc"` is `"abc"` in quotes."""
    return json.dumps(value)


def as_text(value: Any) -> str:
    """How the generic estimator encodes a value: by `str`."""
    return str(value)


def encoded(parameters: Mapping[str, Any], encode: Callable[[Any], str]) -> dict[str, str]:
    violations = []
    texts: dict[str, str] = {}
    for name, value in parameters.items():
        try:
            texts[str(name)] = encode(value)
        except (TypeError, ValueError):
            advice = "cannot be written as JSON; give text, a number, a bool, a list or a dict"
            violations.append(Violation(f"hyperparameters.{name}", value, advice))
    if violations:
        raise InvalidSpec(violations)
    return texts


def script(program: str, source: str, job_name: str, log_level: int | str) -> dict[str, Any]:
    """Those that start a user's script; JSON-encoded by every estimator."""
    return {
        "sagemaker_program": program,
        "sagemaker_submit_directory": source,
        "sagemaker_container_log_level": log_level,
        "sagemaker_job_name": job_name,
        "sagemaker_region": REGION,
    }


def distributed(distribution: Mapping[str, Any], instance_type: str) -> dict[str, Any]:
    """How to start the processes of several hosts; empty if the option is off."""
    if not distribution:
        return {}
    known = {"torch_distributed": _torchrun, "pytorchddp": _ddp, "mpi": _mpi}
    found = [name for name in distribution if name in known]
    if len(distribution) != 1 or not found or not isinstance(distribution[found[0]], Mapping):
        advice = f'must be {{"NAME": {{"enabled": True}}}} with NAME one of {", ".join(known)}'
        raise InvalidSpec([Violation("distribution", dict(distribution), advice)])
    options = distribution[found[0]]
    if not options.get("enabled"):
        return {}
    parameters = {**known[found[0]](options), "sagemaker_instance_type": instance_type}
    if "instance_groups" in options:
        parameters["sagemaker_distribution_instance_groups"] = list(options["instance_groups"])
    return parameters


def _torchrun(options: Mapping[str, Any]) -> dict[str, Any]:
    return {"sagemaker_torch_distributed_enabled": True, **_processes(options)}


def _ddp(options: Mapping[str, Any]) -> dict[str, Any]:
    return {"sagemaker_pytorch_ddp_enabled": True, **_processes(options)}


def _mpi(options: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {"sagemaker_mpi_enabled": True, **_processes(options)}
    if custom := options.get("custom_mpi_options"):
        parameters["sagemaker_mpi_custom_mpi_options"] = custom
    return parameters


def _processes(options: Mapping[str, Any]) -> dict[str, Any]:
    """The toolkit reads this one name for both MPI and torchrun."""
    number = options.get("processes_per_host")
    return {} if number is None else {"sagemaker_mpi_num_of_processes_per_host": int(number)}
