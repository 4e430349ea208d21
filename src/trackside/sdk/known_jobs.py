"""The jobs that this process knows: those of a server if one is configured, else this machine's."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from trackside.errors import OnlyAtServer
from trackside.profiles import chosen_server
from trackside.settings import Settings, environment

if TYPE_CHECKING:
    from trackside.jobs.jobs import Jobs
    from trackside.jobs.reading import Reading
    from trackside.jobs.submitting import Submitting
    from trackside.remote.remote_jobs import RemoteJobs

AnyJobs: TypeAlias = "Jobs | RemoteJobs"
"""Either is loaded only when it is the one."""
AnyReading: TypeAlias = "Reading | RemoteJobs"
"""`AnyJobs` for who only looks: of this machine's less is loaded."""


def known_jobs() -> AnyJobs:
    """Supervisors of this machine inherit this process's environment: credentials are in it.

    Connects to nothing yet. `KeyRefused` for a server without a key.
    """
    settings = Settings.load()
    server = chosen_server(environment(), settings.home)
    if server is None:
        return _of_this_machine(settings)
    from trackside.remote.remote_jobs import RemoteJobs

    return RemoteJobs(server, settings)


def known_reading() -> AnyReading:
    """The same for who only looks."""
    settings = Settings.load()
    if chosen_server(environment(), settings.home) is not None:
        return known_jobs()
    from trackside.jobs.reading import Reading

    return Reading(settings.embedded, environment())


def known_submitting() -> "tuple[Submitting | RemoteJobs, Callable[[], AnyJobs]]":
    """The same for who starts a job: what does that, and what finds all else once it is started."""
    settings = Settings.load()
    if chosen_server(environment(), settings.home) is not None:
        jobs = known_jobs()
        return jobs, lambda: jobs
    from trackside.jobs.submitting import Submitting

    submitting = Submitting(settings.embedded, environment())
    return submitting, submitting.jobs


def jobs_of_this_machine(what: str) -> "Jobs":
    """For what only works beside their folders. `OnlyAtServer` when they are somewhere else."""
    settings = Settings.load()
    server = chosen_server(environment(), settings.home)
    if server is not None:
        raise OnlyAtServer(what, server.url)
    return _of_this_machine(settings)


def _of_this_machine(settings: Settings) -> "Jobs":
    from trackside.jobs.jobs import Jobs

    return Jobs(settings.embedded, environment())
