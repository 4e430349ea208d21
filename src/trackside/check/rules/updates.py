"""The order of backward, clipping, step and zero_grad, and the loops that they are in."""

from collections.abc import Iterator

from trackside.check.remark import Remark, ScriptRule, at, made_at
from trackside.check.trace import Action, Branch, Event, Loop, Trace
from trackside.check.values import Kind, Value


def never_cleared(trace: Trace) -> Iterator[Remark]:
    """An update in a loop, and gradients that no call clears in that loop."""
    for step in _steps(trace):
        loop = step.loop
        if loop is None or not _backwards_in(trace, loop):
            continue
        clearing = _clearing(trace, step.value)
        if any(each.is_in(loop) for each in clearing) or _clears_by_hand(trace, loop):
            continue
        outside = [each for each in clearing if each.order < step.order and each.loops]
        if outside:
            yield at(
                step,
                f"Gradients are cleared at {outside[0].where}, outside of the loop at line "
                f"{loop.line} that calls step(): each update uses those of all batches before.",
            )
        elif not clearing:
            yield at(step, "step() is called in a loop, and nothing ever clears the gradients.")


def cleared_before_step(trace: Trace) -> Iterator[Remark]:
    """backward, then zero_grad, then step, in one body."""
    for step in _steps(trace):
        backward = _last_before(trace, step, Action.BACKWARD)
        if backward is None or backward.loops != step.loops:
            continue
        for clearing in _clearing(trace, step.value):
            is_between = backward.order < clearing.order < step.order
            if is_between and not clearing.branches[len(step.branches) :]:
                yield at(
                    clearing,
                    f"Gradients of backward() at line {backward.line} are cleared before step() "
                    f"at line {step.line} uses them.",
                )


def step_outside(trace: Trace) -> Iterator[Remark]:
    """Gradients for every batch, and one update for the last of them."""
    for step in _steps(trace):
        for backward in trace.all(Action.BACKWARD):
            inner = backward.loops[len(step.loops) :]
            is_below = backward.loops[: len(step.loops)] == step.loops
            if not is_below or not inner or inner[0].loader is None or step.order < backward.order:
                continue
            cleared = [each for each in _clearing(trace, step.value) if each.is_in(inner[0])]
            if cleared:
                yield at(
                    step,
                    f"step() is called once after the loop at line {inner[0].line}, which clears "
                    f"the gradients for every batch: only the last batch of each pass is used.",
                )


def not_stepping(trace: Trace) -> Iterator[Remark]:
    stepped = [each.value for each in trace.all(Action.STEP)]
    if not trace.all(Action.BACKWARD) or any(value.has(Kind.UNKNOWN) for value in stepped):
        return
    for optimizer in trace.made(Kind.OPTIMIZER):
        is_used = any(
            each.value is optimizer for each in trace.events if each.action is not Action.MAKE
        )
        if is_used and not any(value is optimizer for value in stepped):
            yield made_at(optimizer, "This optimizer never steps; its gradients are only cleared.")


def clipped_too_late(trace: Trace) -> Iterator[Remark]:
    for clip in trace.all(Action.CLIP):
        steps = [each for each in _steps(trace) if each.loops == clip.loops]
        backwards = [each for each in trace.all(Action.BACKWARD) if each.loops == clip.loops]
        if not steps or not backwards:
            continue
        if all(each.order < clip.order for each in steps):
            yield at(clip, f"Gradients are clipped after step() at line {steps[-1].line}.")
        elif all(clip.order < each.order for each in backwards):
            yield at(
                clip,
                f"Gradients are clipped before backward() at line {backwards[0].line} computes "
                f"them.",
            )


def clipped_scaled(trace: Trace) -> Iterator[Remark]:
    """With a GradScaler, gradients have another size until `unscale_`."""
    if not any(each.value.name == "scaled" for each in trace.all(Action.BACKWARD)):
        return
    for clip in trace.all(Action.CLIP):
        if not any(each.order < clip.order for each in trace.all(Action.UNSCALE)):
            yield at(clip, "Gradients are clipped while the GradScaler still has them scaled.")


