"""Opens the trial of a job, or at a location, only if it has data already."""

import os

from trackside.capture.exceptions import SMDebugError
from trackside.capture.trial import Trial
from trackside.errors import InputError
from trackside.rules.saved.open_trial import open_trial
from trackside.sdk.job import attach
from trackside.settings import Settings
from trackside.storage.locate import locate_to_read


def trial_of(job: str) -> Trial:
    """`InputError` when nothing is saved: opening it would wait."""
    path = job if is_location(job) else _path_of(job)
    home = Settings.load().home
    try:
        trial = open_trial(locate_to_read(path, home=home), home)
    except SMDebugError as error:
        raise InputError(f"{path!r} is not a trial that can be read: {error}") from error
    if trial is None:
        raise InputError(f"{job!r} has saved no tensors yet; they would be at {path!r}.")
    return trial


def is_location(text: str) -> bool:
    """Whether the text is a location, rather than a job's name."""
    return "/" in text or os.path.isdir(text)


def _path_of(job: str) -> str:
    path = attach(job).debugger_artifacts_path
    if path is None:
        raise InputError(
            f"Job {job!r} captures nothing. Start one with "
            "`trackside run --capture gradients,losses`, or give debugger_hook_config in the SDK."
        )
    return path
