"""`trackside.init`, `log`, `watch` and `finish`: one run at a time in a process."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trackside.errors import InvalidSpec, NoRun
from trackside.inside.process_context import ProcessContext
from trackside.inside.request import InitArguments
from trackside.inside.run import Run, notify
from trackside.sdk.rule import Rule

_current: Run | None = None


def init(
    project: str | None = None,
    *,
    name: str | None = None,
    config: Any = None,
    tags: Mapping[str, str] | None = None,
    rules: Sequence[Rule | str] | None = None,
    console: bool = True,
    rank: int | None = None,
) -> Run:
    """Begin a run of this process, which ends the one before.

    It is listed, shown and reported as jobs are. `project` begins its name, unless `name` is given.
    `config` is what is compared between runs: a mapping, what argparse returns, or a dataclass.
    `rules` judge what `watch` is given; the built-in check-up unless given. `console` saves a copy
    of the script's output. Of the processes of one training only rank 0 has a run, by RANK or what
    MPI and Slurm set; `rank` overrides that. In a job, its own curves are added to.

    No error of tracking ends the script: it is reported, and the script continues.
    """
    global _current
    given = InitArguments.of(project, config, tags, rules)
    if _current is not None:
        _current.finish()
    _current = _begin(given, name, ProcessContext.detect(), rank, console)
    return _current


def log(values: Mapping[str, Any], step: Any = None) -> None:
    """Add a point to each of these curves of the current run: `log({"loss": 0.1}, step=3)`."""
    _run("log").log(values, step)


def watch(*modules: Any) -> None:
    """Have rules judge the training of these models: see `AttachedRun.watch`."""
    _run("watch").watch(*modules)


def finish(exit_code: int = 0) -> None:
    """End the current run, if there is one. Optional at the end of a script."""
    global _current
    run, _current = _current, None
    if run is not None:
        run.finish(exit_code)


def _run(what: str) -> Run:
    if _current is None:
        raise NoRun(f"trackside.{what} has no run. Call trackside.init(project='…') before it.")
    return _current


def _begin(
    given: InitArguments, name: str | None, here: ProcessContext, rank: int | None, console: bool
) -> Run:
    number = here.rank if rank is None else rank
    if number or here.is_being_imported:
        if here.rank_variable == "SLURM_PROCID" and rank is None:
            notify(
                f"{here.rank_variable}={number}: only rank 0 is tracked. init(rank=0) tracks this"
            )
        return Run("", None)
    if here.job:
        return _in_job(here.job, here.base)
    try:
        from trackside.inside.start_run import begin  # a job's script needs none of it

        return begin(given, name, is_interactive=here.is_interactive, console=console)
    except InvalidSpec:
        raise
    except Exception as error:  # noqa: BLE001 - no fault of ours may end a training
        notify(f"this run is not tracked: {str(error).rstrip('.')}. The script goes on.")
        return Run("", None)


def _in_job(job: str, base: Path) -> Run:
    try:
        return Run(job, base / "output" / "tensorboard")
    except OSError as error:
        notify(f"points are not kept: {error}. The script goes on.")
        return Run(job, None)


def _leave_to_parent() -> None:
    if _current is not None:
        _current.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)
