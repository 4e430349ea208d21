"""A run with its own job: created by `init`, ended by `finish`.

`attached_process` records its process. Its supervisor does the rest: it copies curves and tensors,
has the rules evaluated, and writes the final status, also when this process is killed.
"""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from trackside.coordination.host_files import first_files
from trackside.files import durable
from trackside.files.permissions import make_folder
from trackside.inside import exception_text, exit_hooks
from trackside.inside.console import Console
from trackside.inside.exit_hooks import Cells, ExitHooks
from trackside.inside.run import Run, check_torch, notify
from trackside.inside.summary_line import last_line
from trackside.jobs.jobs import Jobs
from trackside.records import attached_process, evaluator_process
from trackside.records.attached_process import AttachedProcessEnd
from trackside.records.host_processes import wake_supervisors
from trackside.records.job_updates import Update, with_updates
from trackside.records.journal import History, Journal
from trackside.records.layout import TENSORBOARD, HostFolder, JobFolder, JobKeys
from trackside.records.spec import DebugHook, JobSpec
from trackside.records.status import Secondary, Status
from trackside.sdk.rule import Rule

if TYPE_CHECKING:
    from trackside.capture.hook import Hook

POLL_SECONDS = 2.0
"""How often `log` checks whether the run was stopped from outside."""
END_SECONDS = 30.0
"""How long `finish` waits for the last copies, and for the rules' last evaluation."""
_PAUSE_SECONDS = 0.05
_INTERRUPTED = 130
_ENDED_OUTSIDE = "the run was ended from outside, as by `trackside stop`; the script goes on"


@dataclass(frozen=True, slots=True)
class _Noted:
    """How the process is about to end."""

    code: int = 0
    failure: str = ""
    is_interrupted: bool = False
    may_be_caught: bool = False
    """The script may catch it and continue: then this was not the end."""
    is_reported: bool = True
    """False until it is known how it ends."""


_UNREPORTED = _Noted(is_reported=False)


def abandon(folder: JobFolder, error: Exception) -> None:
    """End a job that was just created for this process and cannot be tracked."""
    host = first_files(folder)
    with suppress(OSError):
        _write_failure(host, f"trackside.init could not go on: {error}")
    with suppress(OSError):
        attached_process.write_end(host, AttachedProcessEnd(1, let_go=True))


