"""Waits for a job at a terminal: its statuses and log, and progress bars during transfers."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

from trackside.cli.failures import INTERRUPTED
from trackside.cli.finding_format import finding_formatter
from trackside.cli.terminal import Terminal
from trackside.errors import JobFailed, JobStopped, ServerUnreachable, TracksideError
from trackside.jobs.logs import LogLine
from trackside.jobs.rule_updates import Findings
from trackside.records.finding import Finding
from trackside.records.journal import History
from trackside.records.rule_status import Evaluation, RuleStatus
from trackside.records.status import Secondary
from trackside.sdk.job import TrainingJob
from trackside.sdk.print_events import LinePrinter, shown_on
from trackside.views.job.failure_hints import CRASH, advice
from trackside.views.job.failure_reason import in_short

if TYPE_CHECKING:
    from rich.live import Live

_MOVING = (Secondary.DOWNLOADING, Secondary.UPLOADING)


def wait_for(
    job: TrainingJob,
    *,
    quiet: bool = False,
    findings: BinaryIO | None = None,
    aid: Callable[[str], str] = advice,
) -> None:
    """Wait until the job has ended. `JobFailed` or `JobStopped` unless it completed; Ctrl-C ends
    the wait, and the job continues.

    Each finding is also appended to the file `findings`, and at the end the diagnosis. `aid`
    returns advice on a cause, or "".
    """
    found: list[Finding] = []
    try:
        with _Screen(job) if not quiet else nullcontext() as screen:
            for item in shown_on(sys.stdout, job.follow_all()):
                if isinstance(item, tuple):
                    found += item
                    if findings is not None:
                        findings.writelines(finding.to_line() for finding in item)
                        findings.flush()
                if screen is not None and not _is_stale(item):
                    screen.show(item)
        _conclude(found, quiet=quiet, findings=findings)
        job.raise_unless_completed()
    except JobFailed as failure:
        if quiet:
            raise
        cause = in_short(failure.reason)
        where = f"  trackside logs {job.name}\n  trackside show {job.name}"
        hint = "" if any(each.rule == CRASH for each in found) else aid(cause)
        evidence = "\n".join(filter(None, (hint, where)))
        raise JobFailed(job.name, cause, evidence) from None
    except JobStopped as stopped:
        where = f"  trackside artifacts {job.name}\n  trackside show {job.name}"
        raise JobStopped(job.name, stopped.cause, stopped.reason, where) from None
    except ServerUnreachable:
        _print_that_it_continues(job.name)
        raise
    except KeyboardInterrupt:
        _print_that_it_continues(job.name)
        sys.exit(INTERRUPTED)


def _print_that_it_continues(name: str) -> None:
    print(
        f"\nNo longer waiting; {name} goes on.\n"
        f"  trackside logs -f {name}\n"
        f"  trackside stop {name}",
        file=sys.stderr,
    )


def _conclude(found: Sequence[Finding], *, quiet: bool, findings: BinaryIO | None) -> None:
    if not found:
        return
    from trackside.rules.checkup.diagnosis import diagnose, is_of_checkup

    diagnoses = diagnose(filter(is_of_checkup, found))
    if findings is not None:
        findings.writelines(each.to_line(rank) for rank, each in enumerate(diagnoses, 1))
        findings.flush()
    if not quiet:
        sys.stdout.write(finding_formatter().diagnoses(diagnoses))
        sys.stdout.flush()


def _is_stale(item: object) -> bool:
    """The start of a rule is not shown to the user who started it."""
    return isinstance(item, Evaluation) and item.status is RuleStatus.IN_PROGRESS


class _Screen:
    """Lines as they arrive; below them, during transfers, a bar for each host.

    The bars are removed before anything else is written, so that the log reaches the terminal
    unchanged.
    """

    def __init__(self, job: TrainingJob) -> None:
        self._job = job
        self._printer = LinePrinter(
            sys.stdout, num_hosts=job.num_hosts, formatter=finding_formatter()
        )
        self._is_terminal = Terminal.of_stdout().is_terminal
        self._live: Live | None = None
        self._is_moving = False

    def __enter__(self) -> "_Screen":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._hide()

    def show(self, item: History | LogLine | Findings | Evaluation) -> None:
        self._hide()
        self._printer.show(item)
        if isinstance(item, History):
            self._is_moving = item.state.secondary in _MOVING
        if self._is_moving and self._is_terminal:
            from trackside.cli.bars import live_bars  # needs rich, unlike the rest

            self._live = live_bars(self._hosts)
            self._live.start()

    def _hide(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _hosts(self) -> Mapping[str, Mapping[str, Any]]:
        try:
            hosts: Mapping[str, Mapping[str, Any]] = self._job.describe()["Trackside"]["hosts"]
        except TracksideError:
            return {}  # read again in a moment
        return hosts
