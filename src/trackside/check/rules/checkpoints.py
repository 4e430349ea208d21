"""What is saved, what is loaded, and copies that are none."""

from collections.abc import Iterator

from trackside.check.remark import Remark, ScriptRule, at
from trackside.check.trace import Action, Trace
from trackside.check.values import Kind, Value


def not_restored(trace: Trace) -> Iterator[Remark]:
    """The model is loaded and trained on, and its optimizer or schedule starts anew although they
    are saved, or the epoch is restored. A model that is loaded in part is a new one."""
    loaded = [
        each
        for each in trace.all(Action.LOAD_STATE)
        if each.value.kind in _MODELS and each.argument("strict", 1).constant is not False
    ]
    trained = trace.all(Action.BACKWARD)
    if not loaded or not trained:
        return
    saved = _saved(trace)
    for kind, word in ((Kind.OPTIMIZER, "optimizer"), (Kind.SCHEDULER, "schedule")):
        values = [each for each in saved if each.has(kind)]
        restored = [each for each in trace.all(Action.LOAD_STATE) if each.value.has(kind)]
        if values and not restored and loaded[0].order < trained[0].order:
            yield at(
                loaded[0],
                f"The state of the {word} (line {values[0].line}) is saved, and not loaded with "
                f"the model's: training goes on with a new one.",
            )


def best_not_copied(trace: Trace) -> Iterator[Remark]:
    """`best = model.state_dict()` in the loop that trains: it changes with the model."""
    for event in trace.all(Action.LOAD_STATE):
        given = event.argument("state_dict", 0)
        if not given.has(Kind.STATE) or not given.of or given.of[0] is not event.value:
            continue
        if given.line == event.line:
            continue  # nothing is kept: one object has two names
        trained = [each for each in trace.all(Action.STEP) if each.loops]
        if trained and event.order > trained[-1].order:
            yield Remark(
                event.path,
                given.line or event.line,
                f"state_dict() is not a copy: what line {event.line} loads are the last weights.",
            )


def _saved(trace: Trace) -> list[Value]:
    """Whose state is given to torch.save."""
    found: list[Value] = []
    for event in trace.all(Action.SAVE):
        for value in event.value.origins():
            if value.has(Kind.STATE):
                found.extend(value.of)
    return found


_MODELS = (Kind.MODEL, Kind.WRAPPED)

RULES = (
    ScriptRule(
        "NotRestored",
        "Load the state of optimizer and schedule where the model's is loaded.",
        not_restored,
    ),
    ScriptRule("BestWeightsNotCopied", "Keep copy.deepcopy(model.state_dict()).", best_not_copied),
)
