"""The last good jobs of a script: completed, captured, and without a finding."""

from typing import TYPE_CHECKING

from trackside.records.status import Status
from trackside.views.problems.job_findings import script_of

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

MOST_LOOKED_AT = 200
"""Jobs, from the newest on."""


def good_jobs(jobs: "JobReader", name: str, most: int) -> list[str]:
    """Of the script of job `name`, the newest first; not that job itself."""
    script = script_of(jobs.describe(name))
    found: list[str] = []
    for row in jobs.list(status=Status.COMPLETED, limit=MOST_LOOKED_AT):
        if len(found) == most:
            break
        if row.name != name and _is_good(jobs, row.name, script):
            found.append(row.name)
    return found


def _is_good(jobs: "JobReader", name: str, script: str) -> bool:
    if script_of(jobs.describe(name)) != script or jobs.findings(name):
        return False
    return jobs.record(name).spec.debug_hook is not None
