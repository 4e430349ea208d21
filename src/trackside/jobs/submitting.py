"""Starting a job on this machine, and no more: what else `Jobs` can do is loaded when it is needed,
so that no job has to wait for it."""

import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from trackside.errors import InvalidSpec, Violation
from trackside.jobs.start_supervisor import JobEnvironment, Launcher
from trackside.jobs.submit import Submission, anchored
from trackside.jobs.team_database import open_catalog
from trackside.placement.local import LocalPlacement
from trackside.records.spec import JobSpec
from trackside.settings import Settings
from trackside.system.processes import NONCE_VARIABLE
from trackside.system.run_as import RunAs

if TYPE_CHECKING:
    from trackside.jobs.jobs import Jobs

logger = logging.getLogger(__name__)

# Without -P a file in the working folder could stand in for a module of the supervisor's.
SUPERVISOR_COMMAND = (sys.executable, "-P", "-m", "trackside.supervisor")


class Submitting:
    """All methods may be called from several threads and processes at once."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        *,
        supervisor_command: Sequence[str] = SUPERVISOR_COMMAND,
        job_environment: JobEnvironment | None = None,
    ) -> None:
        """Supervisors get `environ`, for the credentials in it, and for their script what
        `job_environment` says; neither is ever written to disk."""
        self.settings = settings
        self._environ = environ
        self._home = settings.layout
        if mode := self._home.close_to_others():
            logger.warning(
                "%s was open to other users (mode %04o) and is so no more", self._home.root, mode
            )
        self._catalog = open_catalog(settings)
        # A job that submits a job must not mark the other's supervisors as its own processes.
        inherited = {key: value for key, value in environ.items() if key != NONCE_VARIABLE}
        environment = {**inherited, **settings.variables}
        environment.pop("TRACKSIDE_DATABASE")  # supervisors have no business there
        self._launcher = Launcher(
            LocalPlacement(),
            supervisor_command,
            environment,
            job_environment,
            RunAs.parse(settings.run_as),
        )

    def jobs(self) -> "Jobs":
        """What can be done with jobs once they are submitted, with the same settings."""
        from trackside.jobs.jobs import Jobs

        return Jobs(self.settings, self._environ)

    def submit(
        self,
        spec: JobSpec,
        *,
        source: Iterable[bytes] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """Start a job; returns when it is on disk and its supervisors run.

        `source` is stored where `spec.source` says, once the name is this job's alone; so are
        `files`, each where its key says.

        `JobExists`, `InputError`, `DiskFull` or a `StorageError` when it cannot be accepted; then
        nothing is left of it.
        """
        self._check_placement(spec)
        Submission(
            anchored(spec),
            self._home,
            self._launcher,
            source,
            files or {},
            self._catalog.claimed,
        ).submit()

    def _check_placement(self, spec: JobSpec) -> None:
        if spec.options.placement != LocalPlacement.name:
            advice = f"is not known; known: {LocalPlacement.name}"
            raise InvalidSpec([Violation("Trackside.Placement", spec.options.placement, advice)])
        if spec.is_attached:
            advice = "is for the process that calls trackside.init alone; leave it out"
            raise InvalidSpec([Violation("Trackside.Sandbox", spec.options.sandbox, advice)])
