"""Rules about what the model returns, whatever the loss makes of it."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trackside.rules.checkup.vitals_rule import ENOUGH_BATCHES, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import FAIR_STEPS, FEWEST_LOSSES, VitalSigns

_FIRST_BATCHES = 5
"""Batches whose median is the spread at the start: later ones have been trained on."""


@dataclass
class ConstantOutput(VitalsRule):
    """The model returns one and the same number, whatever it is given and however it is trained.

    Fires when right before the loss a softmax goes along an axis of length 1, which makes 1 of
    everything; or when all predictions of `num_batches` batches and more are one number while
    weights are updated.
    """

    kind = Kind.MISTAKE
    advice = (
        "Leave out the last activation. A softmax needs two outputs and more: with one for yes or "
        "no use a sigmoid (or BCEWithLogitsLoss on the raw score). A ReLU may be 0 for ever."
    )

    num_batches: int = parameter(20, "Batches that must have been seen.", at_least=2)

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

    kind = Kind.CAUSE
    advice = (
        "Divide cosine likenesses by a temperature of 0.05 to 0.5, or learn it: between -1 and 1 "
        "as they are, they hardly change a softmax."
    )

    range: float = parameter(0.1, "Between the largest score of a batch and the smallest.")

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        low, high = vitals.vital("loss_input/min"), vitals.vital("loss_input/max")
        if (
            not vitals.anatomy.is_likeness_scaled
            or len(low) < ENOUGH_BATCHES
            or not vitals.is_stuck
        ):
            return
        widest = float((high.values - low.values).max())
        if widest < self.range:
            yield Sign(
                int(low.steps[0]),
                f"Scores are products of two outputs, divided by a number, and differ by "
                f"{widest:.2g} at most: a softmax makes them all equal.",
                value=widest,
                threshold=self.range,
            )


@dataclass
class OutputIgnoresInput(VitalsRule):
    """The model predicts the same for every sample.

    Fires when at the end of 100 steps and more, by which the weights have gone further than they
    are long, predictions differ from sample to sample by less than `share` of what targets do, in
    all of the second half, or, where the targets are the inputs, by less than `copied`; and, where
    both sides of a loss are the model's own, as for two views of a picture, when both differ by
    less than `left` of what they did at the start.
    """

    kind = Kind.OUTCOME
    advice = (
        "Where two outputs are pulled together, something must push others apart: negative pairs, "
        "a stopped gradient with a predictor, or a variance term. Of a variational autoencoder, "
        "lower the weight of the KL term (sum both terms alike). Otherwise check what the last "
        "layers are given."
    )

    share: float = parameter(0.02, "Of the targets' spread over samples.", at_least=0, at_most=1)
    copied: float = parameter(0.2, "The same, of an autoencoder.", at_least=0, at_most=1)
    left: float = parameter(0.1, "Of the spread at the start.", at_least=0, at_most=1)

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
