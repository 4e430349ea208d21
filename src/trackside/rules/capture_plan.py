"""From what rules need to what the hook saves: the collections, of each only what is read,
and at which steps."""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Any

from trackside.capture.selection.collection import BUILT_IN_PATTERNS, NEVER_REDUCED, CollectionKeys
from trackside.records.spec import Collection, DebugHook, JobSpec, RuleConfiguration
from trackside.rules import catalog
from trackside.rules.needs import Need
from trackside.rules.parameters import InvalidParameters, build, has_own

_LOSSES = Need(CollectionKeys.LOSSES)
_LOSS_INPUTS = r"_input_\d+$"
"""The hook counts them among the losses. Scores over a vocabulary are gigabytes."""
_FIRST = ",".join(map(str, range(20)))
_EARLY = ",".join(map(str, range(20, 200, 10)))
_SCALARS = {"save_steps": ",".join(map(str, range(60))), "save_interval": "5"}
_FIGURES = {"save_steps": f"{_FIRST},{_EARLY}", "save_interval": "50"}
"""Mistakes show in the first steps. A figure of each tensor costs a step about as much as a small
layer does: once in 50 steps is not noticeable."""
_VALUES = {"save_steps": "0,1,2,5,10,20,50,100", "save_interval": "200"}
"""Whole tensors are copied and stored."""


ALL_RULES = ("Checkup", "StalledTrainingRule")


class Pace(Enum):
    """At which steps planned collections are saved."""

    CONTRACT = auto()
    """Each at the interval that its rules ask for, which is SageMaker's 500."""
    WATCHFUL = auto()
    """Densely at the start and often enough afterwards, at a cost that is not noticeable."""
    HOOK = auto()
    """As the hook is configured."""


def plan(
    rules: Iterable[RuleConfiguration], pace: Pace, *, configured: Iterable[str] = ()
) -> list[Collection]:
    """The collections that these rules need, but for those that the user configured himself.

    Only the figures that rules read are saved of a collection, unless one of them reads the
    values themselves.
    """
    by_name: dict[str, list[Need]] = {}
    for rule in rules:
        for need in needs_of(rule):
            for name in (need.collection, *_beside(need)):
                by_name.setdefault(name, []).append(need)
    return [
        collection
        for name, needs in by_name.items()
        if name not in set(configured)
        for collection in _collections(name, needs, pace)
    ]


def needs_of(rule: RuleConfiguration) -> tuple[Need, ...]:
    """What a tensor rule wants saved; the losses when it does not say, as rules with their own
    code and those of installed packages never do."""
    if rule.is_ignored:
        return ()
    if not rule.is_built_in:
        return (_LOSSES,)
    try:
        entry = catalog.find_entry(rule.invokes)
        needs = _needs(entry, rule.parameters)
    except catalog.UnknownRule:
        return (_LOSSES,)
    except InvalidParameters:
        return ()  # `validation` reports it
    return () if entry.is_profiler_rule else needs or (_LOSSES,)


def _needs(entry: catalog.Entry, parameters: Mapping[str, str]) -> tuple[Need, ...]:
    """By the catalog if that is all there is to know: importing the rules takes longer than all
    else that starts a job."""
    if not has_own(parameters) and entry.is_complete and not entry.is_of_checkup:
        return entry.needs
    made: Any = build(entry.load(), parameters)
    return () if entry.is_profiler_rule else tuple(made.needs())


def unsaved(spec: JobSpec) -> Iterator[str]:
    """A sentence for each rule that will have nothing to check."""
    for rule in spec.debug_rules:
        needs = [need for need in needs_of(rule) if not need.is_optional]
        if needs and spec.debug_hook is None:
            yield f"Rule {rule.name!r} has nothing to check: the job has no hook configuration."
            continue
        for need in needs:
            if spec.debug_hook is not None and not _is_saved(need, spec.debug_hook):
                yield (
                    f"Rule {rule.name!r} needs the collection {need.collection!r}, which is not"
                    f" saved. Add {_asking(need)} to the collections of the hook."
                )


def all_rules() -> list[str]:
    """The rules for a training of which no specific problem is suspected.

    SageMaker's own rules have thresholds that must be chosen for the model, and fire on many
    healthy runs; users configure them by name.
    """
    return [*ALL_RULES]


def _beside(need: Need) -> tuple[str, ...]:
    """With `all` the hook also saves these, and their values, unless configured otherwise."""
    if need.collection != CollectionKeys.ALL:
        return ()
    return (CollectionKeys.WEIGHTS, CollectionKeys.BIASES, CollectionKeys.GRADIENTS)


def _collections(name: str, needs: list[Need], pace: Pace) -> Iterator[Collection]:
    """Watchfully, figures often and values rarely: of a tensor in two collections the hook saves
    what either wants. Otherwise the values will do for both."""
    figures = [need for need in needs if need.reductions]
    values = [need for need in needs if not need.reductions]
    if pace is Pace.WATCHFUL and figures and values and name not in NEVER_REDUCED:
        yield _collection(name, figures, pace)
        yield _collection(f"{name}_values", values, pace, BUILT_IN_PATTERNS.get(name, ()))
    else:
        yield _collection(name, needs, pace)


def _collection(
    name: str, needs: list[Need], pace: Pace, patterns: tuple[str, ...] = ()
) -> Collection:
    figures_do = name not in NEVER_REDUCED and all(need.reductions for need in needs)
    parameters = dict(_schedule(name, needs, pace, figures_do=figures_do))
    wanted = (*patterns, *(need.include_regex for need in needs if need.include_regex))
    if wanted:
        parameters["include_regex"] = ",".join(dict.fromkeys(wanted))
    if name == CollectionKeys.LOSSES and pace is not Pace.CONTRACT:
        parameters["exclude_regex"] = _LOSS_INPUTS
    if figures_do:
        reductions = {reduction for need in needs for reduction in need.reductions}
        parameters["reductions"] = ",".join(sorted(reductions))
    return Collection(name=name, parameters=parameters)


def _schedule(name: str, needs: list[Need], pace: Pace, *, figures_do: bool) -> Mapping[str, str]:
    if pace is Pace.WATCHFUL:
        return _SCALARS if name in NEVER_REDUCED else _FIGURES if figures_do else _VALUES
    if pace is Pace.CONTRACT:
        return {"save_interval": str(min(need.save_interval for need in needs))}
    return {}


def _is_saved(need: Need, hook: DebugHook) -> bool:
    if need.collection == CollectionKeys.LOSSES or hook.parameters.get("save_all") == "True":
        return True
    for collection in hook.collections:
        patterns = collection.parameters.get("include_regex", "").split(",")
        if collection.name in (need.collection, CollectionKeys.ALL):
            return True
        if need.include_regex and need.include_regex in patterns:
            return True
    return False


def _asking(need: Need) -> str:
    pattern = f", {{'include_regex': {need.include_regex!r}}}" if need.include_regex else ""
    return f"CollectionConfig({need.collection!r}{pattern})"
