"""Who may do what on a server's page: by its access keys, under the rules of `ownership`."""

from collections.abc import Callable, Mapping
from typing import Any

from trackside.api.call import ServiceError
from trackside.api.json_service import OperationCall
from trackside.api.keys import AccessKey, AccessKeys, UnknownKey
from trackside.api.ownership import acting_for, may_see_secrets, why_not_change
from trackside.errors import JobExists
from trackside.jobs.describe import REGION, ROLE_ARN
from trackside.jobs.jobs import Jobs
from trackside.page.access import Person
from trackside.page.problems import BadRequest
from trackside.records.owners import is_reserved

_CREATE = "sagemaker:CreateTrainingJob"


class PageAccess:
    is_server = True

    def __init__(
        self, keys: AccessKeys, jobs: Jobs, create: Callable[[OperationCall], object]
    ) -> None:
        """`create` is the operation by which clients create jobs."""
        self._keys = keys
        self._jobs = jobs
        self._create = create

    def here(self) -> Person:
        return self._person(self._keys.own_key())

    def secret_of(self, key_id: str) -> str | None:
        return self._keys.secret_of(key_id)

    def of_key(self, key_id: str) -> Person | None:
        try:
            return self._person(self._keys.get(key_id))
        except UnknownKey:
            return None

    def why_not(self, person: Person, job: str) -> str:
        return why_not_change(self._keys.get(person.key_id), job, self._jobs)

    def owns(self, person: Person, owner: str) -> bool:
        return person.name == owner and not is_reserved(owner)

    def may_see_secrets(self, person: Person, job: str) -> bool:
        return may_see_secrets(self._keys.get(person.key_id), job, self._jobs)

    def submit(self, person: Person, request: Mapping[str, Any]) -> None:
        caller = self._keys.get(person.key_id)
        whole = {"RoleArn": ROLE_ARN, **request}
        try:
            self._create(OperationCall(whole, REGION, caller, _CREATE))
        except ServiceError as error:
            if error.code == "ResourceInUse":
                raise JobExists(whole["TrainingJobName"]) from error
            raise BadRequest(error.message) from error

    def _person(self, key: AccessKey) -> Person:
        return Person(acting_for(key, self._jobs), key.rights, key.id)
