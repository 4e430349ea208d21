"""The trial of a job, or the one at a location; only if something is there already."""

import os

from trackside.capture.exceptions import SMDebugError
from trackside.capture.trial import Trial, create_trial
from trackside.errors import InputError
from trackside.sdk.job import attach
from trackside.settings import Settings
from trackside.storage.locate import locate


def trial_of(job: str) -> Trial:
    """`InputError` when it has saved nothing: opening it would wait until it has."""
    path = job if is_location(job) else _path_of(job)
    location = locate(path, home=Settings.load().home)
    prefix = f"{location.key.rstrip('/')}/" if location.key else ""
    if next(iter(location.store.list(prefix)), None) is None:
        raise InputError(f"{job!r} has saved no tensors yet; it would be at {path!r}.")
    try:
        return create_trial(path)
    except SMDebugError as error:
        raise InputError(f"{path!r} is no trial that can be read: {error}") from error


def is_location(text: str) -> bool:
    """Whether it says where something is, rather than the name of a job."""
    return "/" in text or os.path.isdir(text)


def _path_of(job: str) -> str:
    path = attach(job).debugger_artifacts_path
    if path is None:
        raise InputError(
            f"Job {job!r} captures nothing. Start one with "
            "`trackside run --capture gradients,losses`, or give debugger_hook_config in the SDK."
        )
    return path
