"""Rules about how a loss is set up: its weights, what it ignores, smooths and sums."""

import math
from collections.abc import Iterable, Iterator
from itertools import permutations

from trackside.capture.reading.anatomy import LossFacts
from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.vitals_rule import ENOUGH_BATCHES, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import VitalSigns

_MORE_FREQUENT = 2.0
"""Times as many targets of one class as of another: less may be chance in the sampled batches."""
_SCALED_BY_GRADIENT = ("SGD", "Adagrad", "ASGD", "Rprop", "LBFGS")
"""Optimizers whose first steps grow with the loss. Adam and its kin divide by the gradient's
size."""


@dataclass
class ClassWeightsReversed(VitalsRule):
    """A loss weighs frequent classes more than rare ones.

    Fires when after at least `num_targets` sampled targets each class that is at least twice as
    frequent as another one has the greater weight; for a binary loss, when its `pos_weight` is
    below 1 and positives are rare, or above 1 and they are frequent.
    """

    kind = Kind.CAUSE
    explains = ("OneClassPredicted", "NothingLearnt")
    leaves_training_loss = True
    advice = (
        "Weigh classes by the inverse of their counts: total / (classes * count). `weight` is in "
        "the order of the class numbers. `pos_weight` is negatives / positives."
    )

    num_targets: int = parameter(200, "Targets before the rule may fire.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for loss in vitals.anatomy.losses:
            if sum(loss.class_counts) < self.num_targets or not _is_reversed(loss):
                continue
            counts = loss.class_counts
            known = [number for number, count in enumerate(counts) if count]
            common, rare = max(known, key=counts.__getitem__), min(known, key=counts.__getitem__)
            yield Sign(
                0,
                f"{loss.name} weighs class {common}, which is {counts[common] / counts[rare]:.3g} "
                f"times as frequent as class {rare}, with {loss.weights[common]:.3g} and class "
                f"{rare} with {loss.weights[rare]:.3g}: rare classes count even less.",
                tensor=f"{loss.name}_input_0",
                value=loss.weights[common] / max(loss.weights[rare], 1e-12),
                threshold=1.0,
            )


def _is_reversed(loss: LossFacts) -> bool:
    pairs = [
        (loss.weights[common], loss.weights[rare])
        for common, rare in permutations(range(len(loss.class_counts)), 2)
        if loss.class_counts[rare]
        and loss.class_counts[common] >= _MORE_FREQUENT * loss.class_counts[rare]
    ]
    return bool(pairs) and all(of_common > of_rare for of_common, of_rare in pairs)


@dataclass
class RealClassIgnored(VitalsRule):
    """The `ignore_index` of a loss is one of its classes, which is never learnt.

    Fires when in each of at least `num_batches` batches the ignored class, for which the model has
    an output, is the target of a sample, or stands between other targets of a sequence, where no
    padding is. Classes that are tokens of the input are left out: one of them is padding.
    """

    kind = Kind.CAUSE
    leaves_training_loss = True
    rests_on = ("labels/ignored_inside",)
    advice = (
        "Fill padding with a number that is no class, such as -100, which is the default of "
        "`ignore_index`; or give padding a class of its own."
    )

    num_batches: int = parameter(ENOUGH_BATCHES, "Batches before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        inside = vitals.vital("labels/ignored_inside")
        loss = next((e for e in vitals.anatomy.losses if e.ignored is not None), None)
        if loss is None or len(inside) < self.num_batches or not inside.values.min() > 0:
            return
        tables = {p.shape[0] for p in vitals.anatomy.parameters if p.name in vitals.anatomy.tables}
        if loss.num_classes in tables:
            return
        yield Sign(
            int(inside.steps[0]),
            f"{loss.name} ignores class {loss.ignored} of {loss.num_classes}, and it is a target "
            f"in {inside.median:.0%} of the rows, where no padding is.",
            tensor=f"{loss.name}_input_1",
            value=inside.median,
            threshold=0.0,
        )


@dataclass
class SmoothedTwice(VitalsRule):
    """A loss smooths labels that are smoothed already.

    Fires when `label_smoothing` is set and in each of at least `num_batches` batches no target
    probability is 0: labels of classes, also mixed ones, have zeros.
    """

    kind = Kind.CAUSE
    leaves_training_loss = True
    rests_on = ("target/soft_min",)
    advice = "Smooth once: remove `label_smoothing`, or give the loss the class numbers."

    num_batches: int = parameter(ENOUGH_BATCHES, "Batches before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        low = vitals.vital("target/soft_min")
        loss = next((e for e in vitals.anatomy.losses if e.smoothing > 0), None)
        if loss is None or len(low) < self.num_batches or not low.values.min() > 0:
            return
        yield Sign(
            int(low.steps[0]),
            f"{loss.name} smooths labels by {loss.smoothing:g}, and its targets are probabilities "
            f"of at least {low.values.min():.2g} already.",
            tensor=f"{loss.name}_input_1",
            value=float(low.values.min()),
            threshold=0.0,
        )


@dataclass
class LossSummed(VitalsRule):
    """The loss is a sum over the batch, and the rate is too high for it.

    Fires when `backward` is called on a loss with `reduction="sum"` over several values, the
    optimizer's steps grow with the gradient, as those of SGD do, and the loss ends up not finite or
    above its start.
    """

    kind = Kind.CAUSE
    explains = ("LearningRateTooHigh", "ExplodingGradient", "SaturatedLayer", "DeadLayer")
    advice = (
        'Use `reduction="mean"`, or divide the sum by the number of samples: gradients of a sum '
        "are as many times larger, and usual rates are for a mean."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        optimizers = vitals.anatomy.optimizers
        is_scaled = all(each.type in _SCALED_BY_GRADIENT for each in optimizers)
        if not optimizers or not is_scaled or not vitals.is_settled:
            return
        is_lost = math.isfinite(vitals.ends_at) or vitals.late_loss > vitals.early_loss
        for loss, count in _summed(vitals.anatomy.losses):
            if is_lost:
                yield Sign(
                    0,
                    f"{loss.name} sums over {count} values, so gradients are {count} times those "
                    f"of the mean, and the loss went from {vitals.early_loss:.4g} to "
                    f"{vitals.late_loss:.4g}.",
                    tensor=loss.name,
                    value=float(count),
                    threshold=1.0,
                )


def _summed(losses: Iterable[LossFacts]) -> Iterator[tuple[LossFacts, int]]:
    for loss in losses:
        count = math.prod(loss.shapes[-1]) if loss.shapes else 1
        if loss.reduction == "sum" and loss.is_objective and count > 1:
            yield loss, count
