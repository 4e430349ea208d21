"""What calls of libraries mean: which of them make an optimizer, compute a loss, clear gradients.

Names are full ones (`torch.nn.functional.cross_entropy`), whatever the script calls them.
"""

import ast
from typing import TYPE_CHECKING, Protocol

from trackside.check.trace import Action
from trackside.check.values import UNKNOWN, Kind, Value, kind_of_class

if TYPE_CHECKING:
    from collections.abc import Sequence

Arguments = dict[str, Value]

_SEEDS = {
    "torch.manual_seed",
    "torch.random.manual_seed",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "random.seed",
    "numpy.random.seed",
    "transformers.set_seed",
    "accelerate.utils.set_seed",
    "lightning.seed_everything",
    "pytorch_lightning.seed_everything",
}
_CLIPS = {
    "torch.nn.utils.clip_grad_norm_",
    "torch.nn.utils.clip_grad_value_",
    "torch.nn.utils.clip_grad.clip_grad_norm_",
}
_SAME_MODEL = {
    "torch.compile",
    "torch.nn.DataParallel",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
    "torch.jit.script",
}
_LAUNCHERS = {"torch.multiprocessing.spawn": 1, "torch.multiprocessing.start_processes": 1}
"""Functions that start another, and how many arguments they add in front of `args`."""
_LOSSES = ("loss", "cross_entropy", "kl_div", "binary_cross_entropy_with_logits")
_WITHOUT_GRAPH = {"item", "tolist", "numpy", "detach", "data"}
_TO_SETUP = {"prepare", "setup", "setup_dataloaders", "prepare_model", "prepare_data_loader"}
"""Methods of accelerate and of Lightning's Fabric that return what they are given."""
_STATES = {
    "state_dict": Action.SAVE,
    "load_state_dict": Action.LOAD_STATE,
    "copy_": Action.FILL,
}


class Recorder(Protocol):
    """What a reader offers."""

    def add(
        self, action: Action, value: Value, node: ast.AST, arguments: Arguments | None = None
    ) -> None: ...

    def made(self, kind: Kind, name: str, node: ast.AST, arguments: Arguments) -> Value: ...

    def start(self, function: Value, arguments: "Sequence[Value]" = ()) -> None: ...


