"""`JobService` for the jobs of this machine, without a server; for a server, also their queue.

Every method that reads an unfinished job also reconciles it: `reconcile.py`.
"""

from collections.abc import Mapping

from trackside.errors import InvalidSpec
from trackside.jobs.local_controller import LocalController
from trackside.jobs.local_follower import LocalFollower
from trackside.jobs.local_index import LocalIndex
from trackside.jobs.machine_resources import gpu_names
from trackside.jobs.placement_traits import in_its_image
from trackside.jobs.queue import LimitOf
from trackside.jobs.resource_request import is_counted, violations
from trackside.jobs.scheduler import Plan, Scheduler
from trackside.jobs.submit import Submission, anchored
from trackside.records.attached_process import AttachedProcess
from trackside.records.layout import JobFolder
from trackside.records.spec import JobSpec


class Jobs(LocalFollower, LocalIndex, LocalController):
    """All methods may be called from several threads and processes at once."""

    def jobs(self) -> "Jobs":
        return self

    def attach(
        self, spec: JobSpec, caller: AttachedProcess, *, files: Mapping[str, bytes] | None = None
    ) -> JobFolder:
        """Make a job of a running process; its supervisor runs when this returns.

        `spec.is_attached` must hold. Raises what `submit` does.
        """
        Submission(
            anchored(spec),
            self._home,
            self._launcher,
            files=files or {},
            claimed=self._catalog.claimed,
            caller=caller,
        ).submit()
        return self._home.job(spec.name)

    def enqueue(self, spec: JobSpec, *, key: str, who: str, owner: str | None = None) -> None:
        """Queue a job; returns when it is on disk. A `scheduler` starts it.

        `key` submitted it, it counts against the limit of `who`, and it belongs to `owner`, or to
        `who`. Raises what `submit` does, and `InvalidSpec` for a request that exceeds this machine.
        """
        self._check_placement(spec, uploads_channels=False)
        spec = in_its_image(spec)
        if is_counted(spec) and (too_much := list(violations(spec, self.capacity))):
            raise InvalidSpec(too_much)
        if spec.is_container and self._shares_files(spec):
            from trackside.jobs.container_check import with_known_image

            spec = with_known_image(spec, self._environ)
        claimed = self._catalog.claimed
        submission = Submission(anchored(spec), self._home, self._launcher, claimed=claimed)
        belongs_to = who if owner is None else owner
        submission.enqueue(self.capacity, key=key, who=who, owner=belongs_to)
        self._scheduler_signal.notify(spec.name)

    def scheduler(self, limit_of: LimitOf) -> Scheduler:
        """Starts queued jobs while the block is open, for a server."""
        gpus = gpu_names(self.capacity.gpus, self._launcher.environment)
        plan = Plan(
            self._home, self._launcher, self.capacity, gpus, limit_of, self._catalog.unfinished
        )
        return Scheduler(plan, self._scheduler_signal)
