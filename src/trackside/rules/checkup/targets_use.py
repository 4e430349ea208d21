"""Rules about what a loss over amounts is to reach."""

import math
from collections.abc import Iterable

from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.vitals_rule import ENOUGH_BATCHES, SHORT_RUN, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import FAIR_STEPS, VitalSigns

_EVEN = 1 / math.sqrt(12)
"""Standard deviation of numbers spread evenly, over their range."""

_LAST_BATCHES = 5
"""Batches of predictions at the end."""
_FAR = 0.01
"""Of the targets' size: predictions below it have not set out yet."""
_ROUNDING = 1e-6
"""Distance from 1 of the sum of a one-hot row."""
_ONE_HOT_LEFT = 0.5
"""Of the variance of one-hot rows, which a squared error explains slowly but well."""
_EXACT = 1e-9
"""Of the target's variance: less is left only by rounding."""
_ABOUT_EVEN = 0.8
"""Of the deviation of evenly spread numbers: counts and ages have less."""


@dataclass
class UnnormalizedTarget(VitalsRule):
    """Targets are so large that the model does not reach them.

    Fires when the root mean square of targets is above `size`, and one of these holds: the loss is
    NaN or infinite; after at least 100 steps, predictions are still worse than the targets' mean as
    a constant prediction; after at least 50 steps, no prediction has reached a hundredth of that
    size.
    """

    kind = Kind.CAUSE
    rests_on = ("target/mean", "target/std")
    advice = (
        "Scale targets to about mean 0 and standard deviation 1, with the mean and deviation of "
        "the training data, and scale the predictions back; or predict their logarithm."
    )

    size: float = parameter(30.0, "Root mean square that is too large.", at_least=0)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        mean, std = vitals.vital("target/mean").median, vitals.vital("target/std").median
        size = math.hypot(mean, std)
        if not vitals.is_settled or not size > self.size:
            return
        is_lost = math.isfinite(vitals.ends_at)
        low, high = (
            vitals.vital(f"loss_input/{end}").last(_LAST_BATCHES).median for end in ("min", "max")
        )
        is_far = vitals.last_step >= SHORT_RUN and max(abs(low), abs(high)) < _FAR * size
        if is_lost or is_far or (vitals.last_step >= FAIR_STEPS and vitals.unexplained > 1):
            how = f"predictions lie between {low:.3g} and {high:.3g}"
            if is_lost:
                how = "the loss is no longer finite"
            elif not is_far:
                how = f"predictions reach {high:.3g}, and the targets' mean alone would do better"
            yield Sign(
                0,
                f"Targets have mean {mean:.4g} and deviation {std:.3g}; after {vitals.last_step} "
                f"steps {how}.",
                value=size,
                threshold=self.size,
            )


