"""Rules about models that say the same whatever they are given."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trackside.rules.checkup.vitals_rule import Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.saved.vital_signs import VitalSigns


@dataclass
class OutputIgnoresInput(VitalsRule):
    """The model answers every sample alike.

    Fires when at the end of 100 steps and more, by which the weights have gone further than they
    are long, predictions differ from sample to sample by less than `share` of what targets do, in
    all of the second half, or, where the targets are the inputs, by less than `copied`; and, where
    both sides of a loss are the model's own, as for two views of a picture, when both differ by
    less than `left` of what they did at the start.
    """

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
            or len(predicted) < 20
        ):
            return
        if not vitals.is_settled or vitals.last_step < 100:
            return
        loss = vitals.anatomy.losses[0]
        late = predicted.since(vitals.last_step / 2)
        if not len(late):
            return
        first, now = predicted.first(5).median, float(late.values.max())
        if loss.is_target_trained:
            limit, of_what = self.left * first, f"{self.left:g} of what it did at the start"
        else:
            if vitals.moved < 1:
                return  # it has hardly begun
            share = self.copied if loss.is_target_input else self.share
            limit, of_what = share * wanted.median, f"{share:g} of what the targets do"
        if 0 <= now < limit:
            above = np.flatnonzero(predicted.values >= limit)
            yield Sign(
                int(predicted.steps[int(above[-1]) + 1 if len(above) else 0]),
                f"What {loss.name} is given differs from sample to sample by {now:.2g}, less than "
                f"{limit:.2g}, {of_what}: every input gets the same answer.",
                tensor=f"{loss.name}_input_0",
                value=now,
                threshold=limit,
            )
