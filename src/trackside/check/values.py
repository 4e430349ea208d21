"""What an expression of a script stands for, as far as reading shows it.

A value that is not understood is `UNKNOWN`. Rules say something only about values that are known.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    UNKNOWN = "unknown"
    LIBRARY = "library"
    """A name of an imported package: `torch.nn.Linear`."""
    FUNCTION = "function"
    CLASS = "class"
    """Of the script itself."""
    OBJECT = "object"
    """Of a class of the script that is no model."""
    MODEL = "model"
    """A module, of the script's or of torch's."""
    WRAPPED = "wrapped"
    """A model in DistributedDataParallel."""
    PARAMETERS = "parameters"
    OPTIMIZER = "optimizer"
    SCHEDULER = "scheduler"
    LOADER = "loader"
    SAMPLER = "sampler"
    DATASET = "dataset"
    LOSS = "loss"
    """A loss function."""
    SCALER = "scaler"
    TENSOR = "tensor"
    STATE = "state"
    """A state_dict."""
    TUPLE = "tuple"
    CONSTANT = "constant"


@dataclass(slots=True, eq=False)
class Value:
    """Compared by identity: two optimizers of one kind are two values."""

    kind: Kind = Kind.UNKNOWN
    name: str = ""
    """The full name of the library's class or function it comes from."""
    path: str = ""
    line: int = 0
    """Where it was made."""
    of: "tuple[Value, ...]" = ()
    """What it was made of: the model of parameters, the parameters of an optimizer, the tensors
    of a tensor."""
    arguments: "Mapping[str, Value]" = field(default_factory=dict)
    """Of the call that made it; positional ones as "0", "1", …"""
    items: "Sequence[Value]" = ()
    """Of a tuple or a list."""
    node: ast.AST | None = None
    """The definition of a function or a class; of other values, the expression that made it."""
    attributes: "dict[str, Value]" = field(default_factory=dict)
    """Of an object or a model."""
    constant: object = None
    loops: tuple[int, ...] = ()
    """The loops in which it was made."""

    def argument(self, name: str, position: int | None = None) -> "Value | None":
        found = self.arguments.get(name)
        return (
            self.arguments.get(str(position)) if found is None and position is not None else found
        )

    def named(self) -> "dict[str, Value]":
        """The arguments that the call gave by name."""
        return {key: each for key, each in self.arguments.items() if not key.isdigit()}

    def has(self, kind: Kind) -> bool:
        return self.kind is kind

    def origins(self) -> "list[Value]":
        """Itself and everything it was made of."""
        found: list[Value] = []
        waiting = [self]
        while waiting:
            value = waiting.pop()
            if not any(value is each for each in found):
                found.append(value)
                waiting.extend(value.of)
        return found


UNKNOWN = Value()

_KINDS = {
    "torch.utils.data.DataLoader": Kind.LOADER,
    "torch.utils.data.distributed.DistributedSampler": Kind.SAMPLER,
    "torch.utils.data.DistributedSampler": Kind.SAMPLER,
    "torch.utils.data.RandomSampler": Kind.SAMPLER,
    "torch.utils.data.WeightedRandomSampler": Kind.SAMPLER,
    "torch.utils.data.SubsetRandomSampler": Kind.SAMPLER,
    "torch.utils.data.SequentialSampler": Kind.SAMPLER,
    "torch.utils.data.TensorDataset": Kind.DATASET,
    "torch.nn.parallel.DistributedDataParallel": Kind.WRAPPED,
    "torch.cuda.amp.GradScaler": Kind.SCALER,
    "torch.amp.GradScaler": Kind.SCALER,
    "torch.GradScaler": Kind.SCALER,
}
_NOT_OPTIMIZERS = ("torch.optim.lr_scheduler.", "torch.optim.swa_utils.")
_OPTIMIZERS = (
    "torch.optim.",
    "transformers.AdamW",
    "transformers.Adafactor",
    "bitsandbytes.optim.",
)
_SCHEDULER_MAKERS = ("transformers.get_", "diffusers.optimization.get_")


def kind_of_class(name: str) -> Kind:
    """Of an object that a class or function of a library makes; `UNKNOWN` for all others."""
    if name in _KINDS:
        return _KINDS[name]
    last = name.rpartition(".")[2]
    if name.startswith("torch.nn.") and last[:1].isupper():
        return Kind.LOSS if last.endswith("Loss") else Kind.MODEL
    if name.startswith("torch.optim.lr_scheduler."):
        return Kind.SCHEDULER
    if name.startswith(_SCHEDULER_MAKERS) and last.endswith(("_schedule", "_warmup", "scheduler")):
        return Kind.SCHEDULER
    is_optimizer = name.startswith(_OPTIMIZERS) and not name.startswith(_NOT_OPTIMIZERS)
    if is_optimizer and last[:1].isupper():
        return Kind.OPTIMIZER
    return Kind.UNKNOWN