@dataclass
class LabelsOutOfRange(VitalsRule):
    """A binary loss gets labels outside of [0, 1].

    Fires when over at least `num_batches` batches a target is below 0 or above 1: then the loss
    falls without limit as scores grow.
    """

    kind = Kind.MISTAKE
    rests_on = ("target/min", "target/max")
    advice = (
        "Turn the labels into 0 and 1 before the loss: (y + 1) / 2 for -1 and 1, y - 1 for 1 and "
        "2. For more than two classes use CrossEntropyLoss with an output for each."
    )

    num_batches: int = parameter(3, "Batches before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        loss = next(iter(vitals.anatomy.losses), None)
        low, high = vitals.vital("target/min"), vitals.vital("target/max")
        if loss is None or not loss.function.startswith("binary") or len(low) < self.num_batches:
            return
        lowest, highest = float(low.values.min()), float(high.values.max())
        if lowest < 0 or highest > 1:
            yield Sign(
                int(low.steps[0]),
                f"{loss.name} expects labels from 0 to 1 and is given {lowest:g} to {highest:g}.",
                tensor=f"{loss.name}_input_1",
                value=lowest if lowest < 0 else highest,
                threshold=0.0 if lowest < 0 else 1.0,
            )


@dataclass
class TargetLeaks(VitalsRule):
    """A column of the input says what the target is.

    Fires when in all of at least `num_batches` batches of a table of at least `columns` columns, of
    16 samples or more, the target is an exact linear function of one of them: the same in other
    units. Not reported if half of the columns are, as in windows of a series that rises evenly.
    """

    kind = Kind.CAUSE
    rests_on = ("input/off_line",)
    leaves_training_loss = True
    advice = (
        "Remove columns that are computed from the target, or known only afterwards. Correlate "
        "each column with the target to see which."
    )

    num_batches: int = parameter(10, "Batches before the rule may fire.", at_least=1)
    columns: int = parameter(4, "Fewest columns: in smaller tables it may be meant.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        left, held = vitals.vital("input/off_line"), vitals.vital("input/holds_target")
        if len(left) < self.num_batches or not left.values.max() < _EXACT:
            return
        width = vitals.vital("input/num_values").median / vitals.vital("batch_size").median
        if width >= self.columns and not (len(held) and held.values.min() == 1):
            yield Sign(
                int(left.steps[0]),
                f"In all {len(left)} batches the target is an exact linear function of one of "
                f"{width:.0f} input columns.",
                value=float(left.values.max()),
                threshold=_EXACT,
            )


@dataclass
class ClassesAsAmounts(VitalsRule):
    """Classes are predicted as if their numbers were amounts.

    Fires when a loss such as MSELoss gets whole numbers from 0 on, `fewest` to `most` different
    ones that are about equally frequent, as one target per sample, and more than `unexplained` of
    their variance remains at the end; or one-hot rows of which half remains.
    """

    kind = Kind.CAUSE
    rests_on = ("target/whole_share", "target/min", "target/max")
    explains = ("NothingLearnt",)
    leaves_training_loss = True
    advice = (
        "Give the model one output per class, and use CrossEntropyLoss with the class indices: "
        "class 7 is not greater than class 3."
    )

    fewest: int = parameter(3, "Smallest number of classes.", at_least=2)
    most: int = parameter(100, "Largest number of classes.", at_least=2)
    unexplained: float = parameter(
        0.05, "Share of the targets' variance that remains.", at_least=0, at_most=1
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        whole = vitals.vital("target/whole_share")
        if not vitals.is_settled or vitals.last_step < FAIR_STEPS or len(whole) < ENOUGH_BATCHES:
            return
        if whole.values.min() < 1 or len(vitals.anatomy.models) > 1:
            return
        left = vitals.unexplained
        num_classes = self._num_classes(vitals)
        rows = vitals.vital("target/row_sum_error")
        is_one_hot = len(rows) and rows.values.max() < _ROUNDING
        if is_one_hot and vitals.vital("target/num_values").median == 2 and left > _ONE_HOT_LEFT:
            yield self._sign(vitals, left, "one-hot rows")
        elif not len(rows) and num_classes and left > self.unexplained:
            yield self._sign(vitals, left, f"the whole numbers from 0 to {num_classes - 1}")

    def _num_classes(self, vitals: VitalSigns) -> int:
        """0 where the targets are not spread over whole numbers from 0 on."""
        low, high = vitals.vital("target/min"), vitals.vital("target/max")
        count = int(high.values.max()) + 1
        even = _EVEN * count
        if low.values.min() != 0 or not self.fewest <= count <= self.most:
            return 0
        return count if vitals.vital("target/std").median > _ABOUT_EVEN * even else 0

    def _sign(self, vitals: VitalSigns, left: float, what: str) -> Sign:
        loss = vitals.anatomy.losses[0]
        return Sign(
            0,
            f"{loss.name} is given {what} as targets, which look like classes, and {left:.0%} of "
            "their variance is left at the end.",
            tensor=f"{loss.name}_input_0",
            value=left,
            threshold=self.unexplained,
        )
