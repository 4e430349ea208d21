"""The request's members for monitoring: hook, rules, profiler.

`rules.capture_plan`, imported only if there are rules, computes what they need saved.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trackside.errors import Violation
from trackside.records.layout import JobKeys
from trackside.records.spec import JobSpec, RuleConfiguration
from trackside.sdk.debugger import CollectionConfig, DebuggerHookConfig
from trackside.sdk.rule import AnyRule, ProfilerRule, Rule
from trackside.sdk.user_warnings import caution

if TYPE_CHECKING:
    import ast

_MEMBERS = {Rule: "DebugRuleConfigurations", ProfilerRule: "ProfilerRuleConfigurations"}
PaceName = Literal["CONTRACT", "WATCHFUL", "HOOK"]
"""Of `capture_plan.Pace`, which is loaded only when there are rules."""
_ANY_JOB = JobKeys("", "")
_SCHEDULE = ("save_interval", "start_step", "end_step", "save_steps")


def watching(
    config: DebuggerHookConfig | bool | None, rules: Sequence[AnyRule], keys: JobKeys, output: str
) -> dict[str, Any]:
    """`DebugHookConfig` with what the rules need, the rules, and the profiler if they need it.

    `keys` is where rule sources are stored, `output` where tensors are unless `config` sets it.
    """
    members: dict[str, Any] = {}
    for kind, member in _MEMBERS.items():
        if chosen := [rule.to_request(keys) for rule in rules if isinstance(rule, kind)]:
            members[member] = chosen
    if config is not False:
        hook = config if isinstance(config, DebuggerHookConfig) else DebuggerHookConfig()
        tensor_rules = [rule for rule in rules if isinstance(rule, Rule)]
        members["DebugHookConfig"] = _with_needs(hook, tensor_rules).to_request(output)
    if any(isinstance(rule, ProfilerRule) for rule in rules):
        members["ProfilerConfig"] = {"DisableProfiler": False}
    return members


def rule_violations(rules: Sequence[AnyRule], keys: JobKeys) -> Iterator[Violation]:
    """What is wrong with the rules, by list index."""
    if not rules:
        return
    from trackside.rules.validation import parameter_violations

    for index, rule in enumerate(rules):
        for found in parameter_violations(_configuration(rule, keys)):
            where = f"rules[{index}].rule_parameters{found.field}"
            yield Violation(where, found.value, found.advice)
        if rule.source_file is not None:
            yield from _source_problems(f"rules[{index}]", rule, rule.source_file)


def needed(
    rules: Sequence[AnyRule], pace: PaceName, configured: Sequence[str]
) -> list[CollectionConfig]:
    """What rules without collections of their own read, except for what is configured."""
    chosen = [rule for rule in rules if isinstance(rule, Rule) and rule.collections_to_save is None]
    if not chosen:
        return []
    from trackside.rules.capture_plan import Pace, plan

    asked = [_configuration(rule, _ANY_JOB) for rule in chosen]
    planned = plan(asked, Pace[pace], configured=configured)
    return [CollectionConfig(str(each.name), each.parameters) for each in planned]


def source_files(rules: Iterable[AnyRule], keys: JobKeys) -> dict[str, Path]:
    """Files to store with the job, by destination."""
    return {
        str(rule.source_uri(keys)): rule.source_file
        for rule in rules
        if rule.source_file is not None
    }


def warn_of_unsaved(spec: JobSpec, rules: Sequence[AnyRule]) -> None:
    if rules:
        from trackside.rules import capture_plan

        for sentence in capture_plan.unsaved(spec):
            caution(sentence)


def _with_needs(hook: DebuggerHookConfig, rules: Sequence[Rule]) -> DebuggerHookConfig:
    """Collections that the user named stay unchanged."""
    asked = list(hook.collection_configs or ())
    for rule in rules:
        asked += [each for each in rule.collections_to_save or () if each not in asked]
    has_schedule = any(key.rpartition(".")[2] in _SCHEDULE for key in hook.hook_parameters or ())
    asked += needed(rules, "HOOK" if has_schedule else "CONTRACT", [each.name for each in asked])
    return replace(hook, collection_configs=asked)


def _configuration(rule: AnyRule, keys: JobKeys) -> RuleConfiguration:
    """As the evaluator will read it."""
    parameters = rule.parameters_for(keys)
    return RuleConfiguration(name=rule.name, image=rule.image_uri, parameters=parameters)


def _source_problems(where: str, rule: AnyRule, file: Path) -> Iterator[Violation]:
    if not file.is_file():
        yield Violation(f"{where}.source", rule.source, f"does not exist: there is no {file}")
        return
    import ast

    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as failure:
        yield Violation(f"{where}.source", rule.source, f"is not valid Python: {failure}")
        return
    kinds = (ast.ClassDef, ast.FunctionDef)
    offered = [node.name for node in tree.body if isinstance(node, kinds)]
    # A name may also come from an import or an assignment.
    if rule.invokes not in {*offered, *_bound(tree)}:
        has = f"it has {', '.join(offered)}" if offered else "it has no class and no function"
        yield Violation(f"{where}.rule_to_invoke", rule.invokes, f"is not in {file.name}: {has}")


def _bound(tree: "ast.Module") -> Iterator[str]:
    import ast

    for node in ast.walk(tree):
        match node:
            case ast.alias(name=name, asname=asname):
                yield asname or name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
