"""Reads the anatomy of a training: what the hook recorded about its model, optimizers and habits.

Needs no torch. `anatomy_facts.py` collects the facts; docs/capture.md explains them.
"""

from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from trackside.capture.reading.trial_folder import TrialFolder
from trackside.capture.trial_layout import ANATOMY, anatomy_file
from trackside.files import damaged_files
from trackside.files.json_record import DamagedRecord, parsed_object, record
from trackside.quick_dataclass import dataclass
from trackside.settings import Settings
from trackside.storage.locate import Location, locate

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    name: str
    type: str
    training: bool = True
    """As of the last training step."""
    dropped: float | None = None
    """The share that a dropout drops."""
    dropped_since: int = 0
    """The sampled step at which that was first seen; 0 if it has never changed."""
    momentum: float | None = None
    """Of a batch norm that keeps statistics: the weight of each new batch in them."""
    statistics_moved: float | None = None
    """Of one whose weights are frozen: how far these are from where they were then, in deviations;
    the mean over its channels."""
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
    copied_from: str | None = None
    """An embedding whose values it had at first, in memory of its own."""
    optimizer: int | None = None
    """Index of the optimizer that holds it; None if none that has stepped does."""
    group: int | None = None
    ever_had_gradient: bool = False
    """One that was not all zeros, at a sampled update."""
    last_gradient_step: int | None = None
    first_gradient_step: int | None = None
    is_zero: bool = False
    """An optimizer holds it, it never had a gradient, and all its values are 0."""

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
    last_step: int = 0
    """The step of training of its last update."""


@dataclass(frozen=True, slots=True)
class SchedulerFacts:
    name: str
    num_steps: int = 0
    first_epoch: int | None = None
    """Its `last_epoch` when it was first seen to step: 0 or less if it begins anew."""
    num_idle: int = 0
    """Steps before which its optimizer made no update, and another one with the same parameters
    did, …"""
    idle_since: int = 0
    """… and the updates before the first of them."""


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
    weights: tuple[float, ...] = ()
    """Of its classes, where they are weighted; of a binary loss, of the negative and the positive
    one."""
    class_counts: tuple[int, ...] = ()
    """How often each class was a target, in sampled steps, where classes are weighted."""
    smoothing: float = 0.0
    """By how much it smooths labels."""
    is_objective: bool = False
    """`backward` was called on its very value: it is neither scaled nor added to another."""


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
class EvaluatedFacts:
    """A model that was called without gradients."""

    type: str
    num_evaluations: int = 0
    """With updates in between."""
    num_changes: int = 0
    """How often its weights were others than at the evaluation before."""
    is_trained: bool = False
    """An optimizer holds parameters of it."""
    is_copy: bool = False
    """None does, and its parameters have the shapes of a model that is trained."""
    has_statistics: bool = False
    """It has batch norms with running statistics, …"""
    num_statistics_changes: int = 0
    """… which were others than at the evaluation before so often."""
    followed: float | None = None
    """How far it has moved of how far the trained model has, since it was found; None where it was
    not among the script's values."""
    behind: float | None = None
    """Updates that it would take the trained model to move as far as both are apart, at most."""


@dataclass(frozen=True, slots=True)
class RhythmFacts:
    """Updates of the weights, by how many backwards came before each."""

    num_single: int = 0
    num_double: int = 0
    num_other: int = 0
    gaps: Mapping[str, int] | None = None
    """Single ones from one double to the next, as text, to how often that occurred."""


@dataclass(frozen=True, slots=True)
class PrecisionFacts:
    """Mixed precision in the sampled training steps."""

    num_asked: int = 0
    """Calls of the model and losses under autocast."""
    num_low: int = 0
    """Outputs of linear and convolutional layers in 16 bits, and …"""
    num_full: int = 0
    """… in more."""


@dataclass(frozen=True, slots=True)
class RemarkFacts:
    """What reading the script found, which rules confirm."""

    rule: str
    place: str = ""
    """`train.py:31`."""
    message: str = ""


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
    is_shuffled: bool = False
    """By a RandomSampler, or a DistributedSampler that is told so."""
    is_weighted_by_counts: bool = False
    """Its weights are as large as their kind is frequent: frequent samples get more frequent."""
    drops_last: bool = False
    """A last batch that is not full is left out."""
    num_workers: int = 0
    num_passes: int = 0
    num_used_up: int = 0
    """How often an iterator was asked for more after its end."""
    num_batches: int = 0
    num_trained: int = 0
    """Batches that a training step began with."""
    num_evaluated: int = 0
    """Batches that a step of evaluation began with."""
    wait_seconds: float = 0.0
    """Seconds that the script has waited for its batches."""
    longest_wait_seconds: float = 0.0
    """For one batch, but for the first of a pass."""
    median_wait_seconds: float | None = None
    """For one of the last few hundred."""
    num_same_starts: int = 0
    """Passes that began with the same batch as the one before."""
    num_altered_starts: int = 0
    """Passes that began with the same class labels as the one before, and with other inputs."""
    values_per_sample: int | None = None
    """Of the first tensor of its first batch; None if its first axis is not that of the samples."""
    num_rows: int | None = None
    """Length of that tensor."""


