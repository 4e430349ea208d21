"""UpdateTrainingJob: the profiler of a job that runs, more rules that watch it, and what is only
told again."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from trackside.api.json_service import Answer, Ask
from trackside.api.locations import Locations
from trackside.api.ownership import check_may_change
from trackside.api.validation import invalid, parsed, refused, wire_violations
from trackside.errors import Violation
from trackside.jobs.describe import arn
from trackside.jobs.jobs import Jobs
from trackside.records.job_updates import Update, merged_profiler
from trackside.records.members import member
from trackside.records.spec import JOB_NAME, JobSpec, Profiler, RuleConfiguration
from trackside.records.status import Status
from trackside.rules import remote_rules
from trackside.rules.validation import violations as rule_violations
from trackside.settings import Settings

MOST_RULES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAsked:
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

    def update(self, ask: Ask) -> Answer:
        asked = parsed(UpdateAsked, ask.given)
        check_may_change(ask, asked.name, self._jobs)
        record = self._jobs.record(asked.name)
        update = Update(
            profiler=ask.given.get("ProfilerConfig") or {},
            rules=asked.profiler_rules,
            keep_alive_seconds=asked.keep_alive_seconds,
            remote_debug=asked.remote_debug,
        )
        if update.profiler or update.rules:
            status = record.history.state.status
            if status is not Status.IN_PROGRESS:
                raise invalid(
                    f"The request was rejected because the training job is in status {status}."
                )
            after = _updated(record.spec, update)
            violations = [*_problems(record.spec, after, update, self._jobs.settings)]
            named = self._locations.violations(after, ask.caller)
            violations += [each for each in named if each.field.startswith("Profiler")]
            if violations:
                raise refused(violations)
        if update != Update():
            self._jobs.update(asked.name, update)
        return {"TrainingJobArn": arn(asked.name, ask.region)}


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
    """Half of a profile in one place and half in another would be none."""
    before, now = spec.profiler or Profiler(), after.profiler or Profiler()
    if before.uri and now.uri and before.uri.rstrip("/") != now.uri.rstrip("/"):
        advice = f"must stay {before.uri!r} while the job runs"
        yield Violation("ProfilerConfig.S3OutputPath", now.uri, advice)
    if before.local_path.rstrip("/") != now.local_path.rstrip("/"):
        advice = f"must stay {before.local_path!r} while the job runs"
        yield Violation("ProfilerConfig.ProfilingParameters.LocalPath", now.local_path, advice)
