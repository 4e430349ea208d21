"""A run as its script sees it: `log`, `watch`, `finish`.

`Run` itself writes curves to a folder, which is enough inside a job, or nowhere if nothing is
tracked. `attached_run` creates a job.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trackside.curves.event_writer import SummaryWriter
from trackside.errors import NoRun
from trackside.inside.values import flattened, shown, whole


def notify(message: str) -> None:
    """Print a line for the user, on standard error rather than the script's output."""
    with suppress(OSError, ValueError):  # closed, or its reader is gone
        if sys.stderr is not None:
            sys.stderr.write(f"trackside: {message}\n")
            sys.stderr.flush()


def check_torch(modules: Sequence[Any]) -> None:
    """Avoids importing torch for nothing: a caller with a torch model has imported it."""
    if "torch" not in sys.modules:
        given = shown(modules[0]) if modules else ""
        raise TypeError(f"watch({given}) is not a torch.nn.Module: torch is not even imported.")


class Run:
    """`with trackside.init(...) as run:` ends it as Failed when the block raises."""

    def __init__(self, name: str, curves: Path | None) -> None:
        """`OSError` when the folder for its curves cannot be made; without one nothing is saved."""
        self.name = name
        self._writer = None if curves is None else SummaryWriter(curves)
        self._next_step = 0
        self._reported: set[str] = set()
        self.is_finished = False
        self._why_not_kept = ""
        """Why further points are dropped; empty when the script already knows."""

    def log(self, values: Mapping[str, Any], step: Any = None) -> None:
        """Add a point to each of these curves. The default step is the one after the last.

        Values that are not numbers are skipped, with one warning per name. `NoRun` after `finish`.
        """
        if not isinstance(values, Mapping):
            raise TypeError(
                f"log({shown(values)}) is not a mapping. "
                "Give names and numbers: log({'loss': 0.1})."
            )
        at = self._step(step)
        writer = self._writer
        if writer is None:
            return self._drop()
        now = time.time()
        try:
            for name, value in flattened(values, self._refuse):
                writer.add_scalar(name, value, at, now)
        except OSError as error:
            self._once("disk", f"points wait to be written: {error}. Training goes on.")

    def watch(self, *modules: Any) -> None:
        """Watch the training of these models: inside a job, by the job's own rules."""
        check_torch(modules)
        if self._writer is not None:
            from trackside.inside.watch_model import watch_in_job

            watch_in_job(modules, notify)

    def finish(self, exit_code: int = 0) -> None:
        """All points are written when this returns. A second call does nothing."""
        self.is_finished = True
        self._close_writer()

    def leave_to_parent(self) -> None:
        """In a forked child: the run, its files and its end belong to the parent."""
        if self._writer is not None:
            self._why_not_kept = "only the process that called init logs, not those it forks"
        self._writer = None
        self.is_finished = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.finish()

    def __repr__(self) -> str:
        return f"<trackside run {self.name!r}>"

    def _step(self, step: Any) -> int:
        at = self._next_step
        if step is not None:
            try:
                at = step if type(step) is int and step >= 0 else whole(step)
            except Exception as error:  # noqa: BLE001 - an array's own, of whatever kind
                is_ours = isinstance(error, ValueError)
                text = str(error) if is_ours else f"step={shown(step)} is no step: {error}."
                self._once("step", f"{text} Such points get the step after the last one.")
        self._next_step = at + 1
        return at

    def _drop(self) -> None:
        if self._why_not_kept:
            self._once("dropped", f"what is logged here is not kept: {self._why_not_kept}.")
        elif self.is_finished:
            raise NoRun(f"The run {self.name!r} is finished. Call trackside.init for another one.")

    def _refuse(self, name: str, problem: str) -> None:
        self._once(f"value {name}", f"{name!r} is not logged: {problem}.")

    def _once(self, what: str, message: str) -> None:
        if what not in self._reported:
            self._reported.add(what)
            notify(message)

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            writer.close()
        except OSError as error:
            notify(f"the last points of {self.name} are not written: {error}")