@dataclass(frozen=True, slots=True)
class SpanFacts:
    """A stretch of time in which the script evaluated, or wrote a checkpoint."""

    start: float
    end: float
    """Both in seconds since the epoch."""
    first_step: int = -1
    last_step: int = -1
    count: int = 1
    """More than one where neighbours were joined."""


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """One call that saved or loaded a file, or gave an object its state."""

    action: str
    """save or load."""
    what: str
    """file; or, for a load, the kind of object: model, optimizer, scheduler, scaler, random."""
    start: float = 0.0
    """In seconds since the epoch."""
    seconds: float = 0.0
    step: int = 0
    """The running one; -1 before the first."""
    path: str = ""
    """Relative to the working folder where it is below it; empty for an open file."""
    holds: tuple[str, ...] = ()
    """What a file holds: the kinds of objects above, and average, progress."""
    type: str = ""
    """Class of the object."""
    num_keys: int = 0
    """Of the state that a model was given; how many of them it has, and examples of the others."""
    num_matched: int = 0
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    num_missing: int = 0
    num_unexpected: int = 0
    num_learnt_missing: int = 0
    """Missing keys of parameters that gradients are computed for: those of adapters' frozen base
    are missing on purpose."""
    prefix: str = ""
    """By which keys differ from the missing ones: `module.`; with `-` in front if they lack it."""
    rates: tuple[float, ...] = ()
    """The learning rate of an optimizer's first group, before and after it was given its state."""
    is_own: bool = False
    """What the model was given is in its own memory."""
    is_trained: bool = False
    """The model is one that is watched."""
    is_idle: bool = False
    """The optimizer has made no step since, and others at least ten."""


@dataclass(frozen=True, slots=True)
class ContinuedFacts:
    """The training whose checkpoint was loaded before the first step, by what lay beside it."""

    path: str
    """Of the file that was loaded."""
    script: str = ""
    is_same_script: bool = False
    data: tuple[int, ...] = ()
    """Samples of each data set that it trained on."""
    first: Mapping[str, tuple[tuple[int, float], ...]] | None = None
    """Its first figures, each with its step, by the names of vitals; …"""
    last: Mapping[str, tuple[tuple[int, float], ...]] | None = None
    """… and the last ones when the newest checkpoint was written."""


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


@dataclass(frozen=True, slots=True)
class ObjectiveFacts:
    """What the graphs of the first losses say about what is minimised."""

    num_weights_trained: int = 0
    """Backwards in which log probabilities of actions were multiplied by something that gradients
    flow into as well."""
    target_trained: str = ""
    """A parameter that gradients reach only through the target of a divergence, and that moves."""
    raw_spread: str = ""
    """What noise was multiplied by in place of a deviation: `logarithm` or `variance`."""
    num_divergences_raised: int = 0
    """Backwards that make the divergence of a normal distribution larger, and …"""
    num_divergences_lowered: int = 0
    """… those that make it smaller."""
    is_likelihood: bool = False
    """It is arithmetic on log probabilities of single classes, without a loss of torch's."""
    has_free_precision: bool = False
    """Squares are multiplied by exp(-s), and the loss has s nowhere else."""
    softmax_over_samples: tuple[int, ...] = ()
    """The shape of scores whose log softmax is along the samples."""
    num_entropies_raised: int = 0
    """Backwards of a policy that raise its entropy, and …"""
    num_entropies_lowered: int = 0
    """… those that lower it."""
    num_repeated: int = 0
    """Backwards of a policy on the very advantages of the backward before, and …"""
    num_repeated_alike: int = 0
    """… those in which all ratios of probabilities were 1."""
    num_ends: int = 0
    """Targets of a loss at samples that end an episode, by the script's names, and …"""
    num_ends_changed: int = 0
    """… those that differ from an earlier one with the same reward."""


@dataclass(frozen=True, slots=True)
class OnlookerFacts:
    """A model that was called without being trained: a teacher, a target network."""

    name: str = ""
    """The script's name for it."""
    type: str = ""
    num_calls: int = 0
    num_evaluated: int = 0
    """Of those in evaluation mode."""
    num_checked: int = 0
    """The last call at which its weights were compared with earlier ones."""
    is_changed: bool = False
    """Whether they ever differed."""
    is_copy: bool = False
    """At its first call it was equal to a model that is trained, as that one was then or before
    its first update."""
    drops: bool = False
    """It has dropout, which was active."""
    is_trained: bool = False
    """Other calls of it were with gradients."""


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """A tensor that a function used."""

    name: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    device: str = ""
    least: float | None = None
    """Its range, where it was taken and is finite."""
    most: float | None = None


