"""Rules about what the model returns, whatever the loss makes of it."""

import math
from collections.abc import Iterable

import numpy as np

from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.vitals_rule import ENOUGH_BATCHES, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import FAIR_STEPS, FEWEST_LOSSES, VitalSigns

_FIRST_BATCHES = 5
"""Batches whose median is the spread at the start: later ones have been trained on."""


@dataclass
class ConstantOutput(VitalsRule):
    """The model returns the same number for every input, however it is trained.

    Fires when a softmax directly before the loss is applied along an axis of length 1, which always
    gives 1; or when all predictions of at least `num_batches` batches are one number while weights
    are updated.
    """

    kind = Kind.MISTAKE
    rests_on = ("loss_input/min", "loss_input/max")
    advice = (
        "Remove the last activation. A softmax needs at least two outputs: for a single yes-or-no "
        "output use a sigmoid (or BCEWithLogitsLoss on the raw score). A ReLU may stay at 0."
    )

    num_batches: int = parameter(20, "Batches before the rule may fire.", at_least=2)

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
    """Similarities are divided by so large a number that the loss cannot distinguish them.

    Fires when a loss over classes gets products of two outputs, multiplied or divided by a number
    that is not learnt, and in all of at least 100 steps these differ by so little that a loss below
    `floor` of chance cannot be reached: N scores that differ by d at most have a loss of
    log(1 + (N - 1) / exp(d)) at least, however well they are told apart.
    """

    kind = Kind.CAUSE
    rests_on = ("loss_input/min", "loss_input/max")
    advice = (
        "Divide cosine similarities by a temperature of 0.05 to 0.5, or learn it: values between "
        "-1 and 1 hardly change a softmax. Multiplied by a temperature they are smaller still."
    )

    floor: float = parameter(
        0.9, "Share of the loss of chance below which it cannot get.", at_least=0, at_most=1
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        low, high = vitals.vital("loss_input/min"), vitals.vital("loss_input/max")
        if not vitals.anatomy.is_likeness_scaled or len(low) < ENOUGH_BATCHES:
            return
        if not vitals.is_settled or vitals.last_step < FAIR_STEPS or vitals.chance is None:
            return
        widest = float((high.values - low.values).max())
        least = math.log1p((math.exp(vitals.chance) - 1) * math.exp(-widest))
        if least > self.floor * vitals.chance > 0:
            yield Sign(
                int(low.steps[0]),
                f"Scores are products of two outputs, divided by a number, and differ by "
                f"{widest:.2g} at most: with these the loss cannot fall below {least:.3g}, and "
                f"chance is {vitals.chance:.3g}.",
                value=least / vitals.chance,
                threshold=self.floor,
            )


@dataclass
class OutputIgnoresInput(VitalsRule):
    """The model gives the same output for every sample.

    Fires at the end of at least 100 steps, by which the weights have moved further than their norm,
    in each of these cases:

    - Predictions differ between samples by less than `share` of what targets do, in all of the
      second half; where the targets are the inputs, by less than `copied`.
    - Both sides of a loss are outputs of the model, as for two views of an image, and both differ
      by less than `left` of what they did at the start.
    """

    kind = Kind.OUTCOME
    rests_on = ("loss_input/sample_std", "target/sample_std")
    advice = (
        "If two outputs are pulled together, something must push others apart: negative pairs, a "
        "stopped gradient with a predictor, or a variance term. For a variational autoencoder, "
        "lower the weight of the KL term (sum both terms in the same way). Otherwise check the "
        "inputs of the last layers."
    )

    share: float = parameter(
        0.02, "Share of the targets' spread over samples.", at_least=0, at_most=1
    )
    copied: float = parameter(0.2, "The same for an autoencoder.", at_least=0, at_most=1)
    left: float = parameter(0.1, "Share of the spread at the start.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        predicted, wanted = vitals.vital("loss_input/sample_std"), vitals.vital("target/sample_std")
        if (
            len(vitals.anatomy.losses) != 1
            or len(vitals.anatomy.models) != 1
            or len(predicted) < FEWEST_LOSSES
        ):
            return
        if not vitals.is_settled or vitals.last_step < FAIR_STEPS:
            return
        loss = vitals.anatomy.losses[0]
        late = predicted.since(vitals.last_step / 2)
        if not len(late):
            return
        first, now = predicted.first(_FIRST_BATCHES).median, float(late.values.max())
        if loss.is_target_trained:
            limit, of_what = self.left * first, f"{self.left:g} of what it did at the start"
        else:
            if vitals.moved < 1:
                return  # the weights have hardly moved
            share = self.copied if loss.is_target_input else self.share
            limit, of_what = share * wanted.median, f"{share:g} of what the targets do"
        if 0 <= now < limit:
            above = np.flatnonzero(predicted.values >= limit)
            yield Sign(
                int(predicted.steps[int(above[-1]) + 1 if len(above) else 0]),
                f"What {loss.name} is given differs from sample to sample by {now:.2g}, less than "
                f"{limit:.2g}, {of_what}: every input gets the same prediction.",
                tensor=f"{loss.name}_input_0",
                value=now,
                threshold=limit,
            )
