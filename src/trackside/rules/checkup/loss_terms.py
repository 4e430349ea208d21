"""Rules about losses that are the sum of several."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from trackside.rules.checkup.signs_rule import Sign, SignsRule
from trackside.rules.parameters import parameter
from trackside.rules.saved.vital_signs import Series, Signs


@dataclass
class LossTermDominates(SignsRule):
    """One term of the loss is so large that the other is not learnt.

    Fires when of two losses that are added as they are one is more than `times` the other from
    start to end, and the smaller one, over classes, is still at chance. A small term of another
    kind may be all that is wanted of it.
    """

    advice = (
        "Bring the terms to one size: scale the targets of the larger one to about 1, or weigh the "
        "terms, so that each begins at about 1."
    )

    times: float = parameter(50.0, "The larger term over the smaller.", at_least=1)

    def judge(self, signs: Signs) -> Iterable[Sign]:
        if not signs.is_settled or signs.last_step < 100 or len(signs.anatomy.models) != 1:
            return
        for large, small in _pairs(signs.vitals("loss_term/")):
            name, other = (each.partition(".")[2] for each in (large[0], small[0]))
            above = float(np.min(large[1].values)) / max(small[1].median, 1e-12)
            early, late = small[1].first(10).median, small[1].last(10).median
            is_learnt = late < 0.9 * _chance(signs, other)
            if above > self.times and not is_learnt and _is_sum(signs, large[1]):
                yield Sign(
                    int(large[1].steps[0]),
                    f"{name} is {large[1].median:.3g} and {other} {small[1].median:.3g}, and only "
                    f"their sum is trained on: {other} went from {early:.3g} to {late:.3g}.",
                    tensor=name,
                    value=above,
                    threshold=self.times,
                )
                return


def _pairs(
    terms: dict[str, Series],
) -> Iterator[tuple[tuple[str, Series], tuple[str, Series]]]:
    """Each with each other of another kind, both of all steps that were looked at."""
    most = max((len(each) for each in terms.values()), default=0)
    steady = [(name, each) for name, each in terms.items() if len(each) == most >= 10]
    for large in steady:
        for small in steady:
            if large[0].partition(".")[2] != small[0].partition(".")[2]:
                yield large, small


def _chance(signs: Signs, function: str) -> float:
    """Infinite where there is none: then any value is below it."""
    if function.startswith("binary_cross_entropy"):
        return math.log(2)
    sizes = [loss.num_classes for loss in signs.anatomy.losses if loss.function == function]
    return math.log(sizes[0]) if sizes and sizes[0] and sizes[0] > 1 else math.inf


def _is_sum(signs: Signs, large: Series) -> bool:
    """Whether the loss is at least about as large as this term of it."""
    _, here, there = np.intersect1d(signs.loss.steps, large.steps, return_indices=True)
    if not len(here):
        return False
    return bool(np.median(signs.loss.values[here] / large.values[there]) > 0.9)
