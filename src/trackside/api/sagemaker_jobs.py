"""Training jobs: created, described, listed, stopped and deleted."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from trackside.api import images, tokens
from trackside.api.call import ServiceError
from trackside.api.json_service import OperationCall, Response
from trackside.api.locations import Locations
from trackside.api.ownership import acting_for, check_may_change, shown_to
from trackside.api.sagemaker_responses import OWN, described, summary
from trackside.api.validation import invalid, parsed, refused, wire_violations
from trackside.errors import (
    InvalidSpec,
    JobExists,
    JobNotFound,
    QuotaExceeded,
    Violation,
)
from trackside.jobs.describe import arn
from trackside.jobs.index import Order, Page
from trackside.jobs.jobs import Jobs
from trackside.jobs.queue import LimitOf, no_limit
from trackside.jobs.resource_request import asked_by, asking_by_type, is_counted
from trackside.records.members import member
from trackside.records.spec import JOB_NAME, OPTION_NAMES, JobSpec
from trackside.records.status import Status
from trackside.rules import capture_plan, remote_rules
from trackside.rules.validation import violations as rule_violations

logger = logging.getLogger(__name__)

DEFAULT_RESULTS = 10
DEFAULT_RUNTIME_SECONDS = 86400
"""Of AWS's service, for requests that name no limit."""
_EXISTS = (
    "Training job names must be unique within an AWS account and region, "
    "and a training job with this name already exists ({})"
)
_ORDERS = {"Name": Order.NAME, "CreationTime": Order.CREATED, "Status": Order.STATUS}
_STATUSES = (*Status, "Deleting")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobName:
    name: str = member("TrainingJobName", pattern=JOB_NAME, least=1, most=63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleting:
    name: str = member("TrainingJobName", pattern=JOB_NAME, least=1, most=63)
    with_own: bool = member("Trackside", bool, default=False)
    """Return what stays in storage. AWS returns nothing, and has no names for the options below."""
    data: bool = member("TracksideData", bool, default=False)
    checkpoints: bool = member("TracksideCheckpoints", bool, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Describing:
    name: str = member("TrainingJobName", pattern=JOB_NAME, least=1, most=63)
    with_own: bool = member("Trackside", bool, default=False)
    """Include what AWS has no names for: our own clients request it, others cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    max_results: int = member("MaxResults", int, default=DEFAULT_RESULTS, least=1, most=100)
    token: str | None = member("NextToken", default=None, most=8192)
    name_contains: str | None = member(
        "NameContains", default=None, pattern=r"[a-zA-Z0-9\-]+", most=63
    )
    status: str | None = member("StatusEquals", default=None, choices=_STATUSES)
    created_after: float | None = member("CreationTimeAfter", float, default=None)
    created_before: float | None = member("CreationTimeBefore", float, default=None)
    modified_after: float | None = member("LastModifiedTimeAfter", float, default=None)
    modified_before: float | None = member("LastModifiedTimeBefore", float, default=None)
    sort_by: str = member("SortBy", default="CreationTime", choices=tuple(_ORDERS))
    sort_order: str = member("SortOrder", default="Descending", choices=("Ascending", "Descending"))
    warm_pool: str | None = member("WarmPoolStatusEquals", default=None)
    plan: str | None = member("TrainingPlanArnEquals", default=None)
    with_own: bool = member("Trackside", bool, default=False)
    owner: str | None = member("TracksideOwner", default=None, most=256)
    """Only jobs of this owner; AWS has none."""

    @property
    def page(self) -> Page:
        return Page(
            order=_ORDERS[self.sort_by],
            descending=self.sort_order == "Descending",
            limit=self.max_results + 1,  # whether another page follows
            status=self.status,
            owner=self.owner,
            name_contains=self.name_contains,
            created_after=self.created_after,
            created_before=self.created_before,
            modified_after=self.modified_after,
            modified_before=self.modified_before,
        )


CheckQuota = Callable[[str], None]
"""`QuotaExceeded` when this owner may create no job now."""


def no_quota(owner: str) -> None:
    pass


class TrainingJobs:
    def __init__(
        self,
        jobs: Jobs,
        locations: Locations,
        check_quota: CheckQuota = no_quota,
        limit_of: LimitOf = no_limit,
    ) -> None:
        self._jobs = jobs
        self._locations = locations
        self._check_quota = check_quota
        self._limit_of = limit_of

    def create(self, call: OperationCall) -> Response:
        spec = self._spec(call)
        try:
            self._enqueue(spec, call)
        except JobExists as error:
            text = _EXISTS.format(arn(spec.name, call.region))
            raise ServiceError("ResourceInUse", text) from error
        return {"TrainingJobArn": arn(spec.name, call.region)}

    def describe(self, call: OperationCall) -> Response:
        request = parsed(Describing, call.params)
        job = self._jobs.describe(request.name, region=call.region)
        description = described(job, with_own=request.with_own)
        return shown_to(call.caller, request.name, description, self._jobs)

    def list(self, call: OperationCall) -> Response:
        listing = parsed(Listing, call.params)
        if listing.warm_pool or listing.plan:
            return {"TrainingJobSummaries": []}
        page = listing.page
        if listing.token:
            form = tokens.key_form(page.order)
            page = replace(page, after=tuple(tokens.position_in(listing.token, call.params, form)))
        rows = self._jobs.page(page)
        shown = rows[: listing.max_results]
        response: dict[str, Any] = {
            "TrainingJobSummaries": [
                summary(row, call.region, with_own=listing.with_own) for row in shown
            ]
        }
        if listing.with_own:
            own = {"owner": acting_for(call.caller, self._jobs)}
            disk = self._jobs.disk_trouble
            response[OWN] = {"output": self._jobs.settings.output, "disk": disk, **own}
            response[OWN]["options"] = [*OPTION_NAMES]
        if len(rows) > len(shown):
            response["NextToken"] = tokens.token(call.params, page.order.key(shown[-1]))
        return response

    def stop(self, call: OperationCall) -> Response:
        name = parsed(JobName, call.params).name
        check_may_change(call, name, self._jobs)
        before = self._jobs.record(name).history.state
        if not before.is_final:
            # It may end in between; then there is nothing to stop.
            self._jobs.stop(name)
            return None
        raise invalid(
            f"The request was rejected because the training job is in status {before.status}."
        )

    def delete(self, call: OperationCall) -> Response:
        request = parsed(Deleting, call.params)
        check_may_change(call, request.name, self._jobs)
        kept = self._jobs.delete(request.name, data=request.data, checkpoints=request.checkpoints)
        return {OWN: [asdict(each) for each in kept]} if request.with_own else None

    def _spec(self, call: OperationCall) -> JobSpec:
        """With every violation at once, those of its rules too."""
        violations: list[Violation] = []
        spec = None
        try:
            spec = JobSpec.from_request(_with_time_limit(call.params))
        except InvalidSpec as error:
            violations += error.violations
        if spec is not None:
            violations += [*wire_violations(spec), *rule_violations(spec)]
            violations += self._locations.violations(spec, call.caller)
            violations += images.image_violations(spec, call.caller, self._jobs.settings)
            violations += remote_rules.violations(spec, self._jobs.settings)
            violations += self._placement_violations(call.params)
        if spec is None or violations:
            raise refused(violations)
        placed = images.placed(spec, self._jobs.settings)
        options = replace(placed.options, placement=self._jobs.settings.placement)
        return replace(placed, options=options)

    def _placement_violations(self, given: Mapping[str, Any]) -> Iterator[Violation]:
        """Which machines its jobs run on is the server's decision."""
        named = given.get(OWN, {}).get("Placement")
        if named not in (None, offered := self._jobs.settings.placement):
            why = f"is not where this server runs jobs; it runs them on {offered!r}: leave --on out"
            yield Violation("Trackside.Placement", named, why)

    def _enqueue(self, spec: JobSpec, call: OperationCall) -> None:
        for sentence in capture_plan.unsaved(spec):
            logger.warning("job %s: %s", spec.name, sentence)
        owner = acting_for(call.caller, self._jobs)
        limit = self._limit_of(owner)
        limit.check(owner, asked_by(spec))
        if self._jobs.settings.enforce == "types" and is_counted(spec):
            spec = asking_by_type(spec, limit.of(self._jobs.capacity))
        self._check_capacity(owner, spec.name)
        self._jobs.enqueue(spec, key=call.caller.id, who=call.caller.label, owner=owner)
        self._jobs.refresh(spec.name)

    def _check_capacity(self, owner: str, name: str) -> None:
        """A client that retries, as it got no response, gets the error that its job exists."""
        try:
            self._check_quota(owner)
        except QuotaExceeded:
            with suppress(JobNotFound):
                self._jobs.submitter(name)
                raise JobExists(name) from None
            raise


def _with_time_limit(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """As AWS fills it in. Our own client, known by its options, names none if it wants none."""
    stopping = given.get("StoppingCondition") or {}
    is_wrong = not isinstance(stopping, Mapping)  # which its validation reports
    if OWN in given or is_wrong or stopping.get("MaxRuntimeInSeconds") is not None:
        return given
    limit = {"MaxRuntimeInSeconds": DEFAULT_RUNTIME_SECONDS}
    return {**given, "StoppingCondition": {**stopping, **limit}}
