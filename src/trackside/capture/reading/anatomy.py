"""Reads the anatomy of a training: what the hook recorded about its model, optimizers and habits.

Needs no torch. `anatomy_facts.py` collects the facts; docs/capture.md explains them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from trackside.capture.reading.trial_folder import TrialFolder
from trackside.capture.trial_layout import ANATOMY, anatomy_file
from trackside.files import damaged_files
from trackside.files.json_record import DamagedRecord, parsed_object, record
from trackside.settings import Settings
from trackside.storage.locate import locate

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    name: str
    type: str
    training: bool = True
    """As of the last training step."""
    dropped: float | None = None
    """The share that a dropout drops."""
    padding: int | None = None
    """The padding token of an embedding that has one."""
    given: tuple[int, ...] = ()
    """Shape of the first input of a layer that processes sequences."""
    batch_first: bool | None = None
    """For such a layer: whether its first axis is the batch, or else time."""
    looks_ahead: bool = False
    """For such a layer: bidirectional, or full attention without a mask."""
    carries_state: bool = False
    """For a recurrent one: it starts with the final state of the previous call."""


@dataclass(frozen=True, slots=True)
class ParameterFacts:
    name: str
    shape: tuple[int, ...] = ()
    numel: int = 0
    dtype: str = ""
    requires_grad: bool = True
    tied_to: str | None = None
    """The first name of the same parameter."""
    optimizer: int | None = None
    """Index of the optimizer that holds it; None if none that has stepped does."""
    group: int | None = None
    ever_had_gradient: bool = False
    """One that was not all zeros, at a sampled update."""
    last_gradient_step: int | None = None

    @property
    def is_trained(self) -> bool:
        return self.requires_grad and self.optimizer is not None


@dataclass(frozen=True, slots=True)
class OptimizerFacts:
    index: int
    type: str
    num_steps: int = 0
    groups: tuple[Mapping[str, Any], ...] = ()
    """Settings of each group (`lr`, `betas`, …) and its `num_parameters`."""
    backwards_per_step: Mapping[str, int] | None = None
    """Number of backwards between two steps, as text, to how often that occurred."""
    num_discarded: int = 0
    """Backwards, of those, whose gradients were cleared before any step used them."""


@dataclass(frozen=True, slots=True)
class SchedulerFacts:
    name: str
    num_steps: int = 0


@dataclass(frozen=True, slots=True)
class LossFacts:
    name: str
    """Class of the loss module, or the function's name."""
    function: str = ""
    """Of `torch.nn.functional`."""
    is_module: bool = False
    reduction: str = "mean"
    shapes: tuple[tuple[int, ...], ...] = ()
    """Of the prediction and of the target."""
    dtypes: tuple[str, ...] = ()
    broadcasts: bool = False
    """The two shapes differ where they should be equal."""
    num_classes: int | None = None
    label_min: int | None = None
    label_max: int | None = None
    ignored: int | None = None
    """The class that is ignored."""
    is_target_trained: bool = False
    """The target is also computed by a model, and gradients flow back through it."""
    is_target_input: bool = False
    """The target is the model's input, as for an autoencoder."""
    flattened: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    """Shapes from which rows of scores and the row of targets were made; None if unknown."""
    bend: float = 1.0
    """For a smooth loss: the error at which it changes from squared to absolute."""


@dataclass(frozen=True, slots=True)
class OutputFacts:
    """What comes right before a loss: an activation, or a layer without one."""

    loss: str
    """Of `torch.nn.functional`."""
    activation: str
    """softmax, sigmoid, tanh or relu; linear for a layer's own outputs."""
    axis: int | None = None
    """The axis of a softmax, and its length."""
    size: int | None = None


@dataclass(frozen=True, slots=True)
class PairFacts:
    """Two linear layers, called one right after the other."""

    first: str
    second: str
    """Names of their weights."""
    widths: tuple[int, int, int]
    """Sizes of input, middle and output."""


