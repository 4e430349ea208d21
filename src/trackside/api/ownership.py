"""Who may change what: its owner, and every key with `admin`.

`owners` defines the owner of a job; `keys` has the rights, which are checked before. Everything can
be read by every key, except the secrets in a job's request: those are for its owner.
"""

from collections.abc import Mapping
from typing import Any

from trackside.api.call import ServiceError
from trackside.api.job_credentials import job_of
from trackside.api.json_service import OperationCall, denied
from trackside.api.keys import AccessKey, Rights
from trackside.jobs.jobs import Jobs
from trackside.jobs.masked_request import masked
from trackside.records.owners import is_reserved


def acting_for(caller: AccessKey, jobs: Jobs) -> str:
    """The owner of what this caller creates: a job's key acts for the owner of its job."""
    job = job_of(caller)
    return caller.label if job is None else jobs.submitter(job).owner


def is_owner(caller: AccessKey, owner: str, jobs: Jobs) -> bool:
    """A name that no key may have owns nothing, should an older version have made such a key."""
    if job_of(caller) is None and is_reserved(caller.label):
        return False
    return acting_for(caller, jobs) == owner


def check_may_change(call: OperationCall, job: str, jobs: Jobs) -> None:
    """Of a job; `JobNotFound` when there is none."""
    if why := why_not_change(call.caller, job, jobs):
        raise denied(call.action, call.caller, why)


def why_not_change(caller: AccessKey, job: str, jobs: Jobs) -> str:
    """Why this caller may not change a job; empty when they may, `JobNotFound` without it. A job's
    key changes that job, and those that it submitted."""
    own = job_of(caller)
    if caller.rights.allow(Rights.ADMIN) or own == job:
        return ""
    submitter = jobs.submitter(job)
    if own is not None and submitter.key != caller.id:
        return f"The key of a job changes that job and those it submitted, and {job!r} is neither."
    if not is_owner(caller, submitter.owner, jobs):
        return _belongs_to(f"job {job!r}", submitter.owner)
    return ""


def shown_to(
    caller: AccessKey, job: str, description: Mapping[str, Any], jobs: Jobs
) -> dict[str, Any]:
    """A job's description; values that look secret are masked unless the caller owns the job.
    As with changes, a job's key is for that job and for those that it submitted."""
    hidden = masked(description)
    return (
        dict(description) if hidden == description or may_see_secrets(caller, job, jobs) else hidden
    )


def may_see_secrets(caller: AccessKey, job: str, jobs: Jobs) -> bool:
    own = job_of(caller)
    if caller.rights.allow(Rights.ADMIN) or own == job:
        return True
    submitter = jobs.submitter(job)
    if own is not None and submitter.key != caller.id:
        return False
    return is_owner(caller, submitter.owner, jobs)


def not_yours(call: OperationCall, what: str, owner: str) -> ServiceError:
    return denied(call.action, call.caller, _belongs_to(what, owner))


def _belongs_to(what: str, owner: str) -> str:
    admin = f"one that may {Rights.ADMIN}"
    if not owner:
        return f"The {what} has no owner, as it is from before there were any; a key can, {admin}."
    if is_reserved(owner):
        return f"The {what} belongs to {owner!r}, which is no key's name; a key can, {admin}."
    return f"The {what} belongs to {owner!r}; a key of that name can, or {admin}."
