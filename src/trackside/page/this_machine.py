"""`Access` of `trackside ui`: the user who started it may do everything, nobody else anything."""

from collections.abc import Mapping
from typing import Any

from trackside.jobs.job_service import JobService
from trackside.page.access import Person
from trackside.records.rights import Rights
from trackside.records.spec import JobSpec


class ThisMachine:
    is_server = False

    def __init__(self, jobs: JobService) -> None:
        self._jobs = jobs

    def here(self) -> Person:
        return Person(self._jobs.owner, Rights.ADMIN)

    def secret_of(self, key_id: str) -> str | None:
        return None

    def of_key(self, key_id: str) -> Person | None:
        return None

    def why_not(self, person: Person, job: str) -> str:
        return ""

    def owns(self, person: Person, owner: str) -> bool:
        return True

    def may_see_secrets(self, person: Person, job: str) -> bool:
        return True

    def submit(self, person: Person, request: Mapping[str, Any]) -> None:
        self._jobs.submit(JobSpec.from_request(request))
