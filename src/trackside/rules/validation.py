"""What is wrong with the rules of a job, reported before it starts."""

from collections.abc import Iterator

from trackside.errors import Violation
from trackside.records.spec import JobSpec, RuleConfiguration
from trackside.rules import catalog
from trackside.rules.custom import rule_source
from trackside.rules.parameters import InvalidParameters, build, has_own


def violations(spec: JobSpec) -> Iterator[Violation]:
    """Of all rules of a request, by the request's members."""
    for member, rules in (
        ("DebugRuleConfigurations", spec.debug_rules),
        ("ProfilerRuleConfigurations", spec.profiler_rules),
    ):
        for index, rule in enumerate(rules):
            for found in parameter_violations(rule):
                where = f"{member}[{index}].RuleParameters{found.field}"
                yield Violation(where, found.value, found.advice)


def parameter_violations(rule: RuleConfiguration) -> Iterator[Violation]:
    """By parameter, as ".threshold". Of built-in rules the name and every parameter is checked;
    custom ones must only name what to invoke."""
    if rule.is_ignored:
        return
    if not rule.invokes:
        advice = (
            "is required: the name of a built-in rule, or of a class or function of the rule's"
            " source; images are not run"
        )
        yield Violation(".rule_to_invoke", None, advice)
    elif rule.is_built_in:
        try:
            entry = catalog.find_entry(rule.invokes)
            if has_own(rule.parameters) or not entry.is_complete:
                build(entry.load(), rule.parameters)
        except catalog.UnknownRule as unknown:
            if rule.invokes not in rule_source.installed():
                yield Violation(".rule_to_invoke", rule.invokes, str(unknown))
        except InvalidParameters as wrong:
            for name, advice in wrong.advice.items():
                yield Violation(f".{name}", rule.parameters.get(name), advice)
            if not wrong.advice:
                yield Violation("", dict(rule.parameters), str(wrong))
