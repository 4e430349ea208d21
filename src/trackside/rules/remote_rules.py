"""What rules of a job may not use when the job comes through a server, checked before it starts.

Its submitter is not the one whose machine it is. `action_taker.py` holds to the same when a rule
fires. Which places its rules may name is `api/locations.py`'s.
"""

from collections.abc import Iterator, Mapping

from trackside.errors import Violation
from trackside.records.notify_targets import Target
from trackside.records.spec import JobSpec, RuleConfiguration
from trackside.rules.action.actions import Action, Command, Notify, actions_of
from trackside.rules.action.callback_addresses import Callbacks
from trackside.settings import Settings


def violations(spec: JobSpec, settings: Settings) -> Iterator[Violation]:
    """Of all rules of a request, by the request's members."""
    callbacks = Callbacks.allowed_by(settings.allow_callbacks)
    yield from _unreachable(spec, settings, callbacks)
    for member, rules in (
        ("DebugRuleConfigurations", spec.debug_rules),
        ("ProfilerRuleConfigurations", spec.profiler_rules),
    ):
        for index, rule in enumerate(rules):
            where = f"{member}[{index}].RuleParameters"
            for action in _actions(rule):
                if advice := _problem(action, spec.environment, callbacks):
                    given = rule.parameters["action_json"]
                    yield Violation(f"{where}.action_json", given, advice)


def _unreachable(spec: JobSpec, settings: Settings, callbacks: Callbacks) -> Iterator[Violation]:
    for index, target in enumerate(map(Target.parse, spec.options.notify)):
        if target.kind == "mail" or target.address == settings.webhook_url:
            continue
        if problem := callbacks.problem(target.address):
            advice = f"has an address that cannot be called. {problem}"
            yield Violation(f"Trackside.Notify[{index}]", target.masked, advice)


def _actions(rule: RuleConfiguration) -> tuple[Action, ...]:
    try:
        return actions_of(rule.parameters)
    except ValueError:
        return ()  # the evaluator says so, and does nothing


def _problem(action: Action, environment: Mapping[str, str], callbacks: Callbacks) -> str:
    match action:
        case Command():
            return (
                "asks for a command, which would run on the server's machine: only jobs that are"
                " started there may. Use a webhook"
            )
        case Notify(url=url) if url and (problem := callbacks.problem(url)):
            return f"has an address that cannot be called. {problem}"
        case Notify(secret_variable=name) if name and name not in environment:
            return f"names the secret {name!r}, which is not a variable of the job's Environment"
    return ""
