"""What a script does with its models, optimizers and data, in order: the calls that matter, each
with the loops, conditions and contexts around it. Made by `reader`, judged by the rules.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from trackside.check.values import UNKNOWN, Kind, Value


class Action(StrEnum):
    MAKE = "make"
    """An optimizer, a loader, …: `value` is what was made."""
    FORWARD = "forward"
    LOSS = "loss"
    BACKWARD = "backward"
    ZERO_GRAD = "zero_grad"
    """Of an optimizer or a model."""
    STEP = "step"
    """Of an optimizer, also through a scaler."""
    SCHEDULE = "schedule"
    SCALER_UPDATE = "scaler_update"
    UNSCALE = "unscale"
    CLIP = "clip"
    TRAIN = "train"
    EVAL = "eval"
    SEED = "seed"
    SET_EPOCH = "set_epoch"
    LOAD_STATE = "load_state"
    SAVE = "save"
    REPLACE = "replace"
    """A part of a model by another."""
    FREEZE = "freeze"
    """`requires_grad = False`, on whatever `value` is."""
    ACCUMULATE = "accumulate"
    """`total += loss`, of tensors."""
    RELOAD = "reload"
    """`torch.load`."""
    BY_HAND = "by_hand"
    """Gradients are set or cleared by hand: `p.grad = None`, `p.grad.zero_()`."""
    COMPARE = "compare"
    """`a > b`, `a == b`, `a.eq(b)`; `value` has the expression and its sides."""
    DIVIDE = "divide"
    """`a / b`, the same."""
    FILL = "fill"
    """`p.copy_(a)` or `p.data = a`; `source` is the expression."""
    ALIAS = "alias"
    """A model gets a further name: `target = model`."""
    MISSPELT = "misspelt"
    """An assignment to `require_grad` or the like, which has no effect."""


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    number: int
    path: str
    line: int
    iterates: Value

    @property
    def loader(self) -> Value | None:
        """The DataLoader that it iterates, directly or through enumerate, tqdm and the like."""
        return next((each for each in self.iterates.origins() if each.has(Kind.LOADER)), None)


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """One side of an `if`."""

    number: int
    side: bool
    test: ast.expr

    @property
    def is_modulo(self) -> bool:
        """`if (step + 1) % 4 == 0`: every few iterations."""
        return any(isinstance(node, ast.Mod) for node in ast.walk(self.test))


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    action: Action
    value: Value
    path: str
    line: int
    order: int
    loops: tuple[Loop, ...] = ()
    branches: tuple[Branch, ...] = ()
    contexts: tuple[str, ...] = ()
    """Full names of the context managers around it: `torch.no_grad`."""
    arguments: Mapping[str, Value] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        return len(self.loops)

    @property
    def loop(self) -> Loop | None:
        return self.loops[-1] if self.loops else None

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"

    def is_in(self, loop: Loop) -> bool:
        return any(each is loop for each in self.loops)

    def argument(self, name: str, position: int) -> Value:
        return self.arguments.get(name) or self.arguments.get(str(position)) or UNKNOWN

    def excludes(self, other: "Event") -> bool:
        """Whether the two are on different sides of one `if`."""
        return any(
            mine.number == its.number and mine.side is not its.side
            for mine in self.branches
            for its in other.branches
        )


@dataclass(slots=True)
class Trace:
    events: list[Event] = field(default_factory=list)
    classes: list[tuple[str, ast.ClassDef]] = field(default_factory=list)
    """Every model class of the script, with its file."""
    trees: list[tuple[str, ast.Module]] = field(default_factory=list)
    """Every file of the script that was read."""
    comments: str = ""
    """Of all these files."""
    is_cut: bool = False
    """The script has more calls than are followed."""

    def all(self, *actions: Action) -> list[Event]:
        return [each for each in self.events if each.action in actions]

    def of(self, value: Value, *actions: Action) -> list[Event]:
        return [each for each in self.all(*actions) if each.value is value]

    def made(self, kind: Kind) -> list[Value]:
        return [each.value for each in self.all(Action.MAKE) if each.value.has(kind)]

    def training_loops(self) -> list[Loop]:
        """The innermost loop around each backward, once each."""
        found: list[Loop] = []
        for event in self.all(Action.BACKWARD):
            if event.loop is not None and not any(event.loop is each for each in found):
                found.append(event.loop)
        return found
