"""Tags of training jobs. What else has an ARN here has none, and takes none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trackside.api.json_service import Answer, Ask
from trackside.api.ownership import check_may_change
from trackside.api.validation import invalid, not_found, parsed
from trackside.jobs.jobs import Jobs
from trackside.records.members import member
from trackside.records.spec import Tag

MOST_TAGS = 50
_ARN = r"arn:aws[a-z\-]*:sagemaker:[a-z0-9\-]*:[0-9]{12}:.+"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adding:
    arn: str = member("ResourceArn", pattern=_ARN, most=256)
    tags: tuple[Tag, ...] = member("Tags", tuple, of=Tag, most=MOST_TAGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    arn: str = member("ResourceArn", pattern=_ARN, most=256)
    token: str | None = member("NextToken", default=None, most=8192)
    max_results: int = member("MaxResults", int, default=MOST_TAGS, least=50)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleting:
    arn: str = member("ResourceArn", pattern=_ARN, most=256)
    keys: tuple[str, ...] = member("TagKeys", tuple, least=1, most=MOST_TAGS)


class Tags:
    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def add(self, ask: Ask) -> Answer:
        adding = parsed(Adding, ask.given)
        name = self._job(adding.arn)
        check_may_change(ask, name, self._jobs)
        put = {tag.key: tag.value for tag in adding.tags}
        if len(self._jobs.tags(name) | put) > MOST_TAGS:
            raise invalid(f"A resource has at most {MOST_TAGS} tags.")
        return {"Tags": _listed(self._jobs.change_tags(name, put=put))}

    def list(self, ask: Ask) -> Answer:
        """All on one page: there are never more than fit."""
        listing = parsed(Listing, ask.given)
        if ":processing-job/" in listing.arn:
            return {"Tags": []}
        return {"Tags": _listed(self._jobs.tags(self._job(listing.arn)))}

    def delete(self, ask: Ask) -> Answer:
        deleting = parsed(Deleting, ask.given)
        name = self._job(deleting.arn)
        check_may_change(ask, name, self._jobs)
        held = self._jobs.tags(name)
        if gone := [key for key in deleting.keys if key in held]:
            self._jobs.change_tags(name, remove=gone)
        return {}

    def _job(self, arn: str) -> str:
        """ARNs have names in lower case."""
        kind, _, lower = arn.split(":", 5)[5].partition("/")
        name = self._jobs.name_in_any_case(lower) if kind == "training-job" else None
        if name is None:
            raise not_found()
        return name


def _listed(tags: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