@dataclass(frozen=True, slots=True)
class AttentionFacts:
    """A softmax of scores of queries and keys along another axis than the keys."""

    axis: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReshapeFacts:
    """A view whose sizes look like those of swapped axes."""

    given: tuple[int, ...]
    made: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ForwardCount:
    training: bool
    """`model.training` at the call."""
    grad: bool
    """Whether gradients were enabled."""
    count: int


@dataclass(frozen=True, slots=True)
class BackwardCount:
    training: bool
    """`model.training` at the last forward before it."""
    count: int


@dataclass(frozen=True, slots=True)
class LoaderFacts:
    """One data set that batches were taken from; or, for an unchanged script, that a loader was
    created for: then there are no batches.
    """

    num_samples: int | None = None
    """None when it is a stream."""
    batch_size: int | None = None
    sampler: str = ""
    """Class: "SequentialSampler" reads the data in order."""
    num_passes: int = 0
    num_batches: int = 0
    num_trained: int = 0
    """Batches that a training step began with."""
    num_evaluated: int = 0
    """Batches that a step of evaluation began with."""
    wait_seconds: float = 0.0
    """Seconds that the script has waited for its batches."""
    median_wait_seconds: float | None = None
    """For one of the last few hundred."""
    values_per_sample: int | None = None
    """Of the first tensor of its first batch; None if its first axis is not that of the samples."""


@dataclass(frozen=True, slots=True)
class OutsideModuleFacts:
    """A module that runs inside a model but is not registered in it, with its own parameters."""

    type: str
    numel: int = 0
    has_gradient: bool = False
    is_optimized: bool = False


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """Gradients of log probabilities, next to what the script weighs them by."""

    weight: str = ""
    """The script's name for that: a reward, a return, an advantage."""
    num_encouraged: int = 0
    """Backwards that make actions likelier the more they weigh, and …"""
    num_discouraged: int = 0
    """… those that make them less likely."""


@dataclass(frozen=True)  # without slots: it has a cached property
class Anatomy:
    worker: str = ""
    world_size: int = 1
    device: str | None = None
    versions: Mapping[str, str] | None = None
    models: tuple[str, ...] = ()
    modules: tuple[ModuleFacts, ...] = ()
    holds_dropout: bool = False
    holds_batch_norm: bool = False
    parameters: tuple[ParameterFacts, ...] = ()
    optimizers: tuple[OptimizerFacts, ...] = ()
    num_remade: int = 0
    """Optimizers that were made for the parameters of the one before."""
    schedulers: tuple[SchedulerFacts, ...] = ()
    losses: tuple[LossFacts, ...] = ()
    outputs: tuple[OutputFacts, ...] = ()
    """This and the next six are from the first backwards, by the loss's graph."""
    pairs: tuple[PairFacts, ...] = ()
    attention: tuple[AttentionFacts, ...] = ()
    reshaped: tuple[ReshapeFacts, ...] = ()
    broadcast: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    """Shapes of a prediction before and after broadcasting, if its target enlarged it."""
    asks_for_others: bool = False
    """Whether gradients flow to tensors that are not parameters of a model, such as an input."""
    is_likeness_scaled: bool = False
    """Whether a loss is over products of two outputs, times or over a number that is not learnt."""
    loaders: tuple[LoaderFacts, ...] = ()
    strangers: tuple[OutsideModuleFacts, ...] = ()
    forwards: tuple[ForwardCount, ...] = ()
    backwards: tuple[BackwardCount, ...] = ()
    forwards_per_backward: Mapping[str, int] | None = None
    """Number of forwards, in training mode and with gradients, before a backward, as text, to how
    often that occurred.
    """
    forwards_since_backward: int = 0
    """Such forwards after the last backward."""
    num_cut_samples: int = 0
    """Samples from distributions through which gradients should have flowed, and did not."""
    num_scored_samples: int = 0
    """How often `log_prob` of such a distribution was called."""
    policy: PolicyFacts | None = None
    autocast: str | None = None
    """The type that autocast chose at a call of the model."""
    grad_scaler: str | None = None
    grad_scale: float | None = None

    @cached_property
    def tables(self) -> frozenset[str]:
        """Parameters used as lookup tables, of which a batch uses only some rows."""
        tables = [module.name for module in self.modules if module.type.startswith("Embedding")]
        return frozenset(f"{model}_{name}.weight" for model in self.models for name in tables)

    @property
    def num_optimizer_steps(self) -> int:
        return sum(each.num_steps for each in self.optimizers)

    @property
    def num_backwards(self) -> int:
        return sum(each.count for each in self.backwards)

    def num_forwards(self, *, training: bool, grad: bool) -> int:
        return sum(f.count for f in self.forwards if (f.training, f.grad) == (training, grad))


