"""smdebug's `create_trial`, which opens tensors or, asked for it, the profiler's data."""

from pathlib import Path
from typing import Any, Literal, overload

from trackside.capture import trial
from trackside.capture.trial import Trial
from trackside.rules.saved.profiler_trial import ProfilerTrial


@overload
def create_trial(
    path: str | Path, name: str | None = None, profiler: Literal[False] = False, **options: Any
) -> Trial: ...


@overload
def create_trial(
    path: str | Path, name: str | None = None, *, profiler: Literal[True], **options: Any
) -> ProfilerTrial: ...


def create_trial(
    path: str | Path, name: str | None = None, profiler: bool = False, **options: Any
) -> Trial | ProfilerTrial:
    """The options are those of `trackside.capture.trial.create_trial`, and tune its reader."""
    if profiler:
        return ProfilerTrial(str(path).strip(), name)
    return trial.create_trial(path, name, **options)
