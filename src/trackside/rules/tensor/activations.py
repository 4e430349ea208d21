"""Rules about activation functions: units that are always off, or always at the edge."""

from collections.abc import Iterable, Iterator
from dataclasses import field

import numpy as np

from trackside.capture.dtypes import Array
from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.builtin import Need, TensorRule
from trackside.rules.onsets import Onsets
from trackside.rules.parameters import Pattern, parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.evidence import Evidence, Selection
from trackside.rules.saved.typed_tensors import Meant, meant_by

_FEWEST_SAMPLES = 10
"""With fewer in the whole trial, a healthy ReLU may never have been seen active."""


@dataclass(frozen=True, slots=True)
class Inactive:
    """The share of a layer's units that were hardly ever active, over some samples."""

    step: int
    percent: float
    num_units: int
    num_samples: int


class UnitActivity:
    """Counts how often each unit of one layer is active, over as many saved steps as are needed
    to distinguish a share of `threshold_percent` from zero.

    [samples, units] is plain. In an image [samples, channels, ...] a channel is a unit. With three
    axes it may be either of the last two ([samples, time, units] or [samples, channels, time]): the
    one with more inactive units counts.
    """

    def __init__(self, threshold_percent: float) -> None:
        self._threshold = threshold_percent / 100
        self._enough = 1 / self._threshold if threshold_percent else 1
        self._counts: dict[int, Array] = {}
        self._seen: dict[int, int] = {}
        self._samples = 0
        self._last_step = 0

    def add(self, steps: tuple[int, ...], active: Array) -> Iterator[Inactive]:
        """`active`: [steps, samples, ...]. A verdict whenever enough samples have come."""
        active = active.reshape(*active.shape[:2], -1) if active.ndim < 3 else active
        axes = (2, 3) if active.ndim == 4 else (2,)
        others = {axis: tuple(a for a in range(1, active.ndim) if a != axis) for axis in axes}
        counts = {axis: active.sum(axis=others[axis]) for axis in axes}
        for row, step in enumerate(steps):
            for axis in axes:
                known = self._counts.get(axis)
                if known is None or known.shape != counts[axis][row].shape:
                    self._counts[axis], self._seen[axis] = np.zeros_like(counts[axis][row]), 0
                self._counts[axis] = self._counts[axis] + counts[axis][row]
                self._seen[axis] += active[row].size // active.shape[axis]
            self._samples += active.shape[1]
            self._last_step = step
            if self._samples >= self._enough:
                yield self._verdict()

    def rest(self) -> Iterator[Inactive]:
        """What is left at the end of the trial, if it is enough to say anything."""
        if self._samples >= _FEWEST_SAMPLES:
            yield self._verdict()

    def _verdict(self) -> Inactive:
        percents = {
            axis: 100 * float(np.mean(counts / self._seen[axis] < self._threshold))
            for axis, counts in self._counts.items()
        }
        axis = max(percents, key=lambda each: percents[each])
        num_units = len(self._counts[axis])
        verdict = Inactive(self._last_step, percents[axis], num_units, self._samples)
        self._counts, self._seen, self._samples = {}, {}, 0
        return verdict


@dataclass
class DeadRelu(TensorRule):
    """Most ReLUs of a layer are never active, and so no longer learn.

    A ReLU that is active (output > 0) for less than `threshold_inactivity` percent of the samples
    is dead. Fires when more than `threshold_layer` percent of a layer's ReLUs are dead.
    """

    kind = Kind.SYMPTOM
    rests_on = ("activation/*/dead_share",)
    advice = (
        "Lower the learning rate, check the biases, initialise for ReLU (He), or use LeakyReLU or "
        "GELU, which have a gradient on both sides."
    )

    tensor_regex: Pattern = parameter(".*relu_output", "Names of the ReLUs' outputs.")
    threshold_inactivity: float = parameter(
        1.0, "Percent of samples below which a ReLU is dead.", at_least=0, at_most=100
    )
    threshold_layer: float = parameter(
        50.0, "Percent of a layer's ReLUs that may be dead.", at_least=0, at_most=100
    )
    _onsets: Onsets = field(default_factory=Onsets, init=False)
    _layers: dict[str, UnitActivity] = field(default_factory=dict, init=False)

    def needs(self) -> tuple[Need, ...]:
        return (Need("relu_output", self.tensor_regex),)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        meant = meant_by(evidence, self.tensor_regex, "relu_output")
        for name in meant.names:
            layer = self._layers.setdefault(name, UnitActivity(self.threshold_inactivity))
            for found in _verdicts(evidence, name, layer, 0.0, np.inf):
                if self._onsets.begins(name, found.percent > self.threshold_layer):
                    yield self.found(
                        evidence,
                        found.step,
                        f"{found.percent:.3g} % of {found.num_units} ReLUs were active for less "
                        f"than {self.threshold_inactivity:g} % of {found.num_samples} samples, "
                        f"more than {self.threshold_layer:g} %.{meant.note}",
                        tensor=name,
                        value=found.percent,
                        threshold=self.threshold_layer,
                    )


