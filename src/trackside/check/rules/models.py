"""Models: what is registered, frozen, replaced or wrapped, and what their output is given to."""

import ast
from collections.abc import Iterator

from trackside.check.library import is_same_model
from trackside.check.remark import Remark, ScriptRule, at
from trackside.check.trace import Action, Event, Trace
from trackside.check.values import Kind, Value

_SOFTMAXES = ("torch.softmax", "torch.nn.functional.softmax", "torch.nn.Softmax")
_SIGMOIDS = ("torch.sigmoid", "torch.nn.functional.sigmoid", "torch.nn.Sigmoid")
_WANTS_SCORES = {
    "torch.nn.CrossEntropyLoss": _SOFTMAXES,
    "torch.nn.functional.cross_entropy": _SOFTMAXES,
    "torch.nn.BCEWithLogitsLoss": _SIGMOIDS,
    "torch.nn.functional.binary_cross_entropy_with_logits": _SIGMOIDS,
}
_REGISTERING = ("add_module", "register_module")


def activated_twice(trace: Trace) -> Iterator[Remark]:
    for event in trace.all(Action.LOSS):
        name = event.arguments["function"].name
        scores = event.argument("input", 0)
        if scores.name in _WANTS_SCORES.get(name, ()):
            short, given = name.rpartition(".")[2], scores.name.rpartition(".")[2]
            yield at(event, f"{short} applies this itself, and gets the output of {given}.")


def wrapper_bypassed(trace: Trace) -> Iterator[Remark]:
    """The model inside DistributedDataParallel is called: gradients are not exchanged."""
    for wrapper in trace.made(Kind.WRAPPED):
        inner = wrapper.argument("module", 0)
        for event in trace.all(Action.FORWARD):
            trains = any(
                each.loops == event.loops and each.order > event.order
                for each in trace.all(Action.BACKWARD)
            )
            if event.value is inner and event.order > _made(trace, wrapper) and trains:
                yield at(
                    event,
                    f"The model is called past DistributedDataParallel (line {wrapper.line}): its "
                    f"gradients are not exchanged between ranks.",
                )


def replaced_after_optimizer(trace: Trace) -> Iterator[Remark]:
    """A part of the model that the optimizer does not have."""
    for event in trace.all(Action.REPLACE):
        for optimizer in trace.made(Kind.OPTIMIZER):
            models = [each for each in optimizer.origins() if each.has(Kind.MODEL)]
            is_its = any(is_same_model(event.value, model) for model in models)
            is_used = any(each.order > event.order for each in trace.of(optimizer, Action.STEP))
            if is_its and is_used and _made(trace, optimizer) < event.order:
                yield at(
                    event,
                    f"The optimizer was made at line {optimizer.line}, before this part: it does "
                    f"not have its parameters.",
                )


def not_registered(trace: Trace) -> Iterator[Remark]:
    """Layers in a plain list: no optimizer gets their parameters, and no checkpoint."""
    for path, node in trace.classes:
        if any(word in ast.unparse(node) for word in _REGISTERING):
            continue
        for assigned in (each for each in ast.walk(node) if isinstance(each, ast.Assign)):
            name = _own_attribute(assigned.targets[0])
            if name and _lists_layers(assigned.value) and not _is_registered_later(node, name):
                yield Remark(
                    path,
                    assigned.lineno,
                    f"self.{name} is a plain list of layers: their parameters belong to no "
                    f"optimizer and no checkpoint.",
                )


def _own_attribute(target: ast.expr) -> str:
    """`hidden` of `self.hidden`; "" of anything else."""
    is_own = isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
    return target.attr if is_own and isinstance(target, ast.Attribute) else ""


def freeze_without_effect(trace: Trace) -> Iterator[Remark]:
    for event in trace.all(Action.MISSPELT):
        name = event.arguments["name"].name
        if event.value.name == "parameter" or event.value.kind in (Kind.MODEL, Kind.PARAMETERS):
            yield at(event, f"Nothing is called {name!r}: the assignment has no effect.")
    for event in trace.all(Action.FREEZE):
        if event.value.has(Kind.MODEL) or _is_part_of_model(event.value):
            yield at(
                event,
                "requires_grad of a module is an attribute like any other: its parameters are "
                "still trained.",
            )


def loss_keeps_graph(trace: Trace) -> Iterator[Remark]:
    """`total += loss` in the loop of a training keeps the graph of every batch in memory."""
    for event in trace.all(Action.ACCUMULATE):
        backwards = [each for each in trace.all(Action.BACKWARD) if each.loops == event.loops]
        is_trained = any(each.value is event.value for each in backwards)
        if event.loops and is_trained and _starts_at_zero(event):
            yield at(
                event,
                "A tensor with its graph is added up over batches: memory grows with every one.",
            )


def _starts_at_zero(event: Event) -> bool:
    before = event.arguments["to"]
    return before.has(Kind.CONSTANT) and before.constant in (0, 0.0)


def _made(trace: Trace, value: Value) -> int:
    found = trace.of(value, Action.MAKE)
    return found[0].order if found else 0


def _is_part_of_model(value: Value) -> bool:
    """`model.backbone`, not `model.fc.weight`."""
    if not value.name.startswith(".") or value.name in (".weight", ".bias", ".data"):
        return False
    owner = value.of[0] if value.of else None
    return (
        owner is not None
        and owner.has(Kind.MODEL)
        and value.has(Kind.UNKNOWN)
        and (owner.name.startswith(("torchvision.", "timm.", "transformers.")))
    )


def _lists_layers(node: ast.expr) -> bool:
    """`[nn.Linear(…), …]`, `[nn.Linear(…) for …]`, `{"a": nn.Linear(…)}`."""
    parts: list[ast.expr] = []
    if isinstance(node, ast.List):
        parts = node.elts
    elif isinstance(node, ast.ListComp):
        parts = [node.elt]
    elif isinstance(node, ast.Dict):
        parts = [each for each in node.values if each is not None]
    made = [ast.unparse(each.func) for each in parts if isinstance(each, ast.Call)]
    layers = [name for name in made if name.startswith(("nn.", "torch.nn."))]
    return bool(layers) and not any(name.endswith(("Loss", "Parameter")) for name in layers)


def _is_registered_later(node: ast.ClassDef, attribute: str) -> bool:
    """`nn.ModuleList(self.layers)` or `nn.Sequential(*self.layers)`."""
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
        name = ast.unparse(call.func)
        given = " ".join(map(ast.unparse, call.args))
        if (
            name.endswith(("ModuleList", "ModuleDict", "Sequential"))
            and f"self.{attribute}" in given
        ):
            return True
    return False


RULES = (
    ScriptRule(
        "LossInputAlreadySoftmax",
        "Give the loss the raw scores; apply softmax or sigmoid only where probabilities are read.",
        activated_twice,
    ),
    ScriptRule(
        "WrapperBypassed",
        "Call the wrapped model: `model = DDP(model)`, then `model(x)`.",
        wrapper_bypassed,
    ),
    ScriptRule(
        "ParametersNotOptimized",
        "Change the model first, then make the optimizer.",
        replaced_after_optimizer,
    ),
    ScriptRule("LayersNotRegistered", "Use nn.ModuleList or nn.ModuleDict.", not_registered),
    ScriptRule(
        "FreezeWithoutEffect",
        "Call module.requires_grad_(False), or set requires_grad of each parameter.",
        freeze_without_effect,
    ),
    ScriptRule("LossKeepsGraph", "Add loss.item() or loss.detach().", loss_keeps_graph),
)
