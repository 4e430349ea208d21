"""A job's request with changed hyperparameters, under another name. Pure.

Its code stays where it is stored. What belonged to the one job alone is left out or renamed.
"""

import json
from collections.abc import Mapping
from typing import Any

from trackside.jobs.masked_request import masked
from trackside.page.problems import BadRequest
from trackside.records.spec import JobSpec
from trackside.texts.secret_names import MASK

_OWN = "sagemaker_"
"""Prefix of hyperparameters that say what to run, and how."""


def request_again(spec: JobSpec, name: str, changes: Mapping[str, str | None]) -> dict[str, Any]:
    """`changes` has new values of hyperparameters, and None for those to leave out. `BadRequest`
    for a job that cannot be run so."""
    if spec.is_attached:
        raise BadRequest(
            f"{spec.name!r} was started by a program of its own, with trackside.init.",
            "Start that program again.",
        )
    request = spec.to_request()
    request["TrainingJobName"] = name
    request["HyperParameters"] = _changed(spec.hyperparameters, changes)
    _rename_checkpoints(request, spec.name, name)
    own = {**request.get("Trackside", {})}
    if launch := own.pop("Launch", None):
        own["Launch"] = {**launch, "Command": []}  # nobody typed this one
    if any(MASK in each for each in own.get("Notify", ())):
        del own["Notify"]
    request["Trackside"] = own
    _check_whole(request, spec.name)
    return request


def has_secrets(request: Mapping[str, Any]) -> bool:
    """Whether it has values that are only for the job's owner."""
    return masked(request) != request


def _changed(given: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    found = dict(given)
    for name, value in changes.items():
        if name.startswith(_OWN):
            raise BadRequest(f"{name!r} says what to run, and is no hyperparameter of the script.")
        if value is None:
            found.pop(name, None)
        else:
            found[name] = _encoded(value, given.get(name, ""))
    return found


def _encoded(value: str, before: str) -> str:
    """As JSON, if the value before was a text in JSON: SDKs write texts so."""
    is_quoted = len(before) > 1 and before[0] == before[-1] == '"'
    return json.dumps(value) if is_quoted and not value.startswith('"') else value


def _rename_checkpoints(request: dict[str, Any], before: str, name: str) -> None:
    """A location with the job's name in it was for that job alone; any other is shared."""
    checkpoints = request.get("CheckpointConfig")
    if checkpoints:
        parts = checkpoints["S3Uri"].split("/")
        uri = "/".join(name if part == before else part for part in parts)
        request["CheckpointConfig"] = {**checkpoints, "S3Uri": uri}


def _check_whole(request: Mapping[str, Any], job: str) -> None:
    """The stored copy of a request has no secret variables."""
    lost = [name for name, value in request.get("Environment", {}).items() if value == MASK]
    if lost:
        raise BadRequest(
            f"The variables {', '.join(lost)} of {job!r} are secret, and no longer stored.",
            "Run it again with the command of its setup, and give them there.",
        )