@dataclass
class SaturatedActivation(TensorRule):
    """Most units of a tanh or sigmoid layer are in its flat part and get no gradient.

    A unit whose input is strictly between the limits of its function for less than
    `threshold_inactivity` percent of the samples is saturated. Fires when more than
    `threshold_layer` percent of a layer's units are saturated.
    """

    kind = Kind.SYMPTOM
    rests_on = ("activation/*/saturated_share",)
    advice = (
        "Initialise with smaller weights (Xavier), normalise inputs or put a normalisation layer "
        "before the activation, lower the learning rate, or use ReLU-like activations."
    )

    collection_names: tuple[str, ...] = parameter((), "Further collections of inputs to judge.")
    tensor_regex: tuple[Pattern, ...] = parameter(
        (".*tanh_input|.*sigmoid_input",), "Names of the activations' inputs."
    )
    threshold_tanh_min: float = parameter(-9.4999, "Inputs of tanh up to here are saturated.")
    threshold_tanh_max: float = parameter(9.4999, "Inputs of tanh from here on are saturated.")
    threshold_sigmoid_min: float = parameter(-23.0, "Inputs of sigmoid up to here are saturated.")
    threshold_sigmoid_max: float = parameter(
        16.99999, "Inputs of sigmoid from here on are saturated."
    )
    threshold_inactivity: float = parameter(
        1.0, "Percent of samples below which a unit is saturated.", at_least=0, at_most=100
    )
    threshold_layer: float = parameter(
        50.0, "Percent of a layer's units that may be saturated.", at_least=0, at_most=100
    )
    _onsets: Onsets = field(default_factory=Onsets, init=False)
    _layers: dict[str, UnitActivity] = field(default_factory=dict, init=False)

    def needs(self) -> tuple[Need, ...]:
        asked = tuple(Need(name) for name in self.collection_names)
        if not self._is_default:
            return (*asked, Need("SaturatedActivation_tensors", "|".join(self.tensor_regex)))
        # A model has either, rarely both; `missing` asks for one of them.
        kinds = ("tanh_input", "sigmoid_input")
        return (*asked, *(Need(kind, f".*{kind}", is_optional=True) for kind in kinds))

    def missing(self, evidence: Evidence) -> str:
        if self._is_default and not self.collection_names and not self._meant(evidence).names:
            return evidence.missing(Selection(patterns=self.tensor_regex))
        return super().missing(evidence)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        meant = self._meant(evidence)
        sigmoids = set(evidence.names(Selection(("sigmoid_input",))))
        for name in meant.names:
            is_sigmoid = name in sigmoids or "sigmoid" in name
            layer = self._layers.setdefault(name, UnitActivity(self.threshold_inactivity))
            for found in _verdicts(evidence, name, layer, *self._limits(is_sigmoid)):
                if self._onsets.begins(name, found.percent > self.threshold_layer):
                    kind = "sigmoid" if is_sigmoid else "tanh"
                    yield self.found(
                        evidence,
                        found.step,
                        f"{found.percent:.3g} % of {found.num_units} {kind} units were outside of "
                        f"saturation for less than {self.threshold_inactivity:g} % of "
                        f"{found.num_samples} samples, more than {self.threshold_layer:g} %."
                        f"{meant.note}",
                        tensor=name,
                        value=found.percent,
                        threshold=self.threshold_layer,
                    )

    @property
    def _is_default(self) -> bool:
        return self.tensor_regex == SaturatedActivation.tensor_regex

    def _meant(self, evidence: Evidence) -> Meant:
        named = evidence.names(Selection(self.collection_names, self.tensor_regex))
        if named or not self._is_default:
            return Meant(named)
        tanh = meant_by(evidence, ".*tanh_input", "tanh_input")
        sigmoid = meant_by(evidence, ".*sigmoid_input", "sigmoid_input")
        return Meant((*tanh.names, *sigmoid.names), tanh.note or sigmoid.note)

    def _limits(self, is_sigmoid: bool) -> tuple[float, float]:
        if is_sigmoid:
            return self.threshold_sigmoid_min, self.threshold_sigmoid_max
        return self.threshold_tanh_min, self.threshold_tanh_max


def _verdicts(
    evidence: Evidence, name: str, layer: UnitActivity, above: float, below: float
) -> Iterator[Inactive]:
    """A unit is active where its value lies between the two. NaN, another rule's subject, is no
    sign of death."""
    for stretch in evidence.stretches(name, in_training=True):
        if stretch.values.ndim > 1 and stretch.values.size:
            active = ~((stretch.values <= above) | (stretch.values >= below))
            yield from layer.add(stretch.steps, active)
    if evidence.is_all:
        yield from layer.rest()
