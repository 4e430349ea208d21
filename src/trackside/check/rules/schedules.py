"""Learning-rate schedules: what they are counted in, and where they are stepped."""

import ast
from collections.abc import Iterator

from trackside.check.remark import Remark, ScriptRule, at, made_at
from trackside.check.trace import Action, Event, Trace
from trackside.check.values import Kind, Value

_LENGTHS = {
    "CosineAnnealingLR": ("T_max", 1),
    "LinearLR": ("total_iters", 3),
    "PolynomialLR": ("total_iters", 1),
    "OneCycleLR": ("total_steps", 2),
    "StepLR": ("step_size", 1),
    "MultiStepLR": ("milestones", 1),
    "LambdaLR": ("lr_lambda", 1),
    "CosineAnnealingWarmRestarts": ("T_0", 1),
    "SequentialLR": ("milestones", 2),
    "get_linear_schedule_with_warmup": ("num_training_steps", 2),
    "get_cosine_schedule_with_warmup": ("num_training_steps", 2),
}
"""Schedules with an end, and the argument that has it."""
_EACH_BATCH = ("OneCycleLR", "CyclicLR")
"""Made to be stepped with every batch."""
_EACH_EPOCH = ("ReduceLROnPlateau",)
_BATCH_WORDS = ("step", "batch", "iter")


def wrong_unit(trace: Trace) -> Iterator[Remark]:
    """A length in epochs with a step for every batch, or the reverse."""
    for scheduler in trace.made(Kind.SCHEDULER):
        kind = scheduler.name.rpartition(".")[2]
        steps = trace.of(scheduler, Action.SCHEDULE)
        if not steps:
            continue
        by_batch = _is_by_batch(trace, steps[0])
        if by_batch is None:
            continue
        unit = _unit(scheduler, kind)
        if by_batch and (unit == "epochs" or kind in _EACH_EPOCH):
            yield at(
                steps[0],
                f"{kind} of line {scheduler.line} counts epochs, and is stepped with every batch.",
            )
        elif not by_batch and (unit == "batches" or (kind in _EACH_BATCH and unit != "epochs")):
            yield at(
                steps[0],
                f"{kind} of line {scheduler.line} counts batches, and is stepped once for each "
                f"epoch: it hardly gets beyond its beginning.",
            )


def never_stepped(trace: Trace) -> Iterator[Remark]:
    if not trace.all(Action.STEP):
        return
    stepped = [each.value.node for each in trace.all(Action.SCHEDULE)]
    for event in trace.all(Action.MAKE):
        if not event.value.has(Kind.SCHEDULER) or trace.of(event.value, Action.SCHEDULE):
            continue
        is_followed = any(node is not event.value.node for node in stepped)
        if not is_followed and not _is_used_elsewhere(trace, event.value):
            yield made_at(event.value, "This schedule is made and never stepped.")


def before_optimizer(trace: Trace) -> Iterator[Remark]:
    for event in trace.all(Action.SCHEDULE):
        same = [
            each for each in trace.all(Action.STEP) if each.loops[: len(event.loops)] == event.loops
        ]
        is_told = "0" in event.arguments or "epoch" in event.arguments
        is_free = not event.branches and not is_told
        if event.loops and same and is_free and all(event.order < each.order for each in same):
            yield at(
                event,
                f"The schedule is stepped before optimizer.step() at line {same[0].line}: its "
                f"first rate is skipped.",
            )


def _is_by_batch(trace: Trace, event: Event) -> bool | None:
    """Whether it is stepped in the loop that trains on batches; None if that is unclear."""
    if any(branch.is_modulo for branch in event.branches):
        return None
    training = trace.training_loops()
    if event.loop is None or not training:
        return None
    if any(event.loop is loop for loop in training):
        return True if len(event.loops) > 1 or event.loop.loader is not None else None
    is_around = any(
        each.is_in(event.loop) for each in trace.all(Action.BACKWARD) if each.loop is not event.loop
    )
    return False if is_around else None


def _unit(scheduler: Value, kind: str) -> str:
    """What the schedule's length is counted in, by the names in its expression."""
    if kind == "OneCycleLR" and "epochs" in scheduler.arguments:
        return "batches"
    name, position = _LENGTHS.get(kind, ("", 0))
    length = _expression(scheduler.node, name, position)
    words = set() if length is None else _words(length)
    if "len" in words or any(unit in word for word in words for unit in _BATCH_WORDS):
        return "batches"
    return "epochs" if any("epoch" in word for word in words) else ""


def _expression(call: ast.AST | None, name: str, position: int) -> ast.expr | None:
    """An argument of a call, as it is written."""
    if not isinstance(call, ast.Call) or not name:
        return None
    if position < len(call.args):
        return call.args[position]
    return next((each.value for each in call.keywords if each.arg == name), None)


def _words(node: ast.AST) -> set[str]:
    """Of names and attributes. What a lambda calls its argument says nothing of its unit."""
    own = {
        each.arg
        for inner in ast.walk(node)
        if isinstance(inner, ast.Lambda)
        for each in inner.args.args
    }
    names = {
        each.id.lower()
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and each.id not in own
    }
    return names | {each.attr.lower() for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def _is_used_elsewhere(trace: Trace, scheduler: Value) -> bool:
    """Given to a trainer, to accelerate, or to another schedule."""
    return any(
        scheduler in each.value.origins() or scheduler in each.arguments.values()
        for each in trace.events
        if each.value is not scheduler
    )


RULES = (
    ScriptRule(
        "ScheduleInOtherUnits",
        "Count the schedule in what it is stepped with: epochs * len(loader) for every batch.",
        wrong_unit,
    ),
    ScriptRule(
        "ScheduleNeverStepped", "Call scheduler.step() after optimizer.step().", never_stepped
    ),
    ScriptRule(
        "ScheduleBeforeOptimizer", "Call scheduler.step() after optimizer.step().", before_optimizer
    ),
)
