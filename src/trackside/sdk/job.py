"""One job by its name: status, log, stop, downloads."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trackside.errors import JobNotFinished
from trackside.jobs import described_locations
from trackside.records.journal import History
from trackside.records.status import Status
from trackside.sdk.known_jobs import known_reader
from trackside.sdk.user_warnings import caution
from trackside.texts.shown_names import shown_name, wire_name

if TYPE_CHECKING:  # imported when a job is first queried, after its start
    from trackside.jobs.artifacts import Artifact
    from trackside.jobs.job_service import JobReader, JobService
    from trackside.jobs.kept_files import KeptFile
    from trackside.jobs.logs import LogLine, SeenLogs
    from trackside.jobs.rule_updates import Findings
    from trackside.records.finding import Finding
    from trackside.records.rule_status import Evaluation

Logs = bool | str | Sequence[str]
"""What `wait` prints: True or "All" for everything, "Training" for statuses and log, "Rules" for
findings and statuses of rules, False or "None" for nothing. Several in a list.
"""


def attach(name: str) -> "TrainingJob":
    """An existing job, running or finished. `JobNotFound` when there is none."""
    job = TrainingJob(name, known_reader())
    job.describe()
    return job


def is_watched(described: Mapping[str, Any]) -> bool:
    """Whether a job with this description has rules."""
    members = ("DebugRuleConfigurations", "ProfilerRuleConfigurations")
    return any(described.get(member) for member in members)


def rule_statuses(described: Mapping[str, Any]) -> list[dict[str, Any]]:
    """How far its rules are."""
    return [
        *described.get("DebugRuleEvaluationStatuses", ()),
        *described.get("ProfilerRuleEvaluationStatuses", ()),
    ]


class TrainingJob:
    def __init__(self, name: str, jobs: "JobReader | Callable[[], JobReader]") -> None:
        """`name` as on the wire, or as displayed."""
        self.name = shown_name(name)
        self._wire_name = wire_name(name)
        self._known = jobs

    @cached_property
    def _reading(self) -> "JobReader":
        return self._known() if callable(self._known) else self._known

    @cached_property
    def _jobs(self) -> "JobService":
        """The whole service, for more than reading."""
        return self._reading.jobs()

    def __repr__(self) -> str:
        return f"TrainingJob({self.name!r})"

    @property
    def job_name(self) -> str:
        """The name that AWS's clients use."""
        return self._wire_name

    @property
    def status(self) -> Status:
        return Status(self.describe()["TrainingJobStatus"])

    @property
    def num_hosts(self) -> int:
        return described_locations.num_hosts_of(self.describe())

    @property
    def is_watched(self) -> bool:
        """Whether it has rules."""
        return is_watched(self.describe())

    def describe(self) -> dict[str, Any]:
        """Everything known, in the form of DescribeTrainingJob."""
        return self._reading.describe(self._wire_name)

    @property
    def curves_uri(self) -> str:
        """Where its event files are: the TensorBoard output, or a folder below its own output."""
        return described_locations.curves_uri(self.describe())

    def wait(self, logs: Logs = "All") -> None:
        """Return when the job has ended, printing its log as it runs. `JobFailed` if it failed; a
        stopped job causes a warning, as in SageMaker's SDK: see `raise_unless_completed`.

        A terminal does not show the script's thirty variables at its beginning; a file gets every
        line. If rules are printed, they are waited for too.
        """
        kinds = _kinds(logs)
        if not kinds:
            self._jobs.wait(self._wire_name)
        else:
            from trackside.sdk.print_events import PRINTED, LinePrinter, shown_on

            printed = tuple(each for kind in kinds for each in PRINTED[kind])
            printer = LinePrinter(sys.stdout, num_hosts=self.num_hosts)
            items = self.follow_all() if "Rules" in kinds else self.follow()
            for item in shown_on(sys.stdout, items):
                if isinstance(item, printed):
                    printer.show(item)
        self.raise_failure()
        if stopped := self._jobs.stop_of(self._wire_name):
            caution(f"{stopped} Call raise_unless_completed() where that must not pass.")

    def raise_failure(self) -> None:
        """`JobFailed`, with the reason and the last lines, if the job has failed."""
        failure = self._jobs.failure_of(self._wire_name)
        if failure is not None:
            raise failure

    def raise_unless_completed(self) -> None:
        """For a finished job: `JobFailed` if it failed, `JobStopped` if it was stopped by a rule,
        its time limit or a user.
        """
        self.raise_failure()
        stopped = self._jobs.stop_of(self._wire_name)
        if stopped is not None:
            raise stopped

    def follow(self) -> "Iterator[History | LogLine]":
        """Its log as it is written, and its history at each change; the final one comes last."""
        return self._jobs.follow(self._wire_name)

    def follow_all(self) -> "Iterator[History | LogLine | Findings | Evaluation]":
        """The same, with the rules' results: several findings at a time, and each rule whose status
        has changed. Ends when the job and its rules have.
        """
        return self._jobs.follow_all(self._wire_name)

    def findings(self) -> "list[Finding]":
        """What its rules have found so far."""
        return self._reading.findings(self._wire_name)

    def logs(
        self, host: str | None = None, follow: bool = False, after: "SeenLogs | None" = None
    ) -> "Iterator[LogLine]":
        """Its log so far or, following, until the job has ended and every byte was returned.

        `after` has for each host the `end` of the last line already read, as it is or decoded from
        JSON; hosts that are not in it are read from the beginning.
        """
        return self._jobs.logs(self._wire_name, host=host, follow=follow, after=after)

    def stop(self) -> None:
        """Stop it; its output is kept. A finished job stays as it is."""
        self._jobs.stop(self._wire_name)

    def artifacts(self) -> "list[Artifact]":
        return self._jobs.artifacts(self._wire_name)

    def kept_files(self) -> "list[KeptFile]":
        """Files that its script wrote to its working folder, by path."""
        return [file for artifact in self.artifacts() for file in artifact.files]

    def bring_back(self, folder: str | os.PathLike[str] = ".") -> list[Path]:
        """Download those files, each to its own path below `folder`. An existing different file
        stays; the job's is then written next to it, with the job's name in its own.
        """
        from trackside.sdk.download import bring_back  # rarely needed

        found = (
            bring_back(file, Path(folder), self.name, lambda path: False)
            for file in self.kept_files()
        )
        return [file.path for file in found]

    def rule_job_summary(self) -> list[dict[str, Any]]:
        return rule_statuses(self.describe())

    @property
    def model_data(self) -> str:
        """Where the model is. `JobNotFinished` before it exists; a failed job has none."""
        described = self.describe()
        if described["TrainingJobStatus"] not in (Status.COMPLETED, Status.STOPPED):
            raise JobNotFinished(
                f"Job {self.name!r} has no model: it is {described['SecondaryStatus']}. "
                "Call wait() first."
            )
        return str(described["ModelArtifacts"]["S3ModelArtifacts"])

    @property
    def debugger_artifacts_path(self) -> str | None:
        return described_locations.tensors_uri(self.describe())

    @property
    def tensorboard_artifacts_path(self) -> str | None:
        return described_locations.tensorboard_uri(self.describe())

    @property
    def environment_uri(self) -> str:
        """Where the lists of installed packages are, a file for each host."""
        return described_locations.environment_uri(self.describe())

    @property
    def profiler_artifacts_path(self) -> str | None:
        return described_locations.profile_uri(self.describe())


_KINDS: dict[str, tuple[str, ...]] = {
    "None": (),
    "Training": ("Training",),
    "Rules": ("Rules",),
    "All": ("Training", "Rules"),
}


def _kinds(logs: Logs) -> frozenset[str]:
    """Which of "Training" and "Rules" to print."""
    if isinstance(logs, bool):
        return frozenset(_KINDS["All" if logs else "None"])
    wanted = [logs] if isinstance(logs, str) else logs
    unknown = [each for each in wanted if each not in _KINDS]
    if unknown:
        raise ValueError(f"logs={unknown[0]!r} is not known. Known: {', '.join(_KINDS)}.")
    return frozenset(kind for each in wanted for kind in _KINDS[each])
