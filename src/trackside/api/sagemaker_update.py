"""Changes to an existing job: UpdateTrainingJob (its profiler, more rules, and settings that are
only stored), its tags and its note."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from trackside.api.json_service import OperationCall, Response
from trackside.api.locations import Locations
from trackside.api.ownership import check_may_change
from trackside.api.validation import invalid, not_found, parsed, refused, wire_violations
from trackside.errors import Violation
from trackside.jobs.describe import arn
from trackside.jobs.jobs import Jobs
from trackside.jobs.update_job import MOST_NOTE_CHARACTERS, MOST_TAGS
from trackside.records.job_updates import Update, merged_profiler
from trackside.records.members import member
from trackside.records.spec import JOB_NAME, JobSpec, Profiler, RuleConfiguration, Tag
from trackside.records.status import Status
from trackside.rules import remote_rules
from trackside.rules.validation import violations as rule_violations
from trackside.settings import Settings

MOST_RULES = 20
_ARN = r"arn:aws[a-z\-]*:sagemaker:[a-z0-9\-]*:[0-9]{12}:.+"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRequest:
    name: str = member("TrainingJobName", pattern=JOB_NAME, least=1, most=63)
    profiler: Profiler | None = member("ProfilerConfig", Profiler, default=None)
    profiler_rules: tuple[RuleConfiguration, ...] = member(
        "ProfilerRuleConfigurations", tuple, of=RuleConfiguration, default=(), most=MOST_RULES
    )
    keep_alive_seconds: int | None = member(
        "ResourceConfig.KeepAlivePeriodInSeconds", int, default=None, least=0, most=21600
    )
    remote_debug: bool | None = member("RemoteDebugConfig.EnableRemoteDebug", bool, default=None)


class JobUpdate:
    def __init__(self, jobs: Jobs, locations: Locations) -> None:
        self._jobs = jobs
        self._locations = locations

    def update(self, call: OperationCall) -> Response:
        request = parsed(UpdateRequest, call.params)
        check_may_change(call, request.name, self._jobs)
        record = self._jobs.record(request.name)
        update = Update(
            profiler=call.params.get("ProfilerConfig") or {},
            rules=request.profiler_rules,
            keep_alive_seconds=request.keep_alive_seconds,
            remote_debug=request.remote_debug,
        )
        if update.profiler or update.rules:
            status = record.history.state.status
            if status is not Status.IN_PROGRESS:
                raise invalid(
                    f"The request was rejected because the training job is in status {status}."
                )
            after = _updated(record.spec, update)
            violations = [*_problems(record.spec, after, update, self._jobs.settings)]
            named = self._locations.violations(after, call.caller)
            violations += [each for each in named if each.field.startswith("Profiler")]
            if violations:
                raise refused(violations)
        if update != Update():
            self._jobs.update(request.name, update)
        return {"TrainingJobArn": arn(request.name, call.region)}


def _updated(spec: JobSpec, update: Update) -> JobSpec:
    """With the new rules alone."""
    after = replace(spec, profiler_rules=tuple(update.rules))
    if update.profiler:
        after = replace(after, profiler=merged_profiler(spec.profiler, update.profiler))
    return after


def _problems(
    spec: JobSpec, after: JobSpec, update: Update, settings: Settings
) -> Iterator[Violation]:
    """What the update would make of the job is checked as a job is that is created so."""
    yield from wire_violations(after)
    yield from rule_violations(replace(after, debug_rules=()))
    yield from remote_rules.violations(replace(after, debug_rules=()), settings)
    yield from _moved(spec, after)
    known = {rule.name for rule in spec.profiler_rules}
    for index, rule in enumerate(update.rules):
        if rule.name in known:
            where = f"ProfilerRuleConfigurations[{index}].RuleConfigurationName"
            yield Violation(where, rule.name, "must be unique among the rules of the job")
        known.add(rule.name)
    if len(known) > MOST_RULES:
        constraint = f"Member must have length less than or equal to {MOST_RULES}"
        yield Violation(
            "ProfilerRuleConfigurations", len(known), "are too many", constraint=constraint
        )


def _moved(spec: JobSpec, after: JobSpec) -> Iterator[Violation]:
    """A profile must not be split over two locations."""
    before, now = spec.profiler or Profiler(), after.profiler or Profiler()
    if before.uri and now.uri and before.uri.rstrip("/") != now.uri.rstrip("/"):
        advice = f"must stay {before.uri!r} while the job runs"
        yield Violation("ProfilerConfig.S3OutputPath", now.uri, advice)
    if before.local_path.rstrip("/") != now.local_path.rstrip("/"):
        advice = f"must stay {before.local_path!r} while the job runs"
        yield Violation("ProfilerConfig.ProfilingParameters.LocalPath", now.local_path, advice)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddTagsRequest:
    arn: str = member("ResourceArn", pattern=_ARN, most=256)
    tags: tuple[Tag, ...] = member("Tags", tuple, of=Tag, most=MOST_TAGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTagsRequest:
    arn: str = member("ResourceArn", pattern=_ARN, most=256)
    token: str | None = member("NextToken", default=None, most=8192)
    max_results: int = member("MaxResults", int, default=MOST_TAGS, least=50)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTagsRequest:
    arn: str = member("ResourceArn", pattern=_ARN, most=256)
    keys: tuple[str, ...] = member("TagKeys", tuple, least=1, most=MOST_TAGS)


class Tags:
    """Of training jobs; other resources with an ARN have no tags and accept none."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def add(self, call: OperationCall) -> Response:
        adding = parsed(AddTagsRequest, call.params)
        name = self._job(adding.arn)
        check_may_change(call, name, self._jobs)
        put = {tag.key: tag.value for tag in adding.tags}
        if len(self._jobs.tags(name) | put) > MOST_TAGS:
            raise invalid(f"A resource has at most {MOST_TAGS} tags.")
        return {"Tags": _listed(self._jobs.change_tags(name, put=put))}

    def list(self, call: OperationCall) -> Response:
        """All on one page: there are never more than fit."""
        listing = parsed(ListTagsRequest, call.params)
        if ":processing-job/" in listing.arn:
            return {"Tags": []}
        return {"Tags": _listed(self._jobs.tags(self._job(listing.arn)))}

    def delete(self, call: OperationCall) -> Response:
        deleting = parsed(DeleteTagsRequest, call.params)
        name = self._job(deleting.arn)
        check_may_change(call, name, self._jobs)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _NoteRequest:
    name: str = member("TrainingJobName", pattern=JOB_NAME, least=1, most=63)
    text: str = member("Text", most=MOST_NOTE_CHARACTERS)


class Note:
    """The free text about a job, for our own clients: AWS has no such operation."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def put(self, call: OperationCall) -> Response:
        request = parsed(_NoteRequest, call.params)
        check_may_change(call, request.name, self._jobs)
        return {"Text": self._jobs.set_note(request.name, request.text)}


def _listed(tags: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
