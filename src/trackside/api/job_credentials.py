"""Access keys of running jobs: what a role is to a job on SageMaker.

They are not stored. A secret is derived from the machine's key and a nonce of the job, is passed to
the job's processes in their environment, and is valid until the job has ended.
"""

import re

from trackside.api.keys import AccessKey, AccessKeys, Rights, UnknownKey
from trackside.records.journal import Journal
from trackside.records.layout import FIRST_HOST, Home, JobFolder
from trackside.records.placed import Placed
from trackside.records.spec import JOB_NAME

_PREFIX = "TSJOB-"


class JobCredentials:
    """The keys that people made, and those of jobs."""

    def __init__(self, keys: AccessKeys, home: Home) -> None:
        self._keys = keys
        self._home = home

    def environment(self, job: str, url: str) -> dict[str, str]:
        """For the job's script, so that AWS clients in it act as this job on the server."""
        key_id = _PREFIX + job
        secret = self.secret_of(key_id)
        if secret is None:
            return {}
        return {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": key_id,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_SESSION_TOKEN": "",
        }

    def get(self, key_id: str) -> AccessKey:
        """`UnknownKey` when there is none, or the job has ended."""
        if not key_id.startswith(_PREFIX):
            return self._keys.get(key_id)
        job = key_id.removeprefix(_PREFIX)
        if self._nonce(job) is None:
            raise UnknownKey(f"No access key is {key_id!r}: no job of this name runs.")
        return AccessKey(id=key_id, rights=Rights.SUBMIT, label=f"job {job}", created=0)

    def secret_of(self, key_id: str) -> str | None:
        if not key_id.startswith(_PREFIX):
            return self._keys.secret_of(key_id)
        job = key_id.removeprefix(_PREFIX)
        nonce = self._nonce(job)
        return None if nonce is None else self._keys.derived(f"job {job} {nonce}")

    def _nonce(self, job: str) -> str | None:
        """Another for each job, also of the same name; None when it does not run here."""
        if not re.fullmatch(JOB_NAME, job):
            return None
        folder: JobFolder = self._home.job(job)
        placed = Placed.read(folder)
        lead = placed.hosts.get(FIRST_HOST) if placed is not None else None
        if lead is None or Journal(folder.journal).read().state.is_final:
            return None
        return lead.nonce


def job_of(key: AccessKey) -> str | None:
    """The job that has this key; None for a key of a person."""
    return key.id.removeprefix(_PREFIX) if key.id.startswith(_PREFIX) else None
