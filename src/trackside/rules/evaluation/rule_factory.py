"""From a rule as the job configures it to one that is ready to look."""

from typing import Any

from trackside.records.evaluator_process import rule_name
from trackside.records.spec import RuleConfiguration
from trackside.rules import catalog
from trackside.rules.builtin import BuiltInRule
from trackside.rules.custom import rule_source
from trackside.rules.custom.custom_rule import CustomRule
from trackside.rules.each_worker import for_each_worker
from trackside.rules.parameters import build
from trackside.rules.watched_job import WatchedJob

Ready = BuiltInRule[Any] | CustomRule


def make_ready(
    job: WatchedJob, rule: RuleConfiguration, number: int, *, with_custom: bool = True
) -> Ready | None:
    """`ValueError` with what is wrong and the way out. None for a user's rule that is not wanted.

    By `rule_to_invoke`, not by the image: its address differs from region to region. A source of
    its own makes it the user's; then the built-in rules come, then those of installed packages.
    """
    if rule_source.is_custom(rule.parameters):
        return CustomRule(job, rule, number) if with_custom else None
    name = rule_name(rule)
    try:
        found = catalog.find(name)
    except catalog.UnknownRule:
        if name not in rule_source.installed():
            raise
        return CustomRule(job, rule, number) if with_custom else None
    return for_each_worker(build(found, rule.parameters))
