"""The jobs of this machine, as the environment of this process sets them up."""

from trackside.jobs.jobs import Jobs
from trackside.settings import Settings, environment


def local_jobs() -> Jobs:
    """Supervisors inherit this process's environment: credentials are in it."""
    return Jobs(Settings.load(), environment())
