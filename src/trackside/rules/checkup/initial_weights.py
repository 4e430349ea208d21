"""Rules about the weights that training begins with."""

import math
from collections.abc import Iterable, Iterator
from statistics import median

import numpy as np

from trackside.capture.reading.anatomy import ParameterFacts
from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.vitals_rule import FEW_BATCHES, SHORT_RUN, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import Series, VitalSigns

_LAYERS = ("Linear", "Conv1d", "Conv2d", "Conv3d")

_AT_START = 5
"""Steps in which an output still shows the initial weights."""
_TINY_GAIN = 0.1
"""Weights ten times narrower than the limit delay training even where it succeeds in the end."""
_LINGERING_STEPS = 20
"""Steps in which the loss of a model with ordinary weights has started to fall."""
_UPDATES = 20
"""Updates after which weights that are still equal stay equal."""
_NAMES_SHOWN = 3
"""A message of one line has room for these."""
_PAIR = 2
"""Factors of one product."""


@dataclass
class WeightsTooLarge(VitalsRule):
    """Initial weights are so large that a layer makes its input many times larger.

    Fires when two conditions hold:

    - At the start, the standard deviation of a layer's output is above `times` that of the model's
      input (at least 1), where the input itself has an ordinary size; or the first loss is `wrong`
      times that of chance, which an untrained model reaches only with very confident outputs.
    - The standard deviation of weights is `gain` times 1 / sqrt(fan-in), which would preserve the
      size of values.
    """

    kind = Kind.CAUSE
    rests_on = ("activation/*/std", "activations:std")
    advice = (
        "Initialise by fan-in (PyTorch's own default, kaiming_normal_ or xavier_uniform_) instead "
        "of a fixed deviation."
    )

    times: float = parameter(12.0, "Deviation of the output, relative to the input.", at_least=1)
    gain: float = parameter(3.0, "Deviation of weights, relative to 1 / sqrt(fan-in).", at_least=1)
    wrong: float = parameter(5.0, "First loss, relative to that of chance.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        mean = vitals.vital("input/mean").first(FEW_BATCHES).median
        std = vitals.vital("input/std").first(FEW_BATCHES).median
        size = math.hypot(mean, std) if math.isfinite(mean) else 1.0
        gain = max(_gains(vitals), default=math.inf)
        if size > self.times or not gain > self.gain:
            return
        found = next(self._spreads(vitals, size, gain), None) or next(self._sure(vitals), None)
        if found is not None:
            yield found

    def _spreads(self, vitals: VitalSigns, size: float, gain: float) -> Iterator[Sign]:
        spreads = vitals.series_by_name("activation/", "/std")
        for module in vitals.anatomy.modules:
            series = spreads.get(module.name)
            if module.type not in _LAYERS or series is None or not len(series):
                continue
            value = float(series.values[0]) / max(size, 1.0)
            if series.steps[0] <= _AT_START and value > self.times:
                yield Sign(
                    int(series.steps[0]),
                    f"At the start the output of {module.name} has a standard deviation of "
                    f"{series.values[0]:.3g} for inputs of about {size:.2g}: weights are up to "
                    f"{gain:.2g} times wider than 1 / sqrt(fan-in).",
                    tensor=module.name,
                    value=value,
                    threshold=self.times,
                )

    def _sure(self, vitals: VitalSigns) -> Iterator[Sign]:
        widest = max(_gains_by_name(vitals).items(), key=lambda each: each[1], default=("", 0.0))
        if vitals.chance is None or not len(vitals.loss) or vitals.loss.steps[0] > 1:
            return
        if widest[1] > self.gain and vitals.first_loss > self.wrong * vitals.chance:
            yield Sign(
                int(vitals.loss.steps[0]),
                f"The first loss is {vitals.first_loss:.3g}, where a model that knows nothing has "
                f"{vitals.chance:.3g}: the weights of {widest[0]} are {widest[1]:.2g} times wider "
                "than 1 / sqrt(fan-in).",
                tensor=widest[0],
                value=vitals.first_loss / vitals.chance,
                threshold=self.wrong,
            )


@dataclass
class WeightsTooSmall(VitalsRule):
    """Weights start so small that hardly any signal passes through the layers, in either direction.

    Fires when the deviation of half of the weight matrices is more than `times` smaller than 1 /
    sqrt(fan-in), which would preserve the size of values, and nothing is learnt. With three
    matrices or more, also fires when it is another ten times smaller and the loss does not change
    for 20 steps.
    """

    kind = Kind.CAUSE
    rests_on = ("gradient_norm", "weights:l2")
    advice = (
        "Initialise by fan-in (PyTorch's own default, kaiming_normal_ or xavier_uniform_) instead "
        "of a fixed small deviation."
    )

    times: float = parameter(
        10.0, "Factor by which weights are smaller than 1 / sqrt(fan-in).", at_least=1
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        gains = _gains(vitals)
        if len(gains) < 2:
            return
        gain = median(gains)
        is_tiny = len(gains) > 2 and gain < _TINY_GAIN / self.times
        is_late = is_tiny and vitals.lingers(_LINGERING_STEPS) and vitals.last_step >= SHORT_RUN
        if 0 < gain < 1 / self.times and (vitals.is_stuck or is_late):
            first = next(p.name for p in vitals.anatomy.parameters if is_matrix(p.shape))
            stays = (
                f"stays at {vitals.late_loss:.4g}" if vitals.is_stuck else "did not move at first"
            )
            yield Sign(
                0,
                f"Weights start {1 / gain:.3g} times narrower than 1 / sqrt(fan-in), in the middle "
                f"of {len(gains)} matrices, and the loss {stays}.",
                tensor=first,
                value=1 / gain,
                threshold=self.times,
            )


@dataclass
class SymmetricWeights(VitalsRule):
    """All weights of a layer start equal, so that its units remain copies of each other.

    Fires when a weight matrix has one value throughout at the first saved step and that value is
    not 0; when all matrices are 0; or when one is still 0 throughout after 20 updates. Also fires
    when several matrices that an optimizer holds, as the factors of adapters that were added later,
    are 0 and have gradients that are exactly 0 in all of 20 updates or more.
    """

    kind = Kind.MISTAKE
    rests_on = ("weights:l2",)
    explains = ("FrozenByMistake",)
    advice = (
        "Initialise weights at random. Zeros are for biases, or at most for the last layer, and "
        "for one factor of an adapter: the other one begins at random."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if vitals.num_updates < FEW_BATCHES:
            return
        found = list(self._of_first(vitals))
        yield from found or self._of_factors(vitals)

    def _of_factors(self, vitals: VitalSigns) -> Iterator[Sign]:
        never = [p for p in vitals.anatomy.parameters if p.is_zero and not p.ever_had_gradient]
        zero = [p for p in never if p.is_trained and is_matrix(p.shape)]
        held = {p.optimizer for p in zero}
        steps = [each.num_steps for each in vitals.anatomy.optimizers if each.index in held]
        missing = vitals.vital("gradient_missing").last(FEW_BATCHES)
        # Two that are multiplied; and they do have gradients.
        if len(zero) < _PAIR or min(steps, default=0) < _UPDATES or missing.values.any():
            return
        names = ", ".join(each.name for each in zero[:_NAMES_SHOWN])
        yield Sign(
            0,
            f"All weights of {names} are 0 after {min(steps)} updates, and so are their gradients: "
            "of two factors that both begin at 0, neither can move.",
            tensor=zero[0].name,
            value=0.0,
        )

    def _of_first(self, vitals: VitalSigns) -> Iterator[Sign]:
        flat = []
        weights = [p for p in vitals.anatomy.parameters if len(p.shape) > 1]
        for each in weights:
            low, high = vitals.figure(each.name, "min"), vitals.figure(each.name, "max")
            if len(low) and low.steps[0] <= 1 and low.values[0] == high.values[0]:
                still = (
                    vitals.num_updates >= _UPDATES
                    and np.ptp(low.values) == np.ptp(high.values) == 0
                )
                flat.append((each, float(low.values[0]), still))
        all_zero = 1 < len(flat) == len(weights)
        wrong = [
            (each, value)
            for each, value, still in flat
            if is_matrix(each.shape)
            and each.requires_grad
            and (value != 0 or all_zero or (still and each.is_trained))
        ]
        if wrong and vitals.num_updates >= _UPDATES:
            names = ", ".join(each.name for each, _ in wrong[:_NAMES_SHOWN])
            yield Sign(
                0,
                f"All weights of {names} start at {wrong[0][1]:g}: the units of a layer compute "
                "the same and get the same gradients.",
                tensor=wrong[0][0].name,
                value=wrong[0][1],
            )


def is_matrix(shape: tuple[int, ...]) -> bool:
    return len(shape) > 1 and shape[0] > 1 and math.prod(shape[1:]) > 1


def _gains(vitals: VitalSigns) -> list[float]:
    return [
        _gain(p, first)
        for p in vitals.anatomy.parameters
        if is_matrix(p.shape) and len(first := vitals.figure(p.name, "l2"))
    ]


def _gains_by_name(vitals: VitalSigns) -> dict[str, float]:
    """Without embeddings, which have no fan-in."""
    return {
        p.name: _gain(p, first)
        for p in vitals.anatomy.parameters
        if len(p.shape) > 1
        and p.name not in vitals.anatomy.tables
        and len(first := vitals.figure(p.name, "l2"))
    }


def _gain(parameter: ParameterFacts, length: Series) -> float:
    """Of its first weights: root mean square times the square root of the fan-in."""
    size, fan_in = math.prod(parameter.shape), math.prod(parameter.shape[1:])
    return float(length.values[0]) / math.sqrt(size) * math.sqrt(fan_in)
