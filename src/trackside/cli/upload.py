"""`trackside upload`: retries to store what a job could not upload."""

import click

from trackside.cli.job_names import job_argument
from trackside.errors import JobError
from trackside.jobs.jobs import Jobs
from trackside.sdk.known_jobs import jobs_of_this_machine
from trackside.supervisor.publish import upload_kept
from trackside.texts.shown_names import shown_name


def _jobs() -> Jobs:
    return jobs_of_this_machine("Uploading what a job has kept")


@click.command(short_help="Upload what a job could not store when it finished.")
@job_argument(among=_jobs)
def upload(job: str) -> None:
    """Upload what is only on this machine, because the store was unreachable when a job finished.

    \b
    Example:
      trackside upload train-2026-11-15-22-50-46-123
    """
    known = _jobs()
    if known.describe(job)["Trackside"]["folder"] is None:
        raise JobError(
            f"Job {shown_name(job)!r} has no folder on this machine: it keeps nothing here."
        )
    artifacts = upload_kept(known.settings.layout.job(job), known.settings)
    for artifact in artifacts:
        print(artifact.uri)
    if not artifacts:
        print(
            "What this machine has is in storage. If another machine has the job's first host, "
            f"`trackside upload {shown_name(job)}` there merges it."
        )