def scaler_bypassed(trace: Trace) -> Iterator[Remark]:
    if not any(each.value.name == "scaled" for each in trace.all(Action.BACKWARD)):
        return
    through = [each for each in _steps(trace) if "scaler" in each.arguments]
    for step in _steps(trace):
        if "scaler" not in step.arguments and not any(each.excludes(step) for each in through):
            yield at(step, "The loss is scaled, and step() is called past the GradScaler.")
    if through and not trace.all(Action.SCALER_UPDATE):
        yield at(through[0], "scaler.step() is called, and scaler.update() never.")


def optimizer_recreated(trace: Trace) -> Iterator[Remark]:
    for event in trace.all(Action.MAKE):
        if not event.value.has(Kind.OPTIMIZER) or not event.loops:
            continue
        model_is_new = any(
            each.has(Kind.MODEL) and each.loops == event.value.loops
            for each in event.value.origins()
        )
        steps = trace.of(event.value, Action.STEP)
        is_each_time = not any(_steps_without(branch, steps) for branch in event.branches)
        is_here = is_each_time and all(each.loops == event.loops for each in steps)
        if steps and not model_is_new and is_here:
            yield at(
                event,
                f"An optimizer is made for every iteration of the loop at line "
                f"{event.loops[-1].line}: its momentum and running averages are lost.",
            )


def backward_without_graph(trace: Trace) -> Iterator[Remark]:
    for event in trace.all(Action.BACKWARD):
        forwards = [
            each
            for each in trace.all(Action.FORWARD)
            if each.order < event.order and each.loops == event.loops
        ]
        inside = {"torch.no_grad", "torch.inference_mode"}
        if forwards and all(inside & {*each.contexts} for each in forwards):
            yield at(
                event, f"backward() follows a forward without gradients, at {forwards[-1].where}."
            )


def _steps_without(branch: Branch, steps: list[Event]) -> bool:
    """Whether steps are also made where the condition is not true."""
    return any(all(each.number != branch.number for each in step.branches) for step in steps)


def _steps(trace: Trace) -> list[Event]:
    return [each for each in trace.all(Action.STEP) if each.value.has(Kind.OPTIMIZER)]


def _backwards_in(trace: Trace, loop: Loop) -> bool:
    return any(each.is_in(loop) for each in trace.all(Action.BACKWARD))


def _last_before(trace: Trace, event: Event, action: Action) -> Event | None:
    before = [each for each in trace.all(action) if each.order < event.order]
    return before[-1] if before else None


def _clearing(trace: Trace, optimizer: Value) -> list[Event]:
    """zero_grad of this optimizer, or of a model: which parameters it has is not always known."""
    return [
        each
        for each in trace.all(Action.ZERO_GRAD)
        if each.value is optimizer or not each.value.has(Kind.OPTIMIZER)
    ]


def _clears_by_hand(trace: Trace, loop: Loop) -> bool:
    """`p.grad = None`, or gradients by torch.autograd.grad; seen as text, not as calls."""
    return any(each.is_in(loop) for each in trace.all(Action.BY_HAND))


RULES = (
    ScriptRule(
        "ForgottenZeroGrad",
        "Call optimizer.zero_grad() once for every step(), before backward().",
        never_cleared,
    ),
    ScriptRule(
        "GradientMissing",
        "Move zero_grad() to the beginning of the iteration, or after step().",
        cleared_before_step,
    ),
    ScriptRule(
        "OptimizerNotStepping",
        "Call optimizer.step() after backward(), in the loop over batches.",
        lambda trace: [*step_outside(trace), *not_stepping(trace)],
    ),
    ScriptRule(
        "ClippedAtWrongTime",
        "Clip between backward() (with a GradScaler: unscale_()) and step().",
        lambda trace: [*clipped_too_late(trace), *clipped_scaled(trace)],
    ),
    ScriptRule(
        "ScalerBypassed",
        "Call scaler.step(optimizer) and scaler.update() in place of optimizer.step().",
        scaler_bypassed,
    ),
    ScriptRule(
        "OptimizerRecreated", "Make the optimizer once, before the loops.", optimizer_recreated
    ),
    ScriptRule(
        "NoGradAroundTraining",
        "Take torch.no_grad() or inference_mode away from the forward of training.",
        backward_without_graph,
    ),
)
