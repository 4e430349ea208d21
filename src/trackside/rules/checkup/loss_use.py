"""Rules about how a loss is used: whether it is given what it was made for."""

from collections.abc import Iterable

import numpy as np

from trackside.capture.reading.anatomy import LossFacts, ObjectiveFacts
from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.vitals_rule import Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import EPSILON, Series, VitalSigns

_OF_LOGITS = ("cross_entropy", "binary_cross_entropy_with_logits")
_CLOSE = 1e-3
"""By which rounding in 16 bits takes probabilities above 1."""
_SUMS_TO_ONE = 0.01
"""Distance of a row's sum from 1 that rounding explains."""
_EXACT_ZEROS = 0.5
"""Share of batches with an exact 0, which a sigmoid hardly returns and a ReLU often."""
_LOW_PROBABILITY, _HIGH_PROBABILITY = 0.4, 0.6
"""Scores that start between these may be raw ones; probabilities of a trained model are not."""
_MORE_BATCHES = 3
"""Times the batches, where only the range speaks for a sigmoid."""
_CLIPPED = 0.8
"""Share of batches whose lowest prediction is exactly 0, as after a ReLU."""
_BEYOND = 0.2
"""Of the activation's range: targets a little beyond it may be noise."""
_AT_END = 0.02
"""Distance from an end of the range at which predictions press against it."""
_MOSTLY = 0.5
"""Share of late batches that do: by luck a few do."""
_RANGES = {"sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0), "relu": (0.0, np.inf)}
"""What they can return."""


@dataclass
class LossInputAlreadySoftmax(VitalsRule):
    """A loss that applies softmax or sigmoid itself gets probabilities.

    Fires for cross_entropy when in each of at least `num_batches` batches all inputs are in [0, 1]
    and each row's sum is 1. Fires for cross_entropy and binary_cross_entropy_with_logits when all
    inputs are in [0, 1], and either the model's last module is a sigmoid, or they range from below
    0.4 to above 0.6 (unless most batches contain an exact 0, as after a ReLU). Scores may well
    start in [0, 1]. Fires at once for both when a softmax or sigmoid was the last operation before
    the loss.
    """

    kind = Kind.MISTAKE
    rests_on = ("loss_input/row_sum_error", "loss_input/min", "loss_input/max")
    is_independent = True
    advice = (
        "Take the softmax or sigmoid out of the model and give the loss the raw scores; apply it "
        "only where probabilities are needed. (Or use NLLLoss after log_softmax, BCELoss after "
        "sigmoid.)"
    )

    num_batches: int = parameter(8, "Batches before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        loss = _used(vitals, _OF_LOGITS)
        low, high = vitals.vital("loss_input/min"), vitals.vital("loss_input/max")
        for output in vitals.anatomy.outputs:
            if output.loss in _OF_LOGITS and output.activation in ("softmax", "sigmoid"):
                name = loss.name if loss is not None else output.loss
                along = "" if output.axis in (None, 1, -1) else f" along axis {output.axis}"
                yield Sign(
                    0,
                    f"{name} applies {_own(output.loss)} itself, and the last layer before it is a "
                    f"{output.activation}{along}.",
                    tensor=f"{name}_input_0",
                )
                return
        if loss is None or len(low) < self.num_batches:
            return
        if not (low.values.min() >= 0 and high.values.max() <= 1 + _CLOSE):
            return
        sums = vitals.vital("loss_input/row_sum_error")
        is_softmax = sums.median < _SUMS_TO_ONE
        if is_softmax or (np.mean(low.values == 0) < _EXACT_ZEROS and self._is_sigmoid(vitals)):
            kind = "softmax" if is_softmax else "sigmoid"
            yield Sign(
                int(low.steps[0]),
                f"{loss.name} applies {_own(loss.function)} itself and is given the output of a "
                f"{kind}: in {len(low)} batches every value lies between {low.values.min():.2g} "
                f"and {high.values.max():.2g}{', and every row sums to 1' if is_softmax else ''}.",
                tensor=f"{loss.name}_input_0",
                value=float(high.values.max()),
                threshold=1.0,
            )

    def _is_sigmoid(self, vitals: VitalSigns) -> bool:
        of_loss = [each for each in vitals.anatomy.outputs if each.loss in _OF_LOGITS]
        if any(output.activation == "linear" for output in of_loss):
            return False  # scores of a layer, however small they are
        if vitals.anatomy.modules and vitals.anatomy.modules[-1].type == "Sigmoid":
            return len(vitals.anatomy.models) == 1
        low, high = vitals.vital("loss_input/min"), vitals.vital("loss_input/max")
        reaches = low.values.min() < _LOW_PROBABILITY and high.values.max() > _HIGH_PROBABILITY
        return reaches and len(low) >= _MORE_BATCHES * self.num_batches


@dataclass
class LossInputNotLogProbabilities(VitalsRule):
    """A loss of log probabilities gets others, or those of another axis.

    Fires when over at least `num_batches` batches the exponentials of the rows that nll_loss,
    kl_div or ctc_loss gets do not sum to about 1; or when a loss of the script's own takes the log
    softmax of a layer's scores along the samples, and none along the classes.
    """

    kind = Kind.MISTAKE
    rests_on = ("loss_input/row_sum_error", "log_probabilities/row_sum_error")
    advice = (
        "Use CrossEntropyLoss on raw scores, or pass the output of log_softmax to NLLLoss, "
        "KLDivLoss and CTCLoss. KLDivLoss expects the logarithms of the student's probabilities as "
        "its input. The axis of a softmax is that of the classes: dim=1 of [samples, classes]."
    )

    num_batches: int = parameter(5, "Batches before the rule may fire.", at_least=1)
    error: float = parameter(0.1, "Distance of a row's sum from 1 that is accepted.", at_least=0)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        shape = (vitals.anatomy.objective or ObjectiveFacts()).softmax_over_samples
        if shape:
            yield Sign(
                0,
                f"The log softmax of scores of shape {list(shape)} goes along axis 0, that of the "
                "samples: they compete with one another for each class.",
                value=0.0,
                threshold=1.0,
            )
        loss = _used(vitals, ("nll_loss",))
        sums = vitals.vital("loss_input/row_sum_error")
        if loss is None:
            others = ("kl_div", "ctc_loss")
            loss = next((e for e in vitals.anatomy.losses if e.function in others), None)
            sums = vitals.vital("log_probabilities/row_sum_error")
        if loss is None or len(sums) < self.num_batches or not sums.median > self.error:
            return
        yield Sign(
            int(sums.steps[0]),
            f"{loss.name} expects log probabilities and is given values whose "
            f"exponentials differ from a sum of 1 by {sums.median:.3g}.",
            tensor=f"{loss.name}_input_0",
            value=sums.median,
            threshold=self.error,
        )


@dataclass
class LossShapeMismatch(VitalsRule):
    """A loss compares each prediction with each target, because their shapes only broadcast.

    Fires when an elementwise loss (such as MSELoss) gets two shapes that broadcast to more elements
    than either has; when the script's own arithmetic computes N times N values from N predictions
    and a target; or when a loss over classes gets a single score, which is always 1 after its
    softmax.
    """

    kind = Kind.MISTAKE
    is_independent = True
    advice = (
        "Give both the same shape: prediction.squeeze(-1), or target.unsqueeze(-1). For two "
        "classes with one score use BCEWithLogitsLoss."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        broadcast = vitals.anatomy.broadcast
        if broadcast is not None and not vitals.anatomy.losses:
            yield Sign(
                0,
                f"The loss takes a prediction of shape {list(broadcast[0])} and a target that make "
                f"{list(broadcast[1])} together: each is compared with each.",
            )
        for loss in vitals.anatomy.losses:
            if len(loss.shapes) != 2:
                continue
            prediction, target = loss.shapes
            if loss.broadcasts and _grows(prediction, target):
                yield Sign(
                    0,
                    f"{loss.name} is given a prediction of shape {list(prediction)} and a target "
                    f"of shape {list(target)}: each is compared with each.",
                    tensor=f"{loss.name}_input_0",
                )
            if loss.num_classes == 1:
                yield Sign(
                    0,
                    f"{loss.name} is given one score a sample, of shape {list(prediction)}: the "
                    "only class always has the probability 1.",
                    tensor=f"{loss.name}_input_0",
                )


@dataclass
class OutputRangeTooNarrow(VitalsRule):
    """The last activation limits predictions to a smaller range than the targets have.

    Fires over at least `num_batches` batches in each of these cases:

    - All predictions are in [0, 1] or [-1, 1] and close to one end of the range, in most of the
      second half, while targets are outside of it.
    - No prediction is below 0 and many are exactly 0, while targets are below 0.
    - Targets are outside the range of the activation before the loss.
    - A loss of logits gets such values, or a tanh or ReLU was the last operation before it.
    """

    kind = Kind.MISTAKE
    rests_on = ("loss_input/min", "loss_input/max", "target/min", "target/max")
    is_independent = True
    advice = (
        "Remove the activation after the last layer, or scale the targets into its range. Losses "
        "of logits expect raw scores."
    )

    num_batches: int = parameter(10, "Batches before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        low, high = vitals.vital("loss_input/min"), vitals.vital("loss_input/max")
        if len(low) < self.num_batches:
            return
        bounded = [o for o in vitals.anatomy.outputs if o.activation in ("tanh", "relu")]
        lowest, highest = float(low.values.min()), float(high.values.max())
        if not np.isfinite([lowest, highest]).all():
            return  # no range at all; others report it
        clipped = float(np.mean(low.values == 0))
        loss = _used(vitals, _OF_LOGITS)
        if loss is not None:
            is_bounded = any(output.loss == loss.function for output in bounded)
            if is_bounded or (lowest == 0 and clipped > _CLIPPED and highest > 0):
                yield self._sign(loss, low.steps[0], lowest, highest, "raw scores, of either sign")
            return
        wanted_low = vitals.vital("target/min").median
        wanted_high = vitals.vital("target/max").median
        for activation, (least, most) in _RANGES.items():
            if lowest < least or highest > most or not vitals.anatomy.losses:
                continue
            is_last = any(output.activation == activation for output in vitals.anatomy.outputs)
            width = (most - least) if np.isfinite(most) else max(highest - lowest, EPSILON)
            beyond = max(wanted_high - most, least - wanted_low) / width
            is_held = is_last or clipped > _CLIPPED or _presses(low, high, least, most)
            if beyond > _BEYOND and is_held:
                range_of = f"targets between {wanted_low:.4g} and {wanted_high:.4g}"
                yield self._sign(vitals.anatomy.losses[0], low.steps[0], lowest, highest, range_of)
                return

    def _sign(self, loss: LossFacts, step: int, low: float, high: float, for_what: str) -> Sign:
        return Sign(
            int(step),
            f"All predictions that {loss.name} gets lie between {low:.3g} and {high:.3g}, as after "
            f"an activation, for {for_what}.",
            tensor=f"{loss.name}_input_0",
            value=high,
        )


def _presses(low: Series, high: Series, least: float, most: float) -> bool:
    """In most batches of the second half some value is at an end: by luck it is in a few."""
    late = len(low) // 2
    at_low = low.values[late:] < least + _AT_END
    at_high = high.values[late:] > most - _AT_END
    return bool(max(at_low.mean(), at_high.mean()) > _MOSTLY)


def _used(vitals: VitalSigns, functions: tuple[str, ...]) -> LossFacts | None:
    """The loss that vitals measure: the first."""
    first = next(iter(vitals.anatomy.losses), None)
    return first if first is not None and first.function in functions else None


def _own(function: str) -> str:
    return "a sigmoid" if "binary" in function else "a softmax"


def _grows(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    try:
        together = np.broadcast_shapes(one, other)
    except ValueError:
        return False
    return int(np.prod(together)) > max(int(np.prod(one)), int(np.prod(other)))
