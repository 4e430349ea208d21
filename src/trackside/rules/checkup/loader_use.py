"""Rules about which of the data that there are training and evaluation get to see."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from trackside.capture.reading.anatomy import LoaderFacts
from trackside.rules.checkup.vitals_rule import HALVED, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import VitalSigns

_PART = 0.25
"""Of a loader's batches: who stops early on purpose uses more of each pass."""
_OTHERS = 1.5
"""Forwards in evaluation over batches of the loader: with more, some are of data without one."""


@dataclass
class EpochCutShort(VitalsRule):
    """Each epoch ends after its first batches.

    Fires when the training loader was started at least `num_passes` times, each pass ended after at
    most a quarter of its batches, so that the whole training saw less than `num_epochs` full
    passes, and the loss has not fallen to half. Drawing batches by next(iter(loader)) for a number
    of steps is not reported.
    """

    kind = Kind.MISTAKE
    advice = (
        "Look for a break or return inside the loop over batches that belongs after it, and for "
        "debugging code that was left in."
    )

    num_passes: int = parameter(5, "Passes that were started.", at_least=2)
    num_epochs: float = parameter(3.0, "Full passes over the data, in total.", at_least=0)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for loader in vitals.anatomy.loaders:
            whole = _num_batches(loader)
            if loader.num_passes < self.num_passes or 2 * loader.num_trained < loader.num_batches:
                continue
            each = loader.num_batches / loader.num_passes
            is_little = each <= _PART * whole and loader.num_batches < self.num_epochs * whole
            if vitals.is_settled and is_little and vitals.fall < HALVED:
                yield Sign(
                    0,
                    f"The loader has {whole} batches, and each of {loader.num_passes} passes ended "
                    f"after {each:.3g} batches: training saw {loader.num_batches} in all.",
                    value=each,
                    threshold=_PART * whole,
                )


@dataclass
class EvaluationOnTrainingData(VitalsRule):
    """The model is evaluated on its training data, while other data is unused.

    Fires at the end when at least `num_batches` evaluation batches came from the training loader,
    none from any other, and a loader of other data was created and never used.
    """

    kind = Kind.MISTAKE
    leaves_training_loss = True
    advice = (
        "Use the loader of the training set for training, and the other one for evaluation: one of "
        "the two loops uses the wrong variable."
    )

    num_batches: int = parameter(10, "Evaluation batches.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        loaders = vitals.anatomy.loaders
        evaluated = [each for each in loaders if each.num_evaluated]
        unused = [each for each in loaders if not each.num_batches and each.num_samples]
        if not vitals.is_all or len(evaluated) != 1 or not unused:
            return
        (both,) = evaluated
        # More of them than came from it are of data without a loader.
        others = (
            vitals.anatomy.num_forwards(training=False, grad=False) > _OTHERS * both.num_evaluated
        )
        is_other = unused[0].num_samples != both.num_samples
        if both.num_trained and both.num_evaluated >= self.num_batches and is_other and not others:
            yield Sign(
                0,
                f"All {both.num_evaluated} batches of evaluation are of the {both.num_samples} "
                f"training samples; the loader of {unused[0].num_samples} others is never used.",
                value=float(both.num_evaluated),
                threshold=self.num_batches,
            )


def _num_batches(loader: LoaderFacts) -> float:
    """Of a whole pass; infinite where it has no end, none where it is not known."""
    if loader.num_samples is None or not loader.batch_size:
        return 0
    return math.ceil(loader.num_samples / loader.batch_size)