class LibraryCalls:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def call(self, name: str, arguments: Arguments, node: ast.AST) -> Value:
        first = arguments.get("0", UNKNOWN)
        kind = kind_of_class(name)
        if kind is not Kind.UNKNOWN:
            return self._recorder.made(kind, name, node, arguments)
        if name in _SAME_MODEL and first.kind in (Kind.MODEL, Kind.WRAPPED):
            return first
        if name in _SEEDS:
            self._recorder.add(Action.SEED, Value(name=name), node, arguments)
        elif name in _CLIPS:
            self._recorder.add(Action.CLIP, first, node, arguments)
        elif name == "torch.save":
            self._recorder.add(Action.SAVE, first, node, arguments)
        elif name == "torch.load":
            self._recorder.add(Action.RELOAD, first, node, arguments)
        elif name.startswith("torch.nn.functional.") and name.endswith(_LOSSES):
            return self.loss(name, UNKNOWN, arguments, node)
        self._start(name, arguments)
        return self._result(name, first, arguments, node)

    def loss(self, name: str, function: Value, arguments: Arguments, node: ast.AST) -> Value:
        given = {**function.named(), **arguments, "function": Value(name=name)}
        self._recorder.add(Action.LOSS, function, node, given)
        return Value(Kind.TENSOR, name, of=tuple(arguments.values()), arguments=given)

    def method(self, receiver: Value, name: str, arguments: Arguments, node: ast.AST) -> Value:
        """Of something that the script does not define."""
        first = arguments.get("0", UNKNOWN)
        if name == "backward":
            self._recorder.add(Action.BACKWARD, first if arguments else receiver, node, arguments)
            return UNKNOWN
        if name in _TO_SETUP and arguments:
            given = [each for key, each in arguments.items() if key.isdigit()]
            return given[0] if len(given) == 1 else Value(Kind.TUPLE, items=given)
        if name in _STATES:
            return self._state(receiver, name, arguments, node)
        if name == "append" and receiver.has(Kind.TUPLE):
            receiver.of = (*receiver.of, first)
            return UNKNOWN
        match receiver.kind:
            case Kind.OPTIMIZER | Kind.SCHEDULER | Kind.SAMPLER | Kind.MODEL | Kind.WRAPPED:
                return self._of_training(receiver, name, arguments, node)
            case Kind.SCALER:
                return self._of_scaler(name, first, arguments, node)
            case Kind.TENSOR:
                return self._of_tensor(receiver, name, arguments, node)
        if name in ("zero_", "detach_", "fill_") and receiver.name == ".grad":
            self._recorder.add(Action.BY_HAND, receiver, node)
        if name in ("clip_grad_norm_", "clip_gradients"):
            self._recorder.add(Action.CLIP, first, node, arguments)
        return Value(name=f".{name}", of=(receiver, *arguments.values()))

    def _of_tensor(self, receiver: Value, name: str, arguments: Arguments, node: ast.AST) -> Value:
        if name in ("eq", "gt", "ge"):
            compared = Value(name=name, of=(receiver, arguments.get("0", UNKNOWN)), node=node)
            self._recorder.add(Action.COMPARE, compared, node)
        kind = Kind.UNKNOWN if name in _WITHOUT_GRAPH else Kind.TENSOR
        return Value(kind, f"torch.{name}", of=(receiver, *arguments.values()))

    def output_name(self, model: Value) -> str:
        """The last layer of a Sequential, or the layer itself."""
        if model.name.rpartition(".")[2] == "Sequential":
            layers = [each for key, each in model.arguments.items() if key.isdigit()]
            return self.output_name(layers[-1]) if layers else model.name
        return model.name

    def _of_training(
        self, receiver: Value, name: str, arguments: Arguments, node: ast.AST
    ) -> Value:
        actions = {
            (Kind.OPTIMIZER, "step"): Action.STEP,
            (Kind.OPTIMIZER, "zero_grad"): Action.ZERO_GRAD,
            (Kind.MODEL, "zero_grad"): Action.ZERO_GRAD,
            (Kind.WRAPPED, "zero_grad"): Action.ZERO_GRAD,
            (Kind.SCHEDULER, "step"): Action.SCHEDULE,
            (Kind.SAMPLER, "set_epoch"): Action.SET_EPOCH,
        }
        action = actions.get((receiver.kind, name))
        closure = arguments.get("0") or arguments.get("closure") or UNKNOWN
        if action is Action.STEP and closure.has(Kind.FUNCTION):
            self._recorder.start(closure)
        if action is not None:
            self._recorder.add(action, receiver, node, arguments)
        elif name == "requires_grad_":
            given = arguments.get("0") or arguments.get("requires_grad")
            if given is not None and given.constant is False:
                parameters = Value(Kind.PARAMETERS, of=(receiver,))
                self._recorder.add(Action.FREEZE, parameters, node)
            return receiver
        return Value(of=(receiver,))

    def _of_scaler(self, name: str, first: Value, arguments: Arguments, node: ast.AST) -> Value:
        if name == "scale":
            return Value(Kind.TENSOR, "scaled", of=(first,))
        if name == "step":
            self._recorder.add(Action.STEP, first, node, {**arguments, "scaler": first})
        elif name == "unscale_":
            self._recorder.add(Action.UNSCALE, first, node, arguments)
        elif name == "update":
            self._recorder.add(Action.SCALER_UPDATE, first, node, arguments)
        return UNKNOWN

    def _state(self, receiver: Value, name: str, arguments: Arguments, node: ast.AST) -> Value:
        if name == "state_dict":
            return Value(Kind.STATE, of=(receiver,), line=getattr(node, "lineno", 0))
        self._recorder.add(_STATES[name], receiver, node, _with_source(arguments, node))
        return receiver if name == "copy_" else UNKNOWN

    def _start(self, name: str, arguments: Arguments) -> None:
        """A function that is handed to a library is followed as if it were called."""
        first = arguments.get("0") or arguments.get("fn") or UNKNOWN
        if not first.has(Kind.FUNCTION) or name.startswith("builtins."):
            return
        given = arguments.get("args", arguments.get("1", UNKNOWN))
        added = [UNKNOWN] * _LAUNCHERS.get(name, 0)
        self._recorder.start(first, [*added, *given.items])

    def _result(self, name: str, first: Value, arguments: Arguments, node: ast.AST) -> Value:
        if name in ("copy.deepcopy", "copy.copy"):
            return Value(first.kind, first.name, of=(first,), constant=first.constant)
        if name == "peft.get_peft_model":
            return Value(Kind.MODEL, name, of=(first,))
        is_tensor = name.startswith("torch.") and name not in ("torch.load", "torch.no_grad")
        has_tensor = any(each.has(Kind.TENSOR) for each in arguments.values())
        kind = Kind.TENSOR if is_tensor and has_tensor else Kind.UNKNOWN
        of = tuple(arguments.values())
        return Value(kind, name, of=of, node=node, line=getattr(node, "lineno", 0))


def _with_source(arguments: Arguments, node: ast.AST) -> Arguments:
    """The expression of the first argument beside its value."""
    if isinstance(node, ast.Call) and node.args:
        return {**arguments, "source": Value(node=node.args[0])}
    return arguments


def is_same_model(one: Value, other: Value) -> bool:
    """Whether two values have the same parameters: a model, or its wrapper."""
    return (
        one is other
        or any(each is other for each in one.of)
        or any(each is one for each in other.of)
    )
