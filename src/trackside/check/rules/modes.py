"""Training and evaluation mode, and randomness that ignores it."""

import ast
from collections.abc import Iterator

from trackside.check.library import is_same_model
from trackside.check.remark import Remark, ScriptRule, at
from trackside.check.trace import Action, Event, Trace
from trackside.check.values import Kind, Value

_WITHOUT_GRADIENTS = {"torch.no_grad", "torch.inference_mode"}
_WITH_MODES = ("Dropout", "BatchNorm", "TransformerEncoder", "TransformerDecoder", "Transformer")


def trained_in_evaluation_mode(trace: Trace) -> Iterator[Remark]:
    """`eval()` inside the loop that trains, and no `train()` in it."""
    for event in trace.all(Action.EVAL):
        around = [
            loop
            for loop in event.loops
            if any(_trains(each, event.value) and each.is_in(loop) for each in _forwards(trace))
            and any(each.is_in(loop) for each in trace.all(Action.BACKWARD))
        ]
        if not around or not _has_modes(event.value):
            continue
        back = [each for each in trace.all(Action.TRAIN) if is_same_model(each.value, event.value)]
        if not any(each.is_in(around[0]) for each in back) and not _restores(trace, event):
            yield at(
                event,
                f"eval() is called in the loop at line {around[0].line}, and train() is not: all "
                f"later training is in evaluation mode.",
            )


def evaluated_in_training_mode(trace: Trace) -> Iterator[Remark]:
    """Forwards without gradients of a model that is trained, and never `eval()`."""
    for event in _forwards(trace):
        if not _WITHOUT_GRADIENTS & {*event.contexts} or not _has_modes(event.value):
            continue
        is_trained = any(_trains(each, event.value) for each in _forwards(trace))
        evals = [each for each in trace.all(Action.EVAL) if is_same_model(each.value, event.value)]
        if is_trained and not evals:
            yield at(event, "The model is evaluated here, and never put into evaluation mode.")
            return


def dropout_always(trace: Trace) -> Iterator[Remark]:
    """`F.dropout(x, p)` in a model: its default is `training=True`."""
    for path, node in trace.classes:
        for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
            name = ast.unparse(call.func)
            if name.rpartition(".")[2] not in ("dropout", "dropout2d", "alpha_dropout"):
                continue
            is_function = name.startswith(("F.", "torch.", "nn.functional.", "functional."))
            says_when = len(call.args) > 2 or any(each.arg == "training" for each in call.keywords)
            if is_function and not says_when:
                yield Remark(path, call.lineno, f"{name} is also active in evaluation mode.")


def _forwards(trace: Trace) -> list[Event]:
    return trace.all(Action.FORWARD)


def _trains(event: Event, model: Value) -> bool:
    return is_same_model(event.value, model) and not _WITHOUT_GRADIENTS & {*event.contexts}


def _restores(trace: Trace, event: Event) -> bool:
    """`model.train(was_training)`: a mode that is not known."""
    return any(
        each.arguments and is_same_model(each.value, event.value)
        for each in trace.all(Action.TRAIN)
    )


def _has_modes(model: Value) -> bool:
    """Whether it has a layer that differs between the modes, as far as its parts are known."""
    waiting, seen = [model], 0
    while waiting and seen < 10_000:
        value = waiting.pop()
        seen += 1
        if value.name.rpartition(".")[2].startswith(_WITH_MODES):
            return True
        inner = [*value.attributes.values(), *value.items, *value.arguments.values()]
        waiting += [
            each for each in inner if each.kind in (Kind.MODEL, Kind.TUPLE) and each is not value
        ]
    return False


RULES = (
    ScriptRule(
        "TrainingInEvaluationMode",
        "Call model.train() at the beginning of each epoch, after an evaluation.",
        trained_in_evaluation_mode,
    ),
    ScriptRule(
        "EvaluationInTrainingMode",
        "Call model.eval() before the evaluation and model.train() after it.",
        evaluated_in_training_mode,
    ),
    ScriptRule(
        "DropoutInEvaluation",
        "Write F.dropout(x, p, training=self.training), or use nn.Dropout.",
        dropout_always,
    ),
)
