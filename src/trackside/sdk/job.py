"""One job, by its name: where it stands, what it says, how to stop it."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from trackside.errors import JobNotFinished
from trackside.jobs.artifacts import Artifact
from trackside.jobs.jobs import Jobs
from trackside.jobs.logs import LogLine
from trackside.journal import History
from trackside.layout import JobKeys
from trackside.sdk.local import local_jobs
from trackside.sdk.print_events import LinePrinter
from trackside.status import Status

Logs = bool | str | Sequence[str]
"""What `wait` prints: True, "All" or "Training" for everything, False or "None" for nothing."""


def attach(name: str) -> "TrainingJob":
    """A job that somebody started, running or ended. `JobNotFound` when there is none."""
    job = TrainingJob(name, local_jobs())
    job.describe()
    return job


class TrainingJob:
    def __init__(self, name: str, jobs: Jobs) -> None:
        self.name = name
        self._jobs = jobs

    def __repr__(self) -> str:
        return f"TrainingJob({self.name!r})"

    @property
    def job_name(self) -> str:
        return self.name

    @property
    def status(self) -> Status:
        return Status(self.describe()["TrainingJobStatus"])

    @property
    def num_hosts(self) -> int:
        resources = self.describe()["ResourceConfig"]
        groups = resources.get("InstanceGroups", ())
        return sum(group["InstanceCount"] for group in groups) or resources["InstanceCount"]

    def describe(self) -> dict[str, Any]:
        """Everything known, in the form of DescribeTrainingJob."""
        return self._jobs.describe(self.name)

    @property
    def curves_uri(self) -> str:
        """Where its event files are: the TensorBoard output, or a folder below its own output."""
        described = self.describe()
        keys = JobKeys(described["OutputDataConfig"]["S3OutputPath"].rstrip("/"), self.name)
        if "TensorBoardOutputConfig" in described:
            uri = described["TensorBoardOutputConfig"]["S3OutputPath"]
            return keys.under(uri, "tensorboard-output")
        return f"{described['Trackside']['output']}/trackside/curves"

    def wait(self, logs: Logs = "All") -> None:
        """Return when the job has ended, printing its log as it comes. `JobFailed` if it failed."""
        if _is_silent(logs):
            self._jobs.wait(self.name)
        else:
            printer = LinePrinter(sys.stdout, num_hosts=self.num_hosts)
            for item in self.follow():
                printer.show(item)
        self.raise_failure()

    def raise_failure(self) -> None:
        """`JobFailed`, with the reason and the last lines, if the job has failed."""
        failure = self._jobs.failure_of(self.name)
        if failure is not None:
            raise failure

    def follow(self) -> Iterator[History | LogLine]:
        """Its log as it comes, and its history at each change; the end comes last."""
        return self._jobs.follow(self.name)

    def logs(self, host: str | None = None, follow: bool = False) -> Iterator[LogLine]:
        return self._jobs.logs(self.name, host=host, follow=follow)

    def stop(self) -> None:
        """Ask it to stop; what it has made is kept. A job that has ended stays as it is."""
        self._jobs.stop(self.name)

    def artifacts(self) -> list[Artifact]:
        return self._jobs.artifacts(self.name)

    def rule_job_summary(self) -> list[dict[str, Any]]:
        described = self.describe()
        return [
            *described.get("DebugRuleEvaluationStatuses", ()),
            *described.get("ProfilerRuleEvaluationStatuses", ()),
        ]

    @property
    def model_data(self) -> str:
        """Where the model is. `JobNotFinished` before it is there; a failed job has none."""
        described = self.describe()
        if described["TrainingJobStatus"] not in (Status.COMPLETED, Status.STOPPED):
            raise JobNotFinished(
                f"Job {self.name!r} has no model: it is {described['SecondaryStatus']}. "
                "Call wait() first."
            )
        return str(described["ModelArtifacts"]["S3ModelArtifacts"])

    @property
    def debugger_artifacts_path(self) -> str | None:
        return self._below("DebugHookConfig", "debug-output")

    @property
    def tensorboard_artifacts_path(self) -> str | None:
        return self._below("TensorBoardOutputConfig", "tensorboard-output")

    @property
    def profiler_artifacts_path(self) -> str | None:
        return self._below("ProfilerConfig", "profiler-output")

    def _below(self, member: str, folder: str) -> str | None:
        described = self.describe()
        config = described.get(member)
        if config is None or config.get("DisableProfiler"):
            return None
        output = described["OutputDataConfig"]["S3OutputPath"]
        return JobKeys(output, self.name).under(config.get("S3OutputPath") or output, folder)


def _is_silent(logs: Logs) -> bool:
    if isinstance(logs, bool):
        return not logs
    wanted = [logs] if isinstance(logs, str) else logs
    return not {"All", "Training"} & set(wanted)
