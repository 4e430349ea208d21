"""Rules about training and evaluation mode, where dropout and batch norm make a difference."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trackside.rules.checkup.vitals_rule import ENOUGH_BATCHES, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import VitalSigns

_USUAL, _NOW_AND_THEN = 0.75, 0.2
"""Shares of backwards: with one number of forwards before most of them, and a larger one before
few, the larger are evaluations. Otherwise there is no usual number."""


@dataclass
class TrainingInEvaluationMode(VitalsRule):
    """The model is trained in evaluation mode, so its dropout and batch norm are inactive.

    Fires when a model with either has had at least `num_backwards` backwards after forwards in
    evaluation mode, `share` of all. A model of which only parts are in that mode is not reported.
    """

    kind = Kind.MISTAKE
    explains = ("Overfitting",)
    leaves_training_loss = True
    advice = (
        "Call model.train() before each epoch of training; model.eval() stays in effect until then."
    )

    num_backwards: int = parameter(20, "Backwards in evaluation mode.", at_least=1)
    share: float = parameter(0.2, "Share of all backwards.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
        if not (anatomy.holds_dropout or anatomy.holds_batch_norm):
            return
        wrong = sum(each.count for each in anatomy.backwards if not each.training)
        if wrong >= self.num_backwards and wrong >= self.share * anatomy.num_backwards:
            evaluated = vitals.vital("gradient_norm", training=False)
            step = int(evaluated.steps[0]) if len(evaluated) else 0
            yield Sign(
                step,
                f"{wrong} of {anatomy.num_backwards} backwards came after forwards in evaluation "
                f"mode: {_what(vitals)} had no effect in them.",
                value=float(wrong),
                threshold=self.num_backwards,
            )


@dataclass
class EvaluationInTrainingMode(VitalsRule):
    """The model is evaluated in training mode: dropout is active, and batch norm uses the batch.

    Fires when the only model of the script has dropout or batch norm, is never in evaluation mode,
    and was called at least `num_forwards` times without gradients; or that many times more than
    usual between two backwards, or after the last one, in few places of the run.
    """

    kind = Kind.MISTAKE
    explains = ("Overfitting",)
    leaves_training_loss = True
    advice = (
        "Call model.eval() before evaluating, within torch.no_grad(), and model.train() afterwards."
    )

    num_forwards: int = parameter(2, "Forwards that are not used for training.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
        if len(anatomy.models) != 1 or not (anatomy.holds_dropout or anatomy.holds_batch_norm):
            return  # of several models one may make samples for another
        if any(not each.training for each in anatomy.forwards) or not anatomy.num_backwards:
            return
        wrong = anatomy.num_forwards(training=True, grad=False)
        what = "without gradients"
        if wrong < self.num_forwards:
            wrong, what = _unused_forwards(vitals), "that no backward followed"
        if wrong >= self.num_forwards:
            seen = vitals.vital("batch_size", training=False)
            yield Sign(
                int(seen.steps[0]) if len(seen) else 0,
                f"{wrong} forwards {what} ran in training mode and none in evaluation mode: "
                f"{_what(vitals)} worked as in training.",
                value=float(wrong),
                threshold=self.num_forwards,
            )


@dataclass
class BatchNormOfOneSample(VitalsRule):
    """Batch norm normalises over a batch of one sample.

    Fires when a model with batch norm in training mode gets batches of one sample, at least `share`
    of all batches.
    """

    kind = Kind.MISTAKE
    explains = ("NothingLearnt",)
    leaves_training_loss = True
    advice = (
        "Use larger batches, or GroupNorm or LayerNorm, which do not depend on the batch; or keep "
        "the batch norm layers in evaluation mode."
    )

    share: float = parameter(0.5, "Share of the batches.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        norms = [m for m in vitals.anatomy.modules if "BatchNorm" in m.type and m.training]
        size = vitals.vital("batch_size")
        if not norms or len(size) < ENOUGH_BATCHES:
            return
        if float(np.mean(size.values == 1)) >= self.share:
            yield Sign(
                int(size.steps[0]),
                f"{len(norms)} batch norm layers train on batches of one sample.",
                tensor=norms[0].name,
                value=1.0,
                threshold=2.0,
            )


def _what(vitals: VitalSigns) -> str:
    held = (
        ("dropout", vitals.anatomy.holds_dropout),
        ("batch norm", vitals.anatomy.holds_batch_norm),
    )
    return " and ".join(name for name, is_held in held if is_held)


def _unused_forwards(vitals: VitalSigns) -> int:
    """Those beyond the usual number before a backward, where that happens now and then; 0 where
    there is nothing usual, as when episodes of many lengths are played."""
    anatomy = vitals.anatomy
    counts = {int(k): n for k, n in (anatomy.forwards_per_backward or {}).items() if int(k)}
    if not counts:
        return 0
    usual = max(counts, key=lambda each: counts[each])
    total = sum(counts.values())
    more = sum(n for each, n in counts.items() if each > usual)
    if counts[usual] < _USUAL * total or more > _NOW_AND_THEN * total:
        return 0
    unused = sum((each - usual) * n for each, n in counts.items() if each > usual)
    last = anatomy.forwards_since_backward
    return unused + (last if vitals.is_all else max(0, last - usual))