class AnatomyFile:
    """For repeated reads of one trial: parsed only when it has changed.

    The worker is the first one that has written, unless one is named.
    """

    def __init__(
        self, location: str | Path, worker: str | None = None, *, home: Path | None = None
    ) -> None:
        self._folder = TrialFolder(locate(str(location), home=home or Settings.load().home))
        self._wanted = None if worker is None else anatomy_file(worker)
        self._content = b""
        self._anatomy: Anatomy | None = None

    def read(self) -> Anatomy | None:
        """As last written; None before it exists, and when nothing in it can be read."""
        for file in self._folder.list(ANATOMY):
            if self._wanted is None or file.name == self._wanted:
                content = self._folder.read(file.name)
                if content != self._content:
                    self._anatomy = self._parsed(file.name, content)
                    self._content = content
                return self._anatomy
        return None

    def _parsed(self, name: str, content: bytes) -> Anatomy | None:
        try:
            anatomy, num_damaged = parse_anatomy(parsed_object(content))
        except DamagedRecord as error:
            damaged_files.say_once(name, f"{error}; it is left out")
            return None
        if num_damaged:
            count = damaged_files.counted(num_damaged, "fact")
            damaged_files.say_once(name, f"{count} left out")
        return anatomy


def read_anatomy(
    location: str | Path, worker: str | None = None, *, home: Path | None = None
) -> Anatomy | None:
    """Of the trial in this folder or object store, once. See `AnatomyFile`."""
    return AnatomyFile(location, worker, home=home).read()


def parse_anatomy(content: Mapping[str, Any]) -> tuple[Anatomy, int]:
    """Returns also how many facts were damaged and left out. Unknown keys are left out too."""
    parts: dict[str, Any] = {
        "modules": ModuleFacts,
        "parameters": ParameterFacts,
        "optimizers": OptimizerFacts,
        "schedulers": SchedulerFacts,
        "losses": LossFacts,
        "outputs": OutputFacts,
        "pairs": PairFacts,
        "attention": AttentionFacts,
        "reshaped": ReshapeFacts,
        "loaders": LoaderFacts,
        "strangers": OutsideModuleFacts,
        "forwards": ForwardCount,
        "backwards": BackwardCount,
    }
    values: dict[str, Any] = {}
    num_damaged = 0
    for name, kind in parts.items():
        listed = content.get(name, ())
        found = (
            [_fact(kind, each) for each in listed] if isinstance(listed, list | tuple) else [None]
        )
        values[name] = tuple(each for each in found if each is not None)
        num_damaged += found.count(None)
    for field in fields(Anatomy):
        if field.name in content and field.name not in parts:
            single = _fact(Anatomy, {field.name: content[field.name]})
            if single is None:
                num_damaged += 1
            else:
                values[field.name] = getattr(single, field.name)
    return Anatomy(**values), num_damaged


def _fact(kind: type[T], content: Any) -> T | None:
    try:
        return record(kind, content)
    except DamagedRecord:
        return None
