"""Rules about the result of training: a loss that is not finite, rises, stalls or deceives."""

import math
from collections.abc import Iterable

import numpy as np

from trackside.capture.dtypes import Array
from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.vitals_rule import SHORT_RUN, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import CHANCE_SHARE, EXPLAINED, FEWEST_LOSSES, VitalSigns

_STILL_HIGH = 0.5
"""Of the highest loss: one that ends lower has turned."""
_FEWEST_EVALUATIONS, _SINCE_LOWEST = 5, 3
"""Evaluations: three above the lowest are no single bad one."""
_LOSSES_THEN = 10
"""Training losses before the lowest evaluation, whose median is compared with the end."""
_RISE, _FALLEN_TO = 0.1, 2 / 3
"""The evaluation loss rose by a tenth of the first training loss, and the training loss fell by a
third since: smaller changes are noise, or the end of training."""


@dataclass
class LossNotFinite(VitalsRule):
    """The loss is NaN or infinite.

    Fires at the first such step.
    """

    kind = Kind.OUTCOME
    rests_on = ("gradient_norm", "update_ratio", "gradients:l2")
    advice = (
        "Look for log(0), division by zero, sqrt of 0 and overflow in the loss: use the fused "
        "losses (cross_entropy, binary_cross_entropy_with_logits), clamp, or add an epsilon. "
        "torch.autograd.set_detect_anomaly(True) names the operation."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        bad = np.flatnonzero(~np.isfinite(vitals.loss.values))
        if not len(bad):
            return
        before = vitals.loss.values[: bad[0]]
        last = f"{before[-1]:.4g} at the step before" if len(before) else "the first loss"
        yield Sign(
            int(vitals.loss.steps[bad[0]]),
            f"The loss is {vitals.loss.values[bad[0]]} ({last}).",
            value=float(vitals.loss.values[bad[0]]),
        )


@dataclass
class LossRising(VitalsRule):
    """Training makes the loss larger.

    Fires when after at least 50 steps the loss is above `times` its start and still at its highest.
    One that starts below zero has no such ratio: it must rise by more than `times` what it was away
    from zero, and each third of it be above the one before. Other losses that go below zero, and
    those of policies, are not judged by their height: that of a critic grows with the returns. Nor
    is one that grows with its targets and explains them, as in Q-learning.
    """

    kind = Kind.OUTCOME
    rests_on = ("update_ratio", "gradient_norm")
    advice = (
        "Check the sign of the loss and `maximize` of the optimizer; with the right sign, lower "
        "the learning rate."
    )

    times: float = parameter(1.5, "Loss that is too high, relative to the first loss.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        early, late = vitals.early_loss, vitals.late_loss
        if vitals.last_step < SHORT_RUN or len(vitals.loss) < FEWEST_LOSSES:
            return
        if len(vitals.anatomy.models) > 1:
            return
        if len(vitals.anatomy.optimizers) > 1:
            return  # stages of their own, each with another task
        if vitals.is_of_policy:
            return
        if not vitals.is_settled:
            return
        known = vitals.loss.values[np.isfinite(vitals.loss.values)]
        if vitals.unexplained < EXPLAINED or not len(known):
            return
        limit = self.times * early
        is_risen = early > 0 and late > limit and known.min() >= 0
        start = vitals.loss.first(FEWEST_LOSSES).values
        if start.max() < 0:
            limit = early - self.times * float(start.min())
            is_risen = late > limit and _climbs(known)
        if is_risen and late > _STILL_HIGH * float(known.max()):
            above = np.flatnonzero(vitals.loss.values > limit)
            yield Sign(
                int(vitals.loss.steps[above[0]]) if len(above) else 0,
                f"The loss rose from {early:.4g} to {late:.4g}.",
                value=late,
                threshold=limit,
            )


def _climbs(values: Array) -> bool:
    """Each third lies above the one before, but for single values."""
    first, second, third = np.array_split(values, 3)
    return bool(np.median(first) < np.median(second) < np.median(third) > first.max())


@dataclass
class Overfitting(VitalsRule):
    """The evaluation loss rises while the training loss continues to fall.

    Fires when, at least three evaluations after its minimum, the evaluation loss is above `times`
    the minimum, by more than a tenth of the first training loss, and the training loss has fallen
    by a third since. Models that were evaluated once each are not compared. While the job runs, the
    rule waits for facts about the models that are as new as the losses.
    """

    kind = Kind.CAUSE
    explains = ("Overfit", "Overtraining")
    leaves_training_loss = True
    advice = (
        "Stop at the lowest evaluation loss and keep that checkpoint; more data, augmentation, "
        "dropout, weight decay or a smaller model lower it further."
    )

    times: float = parameter(
        1.2, "Evaluation loss that is too high, relative to its minimum.", at_least=1
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if not vitals.is_all and vitals.anatomy.num_backwards < len(vitals.loss):
            return
        evaluated = _passes(vitals)
        if len(evaluated) < _FEWEST_EVALUATIONS or _is_of_many_models(vitals, len(evaluated)):
            return
        steps, values = evaluated[:, 0], evaluated[:, 1]
        lowest = int(np.argmin(values))
        late = float(np.median(values[-_SINCE_LOWEST:]))
        rise = late - values[lowest]
        if len(values) - 1 - lowest < _SINCE_LOWEST or late < self.times * values[lowest]:
            return
        then = vitals.loss.where(vitals.loss.steps <= steps[lowest]).last(_LOSSES_THEN).median
        start = max(abs(vitals.early_loss), abs(vitals.first_loss))
        if rise > _RISE * start and vitals.late_loss < _FALLEN_TO * then:
            yield Sign(
                int(steps[lowest]),
                f"The evaluation loss was lowest, {values[lowest]:.4g}, at step "
                f"{steps[lowest]:.0f} and is {late:.4g} now, while the training loss fell from "
                f"{then:.4g} to {vitals.late_loss:.4g}.",
                value=late / values[lowest],
                threshold=self.times,
            )


@dataclass
class NothingLearnt(VitalsRule):
    """The loss is at the level of a model that knows nothing, and stays there.

    Fires at the end of at least `num_steps` steps when a loss over classes is still within `share`
    of chance, a loss over amounts is at the loss of predicting their mean, or any loss is where it
    started. If gradients, rates and inputs are as they should be, this means that labels do not
    belong to the inputs.
    """

    kind = Kind.OUTCOME
    rests_on = ("gradient_norm", "update_ratio", "gradients:l2")
    advice = (
        "If nothing else was found: check that labels belong to their inputs (shuffled together? "
        "sorted in the same way? joined by the right key?), and that the inputs contain the "
        "information that the labels need. The model should be able to memorise ten samples."
    )

    num_steps: int = parameter(150, "Training steps before the rule may fire.", at_least=1)
    share: float = parameter(CHANCE_SHARE, "Share of the loss of chance.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if not vitals.is_all or vitals.last_step < self.num_steps:
            return
        if not vitals.is_stuck_above(self.share):
            return
        if not math.isfinite(vitals.late_loss) or len(vitals.anatomy.models) > 1:
            return
        if not vitals.anatomy.losses or len(vitals.anatomy.optimizers) > 1 or vitals.is_of_policy:
            return  # an objective of one's own may mean anything
        level = f" (chance is {vitals.chance:.4g})" if vitals.chance is not None else ""
        yield Sign(
            0,
            f"After {vitals.last_step} steps the loss is {vitals.late_loss:.4g}{level}; it started "
            f"at {vitals.early_loss:.4g}.",
            value=vitals.late_loss,
            threshold=vitals.chance,
        )


def _is_of_many_models(vitals: VitalSigns, num_evaluations: int) -> bool:
    """Whether each model of a search or of a cross-validation was evaluated once: then the losses
    are no curve. The list of models may be one behind."""
    num_models = len(vitals.anatomy.models)
    return num_models > 1 and num_evaluations <= num_models + 1


def _passes(vitals: VitalSigns) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    """The mean loss of each pass over the evaluation data, at the step where the pass began."""
    loss, training = vitals.evaluation_loss, vitals.loss.steps
    if not len(loss):
        return np.empty((0, 2))
    # Evaluation steps between the same two training steps are one pass.
    groups = np.searchsorted(training, loss.steps)
    rows = [
        (float(loss.steps[groups == group][0]), float(loss.values[groups == group].mean()))
        for group in np.unique(groups)
    ]
    return np.array([row for row in rows if math.isfinite(row[1])]).reshape(-1, 2)
