"""Returns the jobs service of this process: a server's if one is configured, else this machine's.

Each function returns a part of `JobService`, and imports only what that part needs.
"""

from typing import TYPE_CHECKING

from trackside.errors import OnlyAtServer
from trackside.profiles import chosen_server
from trackside.settings import Settings, environment

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader, JobService, JobSubmitter
    from trackside.jobs.jobs import Jobs


def known_jobs() -> "JobService":
    """Supervisors of this machine inherit this process's environment, with its credentials.

    Does not connect yet. `KeyRefused` for a server without a key.
    """
    settings = Settings.load()
    server = chosen_server(environment(), settings.home)
    if server is None:
        return _of_this_machine(settings)
    from trackside.remote.remote_jobs import RemoteJobs

    return RemoteJobs(server, settings)


def known_reader() -> "JobReader":
    """The same, for a caller that only reads."""
    settings = Settings.load()
    if chosen_server(environment(), settings.home) is not None:
        return known_jobs()
    from trackside.jobs.local_reader import LocalReader

    return LocalReader(settings.embedded, environment())


def known_submitter() -> "JobSubmitter":
    """The same, for a caller that starts a job."""
    settings = Settings.load()
    if chosen_server(environment(), settings.home) is not None:
        return known_jobs()
    from trackside.jobs.local_submitter import LocalSubmitter

    return LocalSubmitter(settings.embedded, environment())


def jobs_of_this_machine(action: str) -> "Jobs":
    """For features that need the job folders. `OnlyAtServer` if a server is configured."""
    settings = Settings.load()
    server = chosen_server(environment(), settings.home)
    if server is not None:
        raise OnlyAtServer(action, server.url)
    return _of_this_machine(settings)


def _of_this_machine(settings: Settings) -> "Jobs":
    from trackside.jobs.jobs import Jobs

    return Jobs(settings.embedded, environment())
