"""Starts jobs on this machine: `JobSubmitter` without a server.

Separate from `Jobs`, so that starting a job imports as little as possible.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence

from trackside.errors import InvalidSpec, Violation
from trackside.jobs.local_reader import LocalReader
from trackside.jobs.placement_traits import in_its_image
from trackside.jobs.start_supervisor import JobEnvironment, Launcher
from trackside.jobs.submit import Submission, anchored
from trackside.placement.choose import UnknownPlacement, placement_class
from trackside.records.spec import DOCKER, PROCESS, JobSpec
from trackside.settings import Settings
from trackside.system.processes import NONCE_VARIABLE
from trackside.system.run_as import RunAs

# Without -P a file in the working folder could replace a module of the supervisor.
SUPERVISOR_COMMAND = (sys.executable, "-P", "-m", "trackside.supervisor")


class LocalSubmitter(LocalReader):
    """All methods may be called from several threads and processes at once."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        *,
        supervisor_command: Sequence[str] = SUPERVISOR_COMMAND,
        job_environment: JobEnvironment | None = None,
        buckets_url: str = "",
    ) -> None:
        """Supervisors get `environ`, including credentials, and for their script the variables of
        `job_environment`; neither is ever written to disk. `buckets_url` is where other machines
        reach the embedded buckets, with those variables.
        """
        super().__init__(settings, environ)
        self._buckets_url = buckets_url
        # A job that submits another must not mark the other's supervisors as its own processes.
        inherited = {key: value for key, value in environ.items() if key != NONCE_VARIABLE}
        environment = {**inherited, **settings.variables}
        environment.pop("TRACKSIDE_DATABASE")  # supervisors never use it
        self._launcher = Launcher(
            supervisor_command,
            environment,
            job_environment,
            RunAs.parse(settings.run_as),
        )

    def submit(
        self,
        spec: JobSpec,
        *,
        source: Iterable[bytes] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        self._check_placement(spec)
        spec = in_its_image(spec)
        if spec.is_container and self._shares_files(spec):
            from trackside.jobs.container_check import with_image

            spec = with_image(spec, self._environ)
        Submission(
            anchored(spec),
            self._home,
            self._launcher,
            source,
            files or {},
            self._catalog.claimed,
            uploads_channels=not self._shares_files(spec),
        ).submit()

    def _shares_files(self, spec: JobSpec) -> bool:
        return placement_class(spec.options.placement).shares_files

    def _check_locations(self, spec: JobSpec, *, uploads_channels: bool) -> None:
        """Of a job whose hosts are other machines."""
        from trackside.jobs.reachable_locations import unreachable

        wrong = unreachable(
            anchored(spec),
            self._home.root,
            buckets_url=self._buckets_url,
            has_loopback=placement_class(spec.options.placement).is_this_machine,
            uploads_channels=uploads_channels,
        )
        if found := [*wrong]:
            raise InvalidSpec(found)

    def _check_placement(self, spec: JobSpec, *, uploads_channels: bool = True) -> None:
        name = spec.options.placement
        try:
            shares_files = placement_class(name).shares_files
        except UnknownPlacement as error:
            raise InvalidSpec([Violation("Trackside.Placement", name, str(error))]) from None
        given = spec.options.placement_options
        wrong = placement_class(name).wrong_options(given)
        if found := [
            Violation(f"Trackside.PlacementOptions.{option}", given[option], why)
            for option, why in wrong
        ]:
            raise InvalidSpec(found)
        if not shares_files:
            self._check_locations(spec, uploads_channels=uploads_channels)
        if not shares_files and spec.is_container:
            from trackside.jobs.container_check import check_elsewhere

            check_elsewhere(spec)
        if not shares_files and spec.options.in_place is not None:
            advice = f"is a folder of this machine, and {name} runs jobs on others; leave it out"
            raise InvalidSpec([Violation("Trackside.InPlace", spec.options.in_place, advice)])
        if spec.is_attached:
            advice = "is only for the process that calls trackside.init; leave it out"
            raise InvalidSpec([Violation("Trackside.Sandbox", spec.options.sandbox, advice)])
        if spec.options.sandbox not in (PROCESS, DOCKER):
            advice = f"is not known; known: {PROCESS}, {DOCKER}"
            raise InvalidSpec([Violation("Trackside.Sandbox", spec.options.sandbox, advice)])
