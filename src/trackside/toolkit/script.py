"""Runs the user's script: logs the command, waits for its end, and raises its failure."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence

from trackside.errors import CommandFailed
from trackside.toolkit import log, machine
from trackside.toolkit.environment import Job
from trackside.toolkit.masking import mask_mapping
from trackside.toolkit.process import StopSignals, run
from trackside.toolkit.variables import sm_variables

SCRIPT_ERROR = "ExecuteUserScriptError"


def execute(
    job: Job,
    command: list[str],
    shown: list[str],
    variables: Mapping[str, str],
    signals: StopSignals,
    *,
    deliver: Callable[[int], None] | None = None,
    started: Callable[[], None] | None = None,
) -> None:
    """Raises CommandFailed for a code other than 0. `shown` is the command without secrets."""
    _announce(job, shown)
    kills_before = machine.num_oom_kills()
    began = time.monotonic()
    ended = run(command, variables, signals, deliver=deliver, started=started)
    if ended.code == 0:
        return
    from trackside.toolkit.failure import out_of_memory

    raise CommandFailed(
        SCRIPT_ERROR,
        ended.code,
        output=ended.output,
        command=" ".join(shown),
        seconds=time.monotonic() - began,
        out_of_memory=out_of_memory(kills_before),
    )


def _announce(job: Job, shown: Sequence[str]) -> None:
    """Once, every variable on one line, no secrets. SM_TRAINING_ENV would repeat them all."""
    environment = job.environment
    masked = environment._replace(
        hyperparameters=mask_mapping(environment.hyperparameters),
        additional_framework_parameters=mask_mapping(environment.additional_framework_parameters),
    )
    texts = sm_variables(masked, job.shown_arguments)
    del texts["SM_TRAINING_ENV"]
    lines = "".join(f"  {name}={texts[name]}\n" for name in sorted(texts))
    log.info(f"Invoking user script\n{lines}  {shlex.join(shown)}")
