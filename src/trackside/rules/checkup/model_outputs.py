"""Rules about what the model returns, whatever the loss makes of it."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trackside.rules.checkup.vitals_rule import Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.saved.vital_signs import VitalSigns


@dataclass
class ConstantOutput(VitalsRule):
    """The model returns one and the same number, whatever it is given and however it is trained.

    Fires when right before the loss a softmax goes along an axis of length 1, which makes 1 of
    everything; or when all predictions of `num_batches` batches and more are one number while
    weights are updated.
    """

    advice = (
        "Leave out the last activation. A softmax needs two outputs and more: with one for yes or "
        "no use a sigmoid (or BCEWithLogitsLoss on the raw score). A ReLU may be 0 for ever."
    )

    num_batches: int = parameter(20, "Batches that must have been looked at.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for output in vitals.anatomy.outputs:
            if output.activation == "softmax" and output.size == 1:
                yield Sign(0, "A softmax over a single output is 1 for every input.", value=1.0)
                return
        low, high = vitals.vital("loss_input/min"), vitals.vital("loss_input/max")
        if len(low) < self.num_batches or vitals.num_updates < self.num_batches:
            return
        if np.ptp(low.values) == np.ptp(high.values) == 0 and low.values[0] == high.values[0]:
            yield Sign(
                int(low.steps[0]),
                f"Every prediction is {low.values[0]:g}, in {len(low)} batches.",
                value=float(low.values[0]),
            )


@dataclass
class TemperatureTooHigh(VitalsRule):
    """Likenesses are divided by so large a number that they are all the same to the loss.

    Fires when a loss over classes is given products of two outputs, times or over a number that is
    not learnt, these never differ by more than `range` in a whole batch, and nothing is learnt.
    """

    advice = (
        "Divide cosine likenesses by a temperature of 0.05 to 0.5, or learn it: between -1 and 1 "
        "as they are, they hardly change a softmax."
    )

    range: float = parameter(0.1, "Between the largest score of a batch and the smallest.")

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        low, high = vitals.vital("loss_input/min"), vitals.vital("loss_input/max")
        if not vitals.anatomy.is_likeness_scaled or len(low) < 10 or not vitals.is_stuck:
            return
        widest = float((high.values - low.values).max())
        if widest < self.range:
            yield Sign(
                int(low.steps[0]),
                f"Scores are products over a number and differ by {widest:.2g} at most: to a "
                "softmax they are all alike.",
                value=widest,
                threshold=self.range,
            )
