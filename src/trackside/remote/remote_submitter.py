"""Starts jobs at a server: `JobSubmitter` over HTTP."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from trackside.errors import JobExists, ServerError, ServerUnreachable, TracksideError
from trackside.jobs.describe import ROLE_ARN
from trackside.records.spec import JobSpec, Options
from trackside.remote.remote_reader import RemoteReader
from trackside.remote.retry_policy import SHORT_RETRY
from trackside.remote.upload_inputs import JobUploads


class RemoteSubmitter(RemoteReader):
    """All methods may be called from several threads at once."""

    def submit(
        self,
        spec: JobSpec,
        *,
        source: Iterable[bytes] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        if self.exists(spec.name):
            raise JobExists(spec.name)
        spec = self._without_unknown(spec)
        uploads = JobUploads(spec, self._client, self._home.root, source, files or {})
        uploads.check()
        try:
            self._create(replace(uploads.upload(), role=_role(spec.role)))
        except (JobExists, ServerUnreachable):
            raise  # what was uploaded may belong to another job by now, or be needed
        except TracksideError:
            uploads.take_back()
            raise

    def _without_unknown(self, spec: JobSpec) -> JobSpec:
        """An older server rejects options that it does not know; no job needs these to run."""
        options = spec.options
        if options.git is None and options.launch is None:
            return spec
        known = self._server_facts(SHORT_RETRY).get("options", ())
        git = options.git if "Git" in known else None
        launch = options.launch if "Launch" in known else None
        return replace(spec, options=replace(options, git=git, launch=launch))

    def _create(self, spec: JobSpec) -> None:
        try:
            self._call("CreateTrainingJob", spec.to_request(), job=spec.name)
        except ServerUnreachable as away:
            raise ServerUnreachable(
                f"{away} It may have started the job: check by `trackside show {spec.name}`."
            ) from away
        except ServerError as refused:
            if refused.service_code != "ResourceInUse":
                raise
            # The first try may have created it, and only its response was lost.
            if not (refused.is_repeated and _is_same(self._record(spec.name).spec, spec)):
                raise JobExists(spec.name) from None


def _role(given: str | None) -> str:
    """The API requires a full ARN; the server ignores its value."""
    if given is None:
        return ROLE_ARN
    return given if given.startswith("arn:") else f"{ROLE_ARN.rpartition('/')[0]}/{given}"


def _is_same(there: JobSpec, ours: JobSpec) -> bool:
    """Whether it is the same request, except for what a server fills in."""
    return _compared(there) == _compared(ours)


def _compared(spec: JobSpec) -> JobSpec:
    return replace(
        spec,
        options=Options(),
        tags=(),  # not part of a description
        debug_rules=tuple(replace(rule, volume_gb=None) for rule in spec.debug_rules),
        profiler_rules=tuple(replace(rule, volume_gb=None) for rule in spec.profiler_rules),
    )