@dataclass(frozen=True, slots=True)
class CallFacts:
    """A line that an exception passed through."""

    path: str
    """Relative to the script's folder, for a file in it."""
    line: int
    function: str = ""
    source: str = ""
    layer: str = ""
    """The name of the layer whose method it is."""
    layer_kind: str = ""
    """`Linear(in_features=8, out_features=3, bias=True)`."""
    tensors: tuple[TensorFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class CrashFacts:
    """The exception that ended the training."""

    error: str
    message: str = ""
    calls: tuple[CallFacts, ...] = ()
    """The innermost last."""


@dataclass(frozen=True, slots=True)
class TextFacts:
    """What a causal language model was trained on in its first batches."""

    model: str = ""
    is_pad_end: bool = False
    """Padding is the token that ends a text."""
    is_pretrained: bool = False
    """Its norms are not those of a new model."""
    zero_adapters: tuple[str, ...] = ()
    """Low-rank pairs of which both factors began at zero."""
    num_batches: int = 0
    num_rows: int = 0
    num_tokens: int = 0
    """Without padding."""
    num_trained: int = 0
    """Tokens that are targets."""
    num_untrained_rows: int = 0
    num_shifted_0: int = 0
    """Targets that are the token at their own place, of those that can be; then the next token,
    and the one after it."""
    num_shifted_1: int = 0
    num_shifted_2: int = 0
    num_compared_0: int = 0
    num_compared_1: int = 0
    num_compared_2: int = 0
    num_ends_trained: int = 0
    """Rows whose end-of-text token is a target, is there but no target, or is missing."""
    num_ends_masked: int = 0
    num_ends_missing: int = 0
    num_cut: int = 0
    """Rows that fill the whole width and do not end."""
    cut_lengths: tuple[int, ...] = ()
    """Numbers of targets in them, as far as they differ."""
    num_doubled_starts: int = 0
    num_open_turns: int = 0
    """Rows that end with the beginning of an answer."""
    num_foreign: int = 0
    foreign_mark: str = ""
    """A mark of another model's template, which is no token here."""
    num_packed: int = 0
    """Rows of several texts."""
    num_separated: int = 0
    """Batches whose texts are told apart, by positions or by a mask."""
    num_padded_left: int = 0
    """Rows that begin with padding that attention reads."""
    num_shared_prompts: int = 0
    """Rows whose prompt is also that of another row of the same batch."""
    num_prompt_tokens: int = 0
    num_prompt_trained: int = 0
    num_blank_tokens: int = 0
    """Tokens with a frozen embedding that was never trained."""
    num_evaluated: int = 0
    num_evaluated_trained: int = 0
    """Rows of evaluation that are also rows of training."""
    widths: tuple[int, ...] = ()
    scales: tuple[float, ...] = ()
    """What backward was given, relative to the mean loss of a target."""
    shown: tuple[tuple[tuple[str, str], ...], ...] = ()
    """Rows of the first batch, as pieces of text and what they are: trained, given, special,
    special trained or padding."""


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
    holds_spectral_norm: bool = False
    parameters: tuple[ParameterFacts, ...] = ()
    optimizers: tuple[OptimizerFacts, ...] = ()
    evaluated: tuple[EvaluatedFacts, ...] = ()
    remarks: tuple[RemarkFacts, ...] = ()
    rhythm: RhythmFacts | None = None
    precision: PrecisionFacts | None = None
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
    first_step: int = 0
    """Of this process: more than 0 when a job was resumed."""
    evaluations: tuple[SpanFacts, ...] = ()
    saves: tuple[SpanFacts, ...] = ()
    checkpoints: tuple[CheckpointFacts, ...] = ()
    """What was saved and loaded, in order."""
    continued: ContinuedFacts | None = None
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
    num_clipped: int = 0
    """Calls of `clip_grad_norm_` after a backward, before the optimizer's step, and …"""
    num_clipped_late: int = 0
    """… those with no backward since the last step."""
    dropped_in_evaluation: Mapping[str, int] | None = None
    """Places in the script where dropout is called without a mode, to calls in evaluation."""
    num_scaled: int = 0
    """Losses that a GradScaler scaled."""
    is_ever_unscaled: bool = False
    """Whether its `step`, `unscale_` or `get_scale` was ever called."""
    policy: PolicyFacts | None = None
    num_evaluated_early: int = 0
    """Calls of the model in evaluation mode before its first training step."""
    objective: ObjectiveFacts | None = None
    onlookers: tuple[OnlookerFacts, ...] = ()
    text: TextFacts | None = None
    autocast: str | None = None
    """The type that autocast chose at a call of the model."""
    grad_scaler: str | None = None
    grad_scale: float | None = None
    crash: CrashFacts | None = None
    """None while it runs, and if no exception ended it."""

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
        self,
        location: str | Path | Location,
        worker: str | None = None,
        *,
        home: Path | None = None,
    ) -> None:
        if not isinstance(location, Location):
            location = locate(str(location), home=home or Settings.load().home)
        self._folder = TrialFolder(location)
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
        "evaluated": EvaluatedFacts,
        "remarks": RemarkFacts,
        "loaders": LoaderFacts,
        "evaluations": SpanFacts,
        "saves": SpanFacts,
        "checkpoints": CheckpointFacts,
        "strangers": OutsideModuleFacts,
        "onlookers": OnlookerFacts,
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
