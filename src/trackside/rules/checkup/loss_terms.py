"""Rules about losses that are the sum of several."""

import math
from collections.abc import Iterable, Iterator

import numpy as np

from trackside.capture.reading.anatomy import ObjectiveFacts
from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.vitals_rule import ENOUGH_BATCHES, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import CHANCE_SHARE, EPSILON, FAIR_STEPS, Series, VitalSigns

_STILL_LOW = 0.1
"""Of its lowest value: a loss that ends there has not come back from below zero."""
_OF_THE_SUM = 0.9
"""The loss over its larger term: below this the terms are weighted, not just added."""


@dataclass
class LossTermDominates(VitalsRule):
    """One term of the loss is so large that the other is not learnt.

    Fires when two losses are added without weights, one is more than `times` the other from start
    to end, and the smaller one, over classes, is still at chance. A small term of another kind may
    be intended.
    """

    kind = Kind.CAUSE
    rests_on = ("loss_term/*",)
    advice = (
        "Bring the terms to a similar size: scale the targets of the larger one to about 1, or "
        "weight the terms so that each starts at about 1."
    )

    times: float = parameter(50.0, "Ratio of the larger term to the smaller one.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if (
            not vitals.is_settled
            or vitals.last_step < FAIR_STEPS
            or len(vitals.anatomy.models) != 1
        ):
            return
        for large, small in _pairs(vitals.series_by_name("loss_term/")):
            name, other = (each.partition(".")[2] for each in (large[0], small[0]))
            above = float(np.min(large[1].values)) / max(small[1].median, EPSILON)
            early = small[1].first(ENOUGH_BATCHES).median
            late = small[1].last(ENOUGH_BATCHES).median
            is_learnt = late < CHANCE_SHARE * _chance(vitals, other)
            if above > self.times and not is_learnt and _is_sum(vitals, large[1]):
                yield Sign(
                    int(large[1].steps[0]),
                    f"{name} is {large[1].median:.3g} and {other} {small[1].median:.3g}, and only "
                    f"their sum is trained on: {other} went from {early:.3g} to {late:.3g}.",
                    tensor=name,
                    value=above,
                    threshold=self.times,
                )
                return


@dataclass
class LossWithoutBound(VitalsRule):
    """Something grows without limit, and the loss falls with it.

    Fires after at least 100 steps when the loss multiplies squares by exp(-s), has s nowhere else,
    and is lower than at the start. Also fires when at the end of at least 100 steps the loss is
    below zero and at its lowest, and

    - its terms, which are never below zero themselves, sum to more than `times` their sum at the
      start;
    - or it is computed from log probabilities of single classes, was never above zero, and is
      `times` as far below it as at the start: a likelihood that is minimised. What the script
      weighs by a reward, a return or an advantage is left out.
    """

    kind = Kind.CAUSE
    rests_on = ("loss_term/*",)
    advice = (
        "A learnt weight of a loss, or a term with a minus sign, has no lower bound: remove the "
        "sign, or learn log-variances: exp(-s) * loss + s. A log probability needs a minus sign."
    )

    times: float = parameter(3.0, "Sum of the terms at the end, relative to the start.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        objective = vitals.anatomy.objective or ObjectiveFacts()
        is_lower = vitals.late_loss < vitals.early_loss
        if objective.has_free_precision and vitals.last_step >= FAIR_STEPS and is_lower:
            yield Sign(
                0,
                "Squared errors are multiplied by exp(-s), and the loss has s nowhere else: a "
                f"larger s makes any error cost less. The loss fell to {vitals.late_loss:.4g}.",
                value=vitals.late_loss,
            )
            return
        if (
            not vitals.is_settled
            or vitals.last_step < FAIR_STEPS
            or len(vitals.anatomy.models) != 1
        ):
            return
        terms = vitals.series_by_name("loss_term/")
        if len(vitals.anatomy.optimizers) != 1 or not vitals.late_loss < 0:
            return
        if not terms:
            yield from self._likelihood(vitals)
            return
        if any(each.values.min() < 0 for each in terms.values() if len(each)):
            return
        early = sum(each.first(ENOUGH_BATCHES).median for each in terms.values())
        late = sum(each.last(ENOUGH_BATCHES).median for each in terms.values())
        known = vitals.loss.values[np.isfinite(vitals.loss.values)]
        if late > self.times * early and vitals.late_loss < _STILL_LOW * float(known.min()):
            below = np.flatnonzero(vitals.loss.values < 0)
            yield Sign(
                int(vitals.loss.steps[below[0]]),
                f"The loss fell from {vitals.early_loss:.4g} to {vitals.late_loss:.4g}, and what "
                f"it is made of grew from {early:.4g} to {late:.4g}.",
                value=late / max(early, EPSILON),
                threshold=self.times,
            )

    def _likelihood(self, vitals: VitalSigns) -> Iterator[Sign]:
        objective, known = vitals.anatomy.objective, vitals.loss.values
        if objective is None or not objective.is_likelihood or vitals.is_of_policy:
            return
        is_below = bool(np.isfinite(known).all() and known.max() <= 0)
        if is_below and vitals.late_loss < self.times * vitals.early_loss:
            yield Sign(
                int(vitals.loss.steps[0]),
                f"The loss is made of log probabilities, without a minus sign: it fell from "
                f"{vitals.early_loss:.4g} to {vitals.late_loss:.4g}, as the right classes got less "
                "likely.",
                value=vitals.late_loss / min(vitals.early_loss, -EPSILON),
                threshold=self.times,
            )


def _pairs(
    terms: dict[str, Series],
) -> Iterator[tuple[tuple[str, Series], tuple[str, Series]]]:
    """Each with each other of another kind, both measured at all checked steps."""
    most = max((len(each) for each in terms.values()), default=0)
    steady = [(name, each) for name, each in terms.items() if len(each) == most >= ENOUGH_BATCHES]
    for large in steady:
        for small in steady:
            if large[0].partition(".")[2] != small[0].partition(".")[2]:
                yield large, small


def _chance(vitals: VitalSigns, function: str) -> float:
    """Infinite where there is none: then any value is below it."""
    if function.startswith("binary_cross_entropy"):
        return math.log(2)
    sizes = [loss.num_classes for loss in vitals.anatomy.losses if loss.function == function]
    return math.log(sizes[0]) if sizes and sizes[0] and sizes[0] > 1 else math.inf


def _is_sum(vitals: VitalSigns, large: Series) -> bool:
    """Whether the loss is at least about as large as this term of it."""
    _, here, there = np.intersect1d(vitals.loss.steps, large.steps, return_indices=True)
    if not len(here):
        return False
    return bool(np.median(vitals.loss.values[here] / large.values[there]) > _OF_THE_SUM)
