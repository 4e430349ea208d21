"""Rules about the weights that training begins with."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median

import numpy as np

from trackside.capture.reading.anatomy import ParameterFacts
from trackside.rules.checkup.signs_rule import Sign, SignsRule
from trackside.rules.parameters import parameter
from trackside.rules.saved.vital_signs import Series, Signs

_LAYERS = ("Linear", "Conv1d", "Conv2d", "Conv3d")


@dataclass
class WeightsTooLarge(SignsRule):
    """Weights start so large that a layer makes its input many times larger.

    Fires when at the start the standard deviation of a layer's output is above `times` that of
    the model's input (1 at least), where the input itself is of ordinary size, or the first loss is
    `wrong` times that of chance, which takes a model that is sure of what it does not know; and
    weights are drawn `gain` times wider than 1 / sqrt(fan-in), which keeps sizes as they are.
    """

    advice = (
        "Initialise by fan-in (PyTorch's own default, kaiming_normal_ or xavier_uniform_) instead "
        "of a fixed deviation."
    )

    times: float = parameter(12.0, "Output over input.", at_least=1)
    gain: float = parameter(3.0, "Weights over 1 / sqrt(fan-in).", at_least=1)
    wrong: float = parameter(5.0, "First loss over that of chance.", at_least=1)

    def judge(self, signs: Signs) -> Iterable[Sign]:
        mean = signs.vital("input/mean").first(3).median
        std = signs.vital("input/std").first(3).median
        size = math.hypot(mean, std) if math.isfinite(mean) else 1.0
        gain = max(_gains(signs), default=math.inf)
        if size > self.times or not gain > self.gain:
            return
        found = next(self._spreads(signs, size, gain), None) or next(self._sure(signs), None)
        if found is not None:
            yield found

    def _spreads(self, signs: Signs, size: float, gain: float) -> Iterator[Sign]:
        spreads = signs.vitals("activation/", "/std")
        for module in signs.anatomy.modules:
            series = spreads.get(module.name)
            if module.type not in _LAYERS or series is None or not len(series):
                continue
            value = float(series.values[0]) / max(size, 1.0)
            if series.steps[0] <= 5 and value > self.times:
                yield Sign(
                    int(series.steps[0]),
                    f"At the start the output of {module.name} has a standard deviation of "
                    f"{series.values[0]:.3g} for inputs of about {size:.2g}: weights are up to "
                    f"{gain:.2g} times wider than 1 / sqrt(fan-in).",
                    tensor=module.name,
                    value=value,
                    threshold=self.times,
                )

    def _sure(self, signs: Signs) -> Iterator[Sign]:
        widest = max(_gains_by_name(signs).items(), key=lambda each: each[1], default=("", 0.0))
        if signs.chance is None or not len(signs.loss) or signs.loss.steps[0] > 1:
            return
        if widest[1] > self.gain and signs.first_loss > self.wrong * signs.chance:
            yield Sign(
                int(signs.loss.steps[0]),
                f"The first loss is {signs.first_loss:.3g}, where a model that knows nothing has "
                f"{signs.chance:.3g}: the weights of {widest[0]} are {widest[1]:.2g} times wider "
                "than 1 / sqrt(fan-in).",
                tensor=widest[0],
                value=signs.first_loss / signs.chance,
                threshold=self.wrong,
            )


@dataclass
class WeightsTooSmall(SignsRule):
    """Weights start so small that hardly anything passes through the layers, either way.

    Fires when half of the matrices of weights are drawn more than `times` narrower than
    1 / sqrt(fan-in), which keeps sizes as they are, and nothing is learnt; or, of three and more,
    ten times as narrow again, and the loss stands still for 20 steps.
    """

    advice = (
        "Initialise by fan-in (PyTorch's own default, kaiming_normal_ or xavier_uniform_) instead "
        "of a fixed small deviation."
    )

    times: float = parameter(10.0, "Narrower than 1 / sqrt(fan-in).", at_least=1)

    def judge(self, signs: Signs) -> Iterable[Sign]:
        gains = _gains(signs)
        if len(gains) < 2:
            return
        gain = median(gains)
        is_late = len(gains) > 2 and gain < 0.1 / self.times and signs.lingers(20)
        if 0 < gain < 1 / self.times and (signs.is_stuck or (is_late and signs.last_step >= 50)):
            first = next(p.name for p in signs.anatomy.parameters if is_matrix(p.shape))
            stays = f"stays at {signs.late_loss:.4g}" if signs.is_stuck else "stood still at first"
            yield Sign(
                0,
                f"Weights start {1 / gain:.3g} times narrower than 1 / sqrt(fan-in), in the middle "
                f"of {len(gains)} matrices, and the loss {stays}.",
                tensor=first,
                value=1 / gain,
                threshold=self.times,
            )


@dataclass
class SymmetricWeights(SignsRule):
    """All weights of a layer start equal, so that its units stay copies of each other.

    Fires when a matrix of weights has one value throughout at the first saved step and that value
    is not 0; or when all matrices are 0; or when one is still 0 throughout after 20 updates.
    """

    advice = "Initialise weights at random; zeros are for biases, and for a last layer at most."

    def judge(self, signs: Signs) -> Iterable[Sign]:
        if signs.num_updates < 3:
            return
        flat = []
        weights = [p for p in signs.anatomy.parameters if len(p.shape) > 1]
        for each in weights:
            low, high = signs.figure(each.name, "min"), signs.figure(each.name, "max")
            if len(low) and low.steps[0] <= 1 and low.values[0] == high.values[0]:
                still = signs.num_updates >= 20 and np.ptp(low.values) == np.ptp(high.values) == 0
                flat.append((each, float(low.values[0]), still))
        all_zero = 1 < len(flat) == len(weights)
        wrong = [
            (each, value)
            for each, value, still in flat
            if is_matrix(each.shape)
            and each.requires_grad
            and (value != 0 or all_zero or (still and each.is_trained))
        ]
        if wrong and signs.num_updates >= 20:
            names = ", ".join(each.name for each, _ in wrong[:3])
            yield Sign(
                0,
                f"All weights of {names} start at {wrong[0][1]:g}: the units of a layer compute "
                "the same and get the same gradients.",
                tensor=wrong[0][0].name,
                value=wrong[0][1],
            )


def is_matrix(shape: tuple[int, ...]) -> bool:
    return len(shape) > 1 and shape[0] > 1 and math.prod(shape[1:]) > 1


def _gains(signs: Signs) -> list[float]:
    return [
        _gain(p, first)
        for p in signs.anatomy.parameters
        if is_matrix(p.shape) and len(first := signs.figure(p.name, "l2"))
    ]


def _gains_by_name(signs: Signs) -> dict[str, float]:
    """Without those that are looked up, which have no fan-in."""
    return {
        p.name: _gain(p, first)
        for p in signs.anatomy.parameters
        if len(p.shape) > 1
        and p.name not in signs.anatomy.tables
        and len(first := signs.figure(p.name, "l2"))
    }


def _gain(parameter: ParameterFacts, length: Series) -> float:
    """Of its first weights: root mean square times the square root of the fan-in."""
    size, fan_in = math.prod(parameter.shape), math.prod(parameter.shape[1:])
    return float(length.values[0]) / math.sqrt(size) * math.sqrt(fan_in)