class AttachedRun(Run):
    def __init__(
        self,
        jobs: Jobs,
        spec: JobSpec,
        folder: JobFolder,
        *,
        rules: Sequence[Rule] | None,
        is_interactive: bool,
        command: str,
        console: bool,
    ) -> None:
        """`command` is `trackside`, with variables if needed, for suggested commands."""
        self._host: HostFolder = first_files(folder)
        super().__init__(spec.name, self._host.inside(TENSORBOARD))
        self._jobs = jobs
        self._spec = spec
        self._folder = folder
        self._rules = rules
        self._is_interactive = is_interactive
        self._command = command
        self._began = time.monotonic()
        self._poll_at = self._began + POLL_SECONDS
        self._noted = _UNREPORTED
        self._hook: Hook | None = None
        self._watched: list[Any] = []
        self._console = Console(self._host.log) if console else None
        if self._console is not None:
            self._console.start()
        self._ends = ExitHooks(self)
        self._ends.install(errors_end=not is_interactive)
        self._cells = Cells(self)
        self._cells.install()

    def log(self, values: Mapping[str, Any], step: Any = None) -> None:
        now = time.monotonic()
        if now >= self._poll_at:
            self._poll_at = now + POLL_SECONDS
            self._leave_if_ended()
        if self._noted.may_be_caught:
            self._noted = _UNREPORTED
        super().log(values, step)

    def watch(self, *modules: Any) -> None:
        """Have the run's rules judge the training of these models, and losses, while it runs: the
        built-in check-up, unless `init` was given others. Each model once.
        """
        check_torch(modules)
        if self.is_finished:
            return self._drop()
        from trackside.inside import watch_model

        watch_model.check_modules(modules)
        fresh = [each for each in modules if not any(each is known for known in self._watched)]
        try:
            if self._hook is None:
                self._hook = self._start_watching()
        except Exception as error:  # noqa: BLE001 - no fault of ours may end a training
            return notify(f"no rules watch {self.name}: {error}. Training goes on.")
        watch_model.register(self._hook, fresh)
        self._watched += fresh

    def finish(self, exit_code: int = 0) -> None:
        """End the run, and print its result and findings. A second call does nothing.

        A code other than 0 means failure.
        """
        if self.is_finished:
            return
        if exit_code and not self._noted.code:
            self._noted = _Noted(exit_code, f"The script called finish({exit_code})")
        seconds = self._seconds
        self._close()
        try:
            self._write_end(seconds)
            history, is_judged = self._await_end()
            notify(last_line(self._jobs, self.name, history, seconds, self._command, is_judged))
        except KeyboardInterrupt:
            notify(f"{self.name} ends by itself; `{self._command} show {self.name}`")
        except Exception as error:  # noqa: BLE001 - no fault of ours may end a training
            notify(f"the end of {self.name} could not be seen: {error}")

    def leave_to_parent(self) -> None:
        super().leave_to_parent()
        self._hook = None  # it identifies its process by itself
        self._ends.remove()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, SystemExit):
            if exception_text.exit_code(error.code) and not self._noted.code:
                self._noted = _Noted(
                    exception_text.exit_code(error.code), f"SystemExit: {error.code}"
                )
        elif error is not None:
            self.note_error(error)
        self.finish()

    # How the process ends, reported by `ExitHooks` and `Cells`.

    def end_with_process(self, *, has_returned: bool) -> None:
        """`has_returned`: the script reached its last line, without a SystemExit.

        If it did not exit through our `sys.exit`, the supervisor learns the code.
        """
        is_known = has_returned or self._noted.is_reported
        if is_known or not exit_hooks.write_exit_status(self._host.caller_status):
            return self.finish()
        self._close()
        notify(f"{self.name} ends with this process; `{self._command} show {self.name}`")

    def note_error(self, error: BaseException) -> None:
        if isinstance(error, KeyboardInterrupt):
            self._noted = _Noted(_INTERRUPTED, is_interrupted=True)
        else:
            self._noted = _Noted(1, exception_text.failure_text(error, self._seconds))

    def note_cell(self, error: BaseException | None) -> None:
        """A cell that was interrupted to stop the run ends it; any other may."""
        if error is None:
            self._noted = _UNREPORTED
            return
        self.note_error(error)
        self._noted = replace(self._noted, may_be_caught=True)
        state = Journal(self._folder.journal).read().state
        if self._noted.is_interrupted and state.status is Status.STOPPING:
            self.finish()

    def note_exit(self, code: object, frame: FrameType) -> None:
        text = exception_text.exit_text(code, frame) if exception_text.exit_code(code) else ""
        self._noted = _Noted(exception_text.exit_code(code), text, may_be_caught=True)

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _start_watching(self) -> "Hook":
        from trackside.inside import watch_model

        rules = self._rules
        if rules is None:
            rules = watch_model.default_rules(is_interactive=self._is_interactive)
        saved = DebugHook(uri=self._spec.output.uri)
        watch_model.prepare()
        hook = watch_model.make_hook(rules, saved, self._host)
        added = watch_model.configurations(rules, JobKeys.of(self._spec))
        self._jobs.update(self.name, Update(debug_hook=saved, debug_rules=added))
        return hook

    def _leave_if_ended(self) -> None:
        """The run was ended or deleted from outside."""
        is_over = os.path.exists(self._host.caller_end) or not os.path.exists(self._host.caller)
        if is_over and not self.is_finished:
            self._close()
            self._why_not_kept = _ENDED_OUTSIDE

    def _close(self) -> None:
        self.is_finished = True
        self._ends.remove()
        self._cells.remove()
        if self._hook is not None:
            self._hook.close()
            self._hook = None
        self._watched = []
        self._close_writer()
        if self._console is not None:
            self._console.stop()

    def _write_end(self, seconds: float) -> None:
        noted = self._noted
        if noted.is_interrupted:
            message = "Interrupted from the keyboard, or by a signal"
            journal = Journal(self._folder.journal, lock_seconds=END_SECONDS)
            journal.try_move(Secondary.STOPPING, message=message)
        elif noted.failure:
            _write_failure(self._host, noted.failure)
        attached_process.write_end(self._host, AttachedProcessEnd(noted.code, seconds))
        wake_supervisors(self._folder)

    def _await_end(self) -> tuple[History, bool]:
        """Its history, and whether its rules have judged all of it."""
        deadline = time.monotonic() + END_SECONDS
        while True:
            history = Journal(self._folder.journal).read()
            spec = with_updates(self._spec, history).spec
            is_judged = not spec.debug_rules or evaluator_process.has_judged(
                self._folder.rules, spec
            )
            if (history.state.is_final and is_judged) or time.monotonic() > deadline:
                return history, is_judged
            self._jobs.reconcile(self.name)
            time.sleep(_PAUSE_SECONDS)


def _write_failure(host: HostFolder, text: str) -> None:
    """The contract's file for the reason of a failure."""
    output = host.ml / "output"
    make_folder(output)
    durable.write_bytes(output / "failure", text.encode(errors="backslashreplace"))
