"""smdebug's `create_trial`, which opens tensors or, on request, the profiler's data."""

from pathlib import Path
from typing import Any, Literal, overload

from trackside.capture import trial
from trackside.capture.trial import Trial
from trackside.rules.saved.profiler_trial import ProfilerTrial

_OUTPUTS = "/opt/ml/processing/outputs/"


@overload
def create_trial(
    path: str | Path,
    name: str | None = None,
    profiler: Literal[False] = False,
    output_dir: str = _OUTPUTS,
    **options: Any,
) -> Trial: ...


@overload
def create_trial(
    path: str | Path,
    name: str | None = None,
    *,
    profiler: Literal[True],
    output_dir: str = _OUTPUTS,
    **options: Any,
) -> ProfilerTrial: ...


def create_trial(
    path: str | Path,
    name: str | None = None,
    profiler: bool = False,
    output_dir: str = _OUTPUTS,
    **options: Any,
) -> Trial | ProfilerTrial:
    """The options are those of `trackside.capture.trial.create_trial`, and tune its reader.

    The original writes files to `output_dir`; this one writes none.
    """
    if profiler:
        return ProfilerTrial(str(path).strip(), name)
    return trial.create_trial(path, name, **options)
