"""Rules about how far each update goes: too far, not far enough, or nowhere."""

import math
from collections.abc import Iterable, Iterator

import numpy as np

from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.vitals_rule import (
    ENOUGH_BATCHES,
    FEW_BATCHES,
    HALVED,
    SHORT_RUN,
    Sign,
    VitalsRule,
)
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import FAIR_STEPS, FEWEST_LOSSES, Series, VitalSigns

_NOTHING_BESIDE = 1e-6
"""Of another optimizer's rate: no pair of rates that is meant differs this much."""
_MOVED_FOR_AMOUNTS = 0.2
"""Losses over amounts have no level of chance to compare with, so less movement is demanded."""
_LUCK, _LUCK_IF_NOT_MOVED, _NOT_MOVED = 0.1, 0.5, 0.1
"""A noisy loss over amounts may fall by a tenth by luck, and by half where the weights moved less
than a tenth of the limit, which teaches nothing."""
_FIRST_UPDATES = 5
"""Updates before a warm-up or clipping would be noticed."""
_RAISED = 1.5
"""Times its start: a loss that high, with large updates, is not noise."""
_HUGE_UPDATE = 0.5
"""Of the weights' length: half of what they were is replaced in one update."""
_BLOWN_UP, _LITTLE_LEARNT = 10.0, 0.2
"""A loss that was ten times its start and ends above a fifth of it has learnt little."""
_HARDLY_LEARNT = 0.85
"""Of its start: with a loss that ends above, next to nothing was learnt."""
_NUMB = 0.2
"""Gradients of the second half over the first ones: the units have saturated or died."""
_ERASED = 100.0
"""Times its start: nothing of the initial weights is left."""
_SLOW_STEPS, _SLOW_FALL, _SLOW_UNEXPLAINED = 200, 1 / 6, 0.8
"""After 200 steps a training that gets anywhere has fallen by a sixth, is a sixth below chance, or
explains a fifth of the targets' variance."""
_TINY_NORM = 0.01
"""Of the loss: gradients that small are not those of an ordinary batch seen again."""
_CLIPPED_SPREAD = 0.03
"""Largest norm minus smallest, over the median: unclipped norms differ by far more."""


@dataclass
class LearningRateZero(VitalsRule):
    """The learning rate is zero, or becomes negligible long before the end.

    Fires when it was 0 in all of the first `num_updates` checked updates. Also fires when it has
    been below `share` of its highest value for as many steps as came before, at least 50.
    ReduceLROnPlateau may do so at the end of a training, but not before anything is learnt. With
    several optimizers that take turns, also fires when the rate of one is 0, or a millionth of the
    others'.
    """

    kind = Kind.MISTAKE
    rests_on = ("learning_rate/*", "update_ratio")
    advice = (
        "Print optimizer.param_groups[0]['lr'] in the loop, and check the scheduler: its factor at "
        "the start, integer division, whether step() belongs to the epoch or the batch, and, for "
        "ReduceLROnPlateau, whether `mode` suits the metric that it gets."
    )

    num_updates: int = parameter(10, "Updates at the start with a rate of 0.", at_least=1)
    share: float = parameter(
        1e-3, "Share of the highest rate below which a rate is negligible.", at_least=0
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        rate = _highest_rate(vitals)
        if len(rate) < self.num_updates:
            return
        peak = float(rate.values.max())
        yield from self._beside_others(vitals)
        if peak == 0:
            yield Sign(
                int(rate.steps[0]),
                f"The learning rate is 0 in all {len(rate)} updates that were checked.",
                value=0.0,
                threshold=0.0,
            )
            return
        # Stepped with each batch, it takes the loss's noise for a plateau.
        waits = any(
            each.name == "ReduceLROnPlateau" and each.num_steps < vitals.num_updates / 2
            for each in vitals.anatomy.schedulers
        )
        falls_by_plan = waits and not vitals.is_stuck
        enough = np.flatnonzero(rate.values >= self.share * peak)
        place = int(enough[-1]) + 1
        if falls_by_plan or place >= len(rate):
            return
        before = int(rate.steps[place] - rate.steps[0])
        since = vitals.last_step - int(rate.steps[place])
        if since >= max(SHORT_RUN, before):
            value = float(rate.values[-1])
            yield Sign(
                int(rate.steps[place]),
                f"The learning rate fell from {peak:.3g} to {value:.3g}, less than {self.share:g} "
                f"of the peak, and the last {since} steps changed nothing.",
                value=value,
                threshold=self.share * peak,
            )

    def _beside_others(self, vitals: VitalSigns) -> Iterator[Sign]:
        kinds = {each.index: each.type for each in vitals.anatomy.optimizers}
        rates = {index: _highest_rate(vitals, index) for index in kinds}
        for index, rate in rates.items():
            if len(rate) < self.num_updates:
                continue
            others = [
                float(each.values.max())
                for other, each in rates.items()
                if other != index
                and kinds[other] == kinds[index]
                and len(each) >= self.num_updates
                and each.steps[0] < rate.steps[-1]
                and rate.steps[0] < each.steps[-1]
            ]
            highest = float(rate.values.max())
            if others and highest < _NOTHING_BESIDE * max(others):
                yield Sign(
                    int(rate.steps[0]),
                    f"Optimizer {index} ({kinds[index]}) has a learning rate of {highest:.3g}, and "
                    f"another {kinds[index]} one of {max(others):.3g}: the first changes nothing.",
                    value=highest,
                    threshold=_NOTHING_BESIDE * max(others),
                )


@dataclass
class LearningRateTooLow(VitalsRule):
    """Updates are so small that the whole training hardly changes the weights.

    Fires when all updates together moved the weights by less than `moved` of their norm in 100
    steps or more, and the loss is about where it started: at the level of chance for classes. If
    they moved by less than `slow` in 200 steps, the loss may have fallen by a sixth, if it is still
    within a sixth of chance, or four fifths of the loss of predicting the mean. Trainings that
    succeed move their weights by more than half of their norm.
    """

    kind = Kind.CAUSE
    rests_on = ("learning_rate/*", "update_ratio", "gradient_norm")
    advice = "Multiply the learning rate by ten, repeatedly, until the loss falls."

    moved: float = parameter(
        0.02, "Total change of the weights, relative to their norm.", at_least=0
    )
    slow: float = parameter(0.1, "The same for a loss that falls a little.", at_least=0)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        rate = _highest_rate(vitals)
        # Weights that did not move taught nothing: then the fall of a noisy loss is luck.
        limit = self.moved if vitals.chance is not None else self.moved * _MOVED_FOR_AMOUNTS
        luck = _LUCK if vitals.moved > limit * _NOT_MOVED else _LUCK_IF_NOT_MOVED
        is_luck = vitals.chance is None and vitals.is_settled and vitals.fall < luck
        if _is_hardly_trained(vitals):
            limit = self.slow
        elif not (vitals.is_stuck or (is_luck and vitals.last_step >= FAIR_STEPS)):
            return
        if not len(rate) or rate.values.max() == 0:
            return
        if 0 < vitals.moved < limit and not _is_clipped(vitals):
            yield Sign(
                0,
                f"In {vitals.num_updates} updates at a learning rate of {rate.median:.3g} the "
                f"weights moved by {vitals.moved:.2g} of their length, less than {limit:g}, and "
                f"the loss stays at {vitals.late_loss:.4g}.",
                value=vitals.moved,
                threshold=limit,
            )


@dataclass
class GradientClippedAway(VitalsRule):
    """Clipping leaves hardly anything of the gradients.

    Fires when the gradient norm that the optimizer uses is the same at every step, which only
    clipping causes, and the weights moved by less than `moved` of their norm in 100 steps or more,
    with the loss where it started. Also fires when gradients are clipped and from some step on, for
    the longer part of the run, their norm is the same and, as the updates, less than `lost` of what
    it was before.
    """

    kind = Kind.CAUSE
    rests_on = ("gradient_norm", "update_ratio")
    advice = (
        "Raise max_norm of clip_grad_norm_: print the norm that it returns, and set max_norm above "
        "the usual value."
    )

    moved: float = parameter(
        0.02, "Total change of the weights, relative to their norm.", at_least=0
    )
    lost: float = parameter(1e-3, "Share of the norm and of the updates that is left.", at_least=0)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        yield from self._from_some_step_on(vitals)
        norm = vitals.vital("gradient_norm")
        if vitals.is_stuck and _is_clipped(vitals) and vitals.moved < self.moved:
            yield Sign(
                int(norm.steps[0]),
                f"The gradient norm is {norm.median:.3g} at every step: it is clipped to that, "
                f"and in {vitals.num_updates} updates the weights moved by {vitals.moved:.2g} of "
                "their length.",
                value=norm.median,
                threshold=self.moved,
            )

    def _from_some_step_on(self, vitals: VitalSigns) -> Iterator[Sign]:
        norm, ratio = vitals.vital("gradient_norm"), vitals.vital("update_ratio")
        large = np.flatnonzero(norm.values > self.lost * norm.first(_FIRST_UPDATES).median)
        place = int(large[-1]) + 1 if len(large) else 0
        if not vitals.anatomy.num_clipped or not place or len(norm) - place < ENOUGH_BATCHES:
            return
        step = int(norm.steps[place])
        after = norm.since(step)
        is_flat = float(np.ptp(after.values)) < _CLIPPED_SPREAD * after.median
        is_lost = ratio.since(step).median < self.lost * ratio.where(ratio.steps < step).median
        if is_flat and is_lost and vitals.last_step - step >= max(SHORT_RUN, step):
            yield Sign(
                step,
                f"From step {step} on the gradient norm is {after.median:.3g}, to which it is "
                f"clipped, and was {norm.where(norm.steps < step).median:.3g} before: the weights "
                "hardly change any more.",
                value=after.median,
                threshold=self.lost,
            )


@dataclass
class LearningRateTooHigh(VitalsRule):
    """Updates are so large that they undo what was learnt.

    Fires when updates of more than `ratio` of the weights' norm were made, and the loss rose to
    `growth` times its start and ends there, as NaN or infinity, or where it started. Other
    conditions that are sufficient:

    - An update of half the weights' norm that makes the loss ten times larger, if little is learnt
      later; or 1.5 times larger, if almost nothing is learnt.
    - Such updates among the first five, after which gradients are a fifth of what they were and
      nothing is learnt.
    - An update that is larger than the weights' norm and makes the loss a hundred times larger,
      whatever happens later: nothing remains of the initial weights.

    A first update that is not finite because the gradient was not, at a finite loss, is no matter
    of the rate.
    """

    kind = Kind.CAUSE
    rests_on = ("update_ratio", "learning_rate/*", "gradient_norm", "gradients:l2")
    advice = (
        "Divide the learning rate by ten, repeatedly, until the loss falls from the start. Warm-up "
        "or clipping helps if only the first steps are too large."
    )

    ratio: float = parameter(0.1, "Norm of an update, relative to the weights' norm.", at_least=0)
    growth: float = parameter(3.0, "Loss that is too high, relative to the first loss.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        update, loss = vitals.vital("update_ratio"), vitals.loss
        if not len(update) or len(loss) < _FIRST_UPDATES:
            return
        large = update.values > self.ratio
        large |= ~np.isfinite(update.values)
        if not large.any():
            return
        first_large = int(np.flatnonzero(large)[0])
        step = int(update.steps[first_large])
        if not math.isfinite(update.values[first_large]) and _is_infinite(vitals, step):
            return  # a gradient that is not finite makes such an update at any rate
        start = max(abs(vitals.early_loss), abs(vitals.first_loss))
        finite = np.isfinite(loss.values)
        later = loss.values[finite & (loss.steps > step)]
        peak = float(np.abs(later).max()) if len(later) else math.nan
        lost = not math.isfinite(vitals.late_loss)
        # A spike that is over soon is the first steps' own.
        stays = not lost and vitals.is_settled and vitals.late_loss > self.growth * start
        rises = peak > self.growth * start and (lost or vitals.is_stuck)
        lasting = update.since(vitals.last_step / 2).median > self.ratio
        never = vitals.is_stuck and not lost and (lasting or peak > _RAISED * start)
        worst = float(update.values[np.isfinite(update.values)].max(initial=0.0))
        first = abs(vitals.first_loss)
        blown = worst > _HUGE_UPDATE and vitals.is_settled and vitals.last_step >= FAIR_STEPS
        wasted = blown and peak > _BLOWN_UP * start and vitals.late_loss > _LITTLE_LEARNT * start
        wasted |= blown and peak > _RAISED * first and vitals.late_loss > _HARDLY_LEARNT * first
        # What the first updates have broken, as a transformer without warm-up, learns no more.
        norm = vitals.vital("gradient_norm")
        early_norm = norm.first(FEW_BATCHES).median
        is_numb = norm.since(vitals.last_step / 2).median < _NUMB * early_norm
        never |= vitals.is_stuck and not lost and bool(large[:_FIRST_UPDATES].any()) and is_numb
        # Of several optimizers one may belong to another try.
        replaced = worst > 1 and peak > _ERASED * start and len(vitals.anatomy.optimizers) == 1
        if rises or stays or never or wasted or replaced:
            rate = _highest_rate(vitals)
            yield Sign(
                step,
                f"At a learning rate of {rate.median:.3g} an update is up to {worst:.2g} of the "
                f"weights' length, above {self.ratio:g}; the loss went from {start:.4g} to "
                f"{peak:.4g} and is {vitals.late_loss:.4g} now.",
                value=worst,
                threshold=self.ratio,
            )


@dataclass
class WeightDecayTooStrong(VitalsRule):
    """Weight decay shrinks the weights to nothing.

    Fires when an optimizer has a weight decay and the norm of all its weights is below `share` of
    its initial value. Also fires when decay alone takes `pull` of them at each update (learning
    rate times weight decay), they have not grown, and the loss has not fallen to half.
    """

    kind = Kind.CAUSE
    rests_on = ("learning_rate/*", "weights:l2")
    advice = "Lower weight_decay to a hundredth: 1e-4 (SGD) and 1e-2 (AdamW) are usual."

    share: float = parameter(
        0.2, "Share of the initial norm of the weights.", at_least=0, at_most=1
    )
    pull: float = parameter(
        5e-3, "Share of the weights that decay removes at each update.", at_least=0
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        decays = [
            float(group.get("weight_decay") or 0)
            for optimizer in vitals.anatomy.optimizers
            for group in optimizer.groups
        ]
        if not decays or max(decays) <= 0:
            return
        trained = [p.name for p in vitals.anatomy.parameters if p.is_trained and len(p.shape) > 1]
        lengths = [each for name in trained if len(each := vitals.figure(name, "l2")) > 1]
        if not lengths:
            return
        first = math.sqrt(sum(float(each.values[0]) ** 2 for each in lengths))
        now = math.sqrt(sum(float(each.values[-1]) ** 2 for each in lengths))
        pull = _highest_rate(vitals).median * max(decays)
        pulls = pull > self.pull and now < first and vitals.is_settled and vitals.fall < HALVED
        if now < self.share * first or pulls:
            yield Sign(
                int(lengths[0].steps[0]),
                f"A weight decay of {max(decays):g} takes {pull:.2g} of the weights at each "
                f"update; they are at {now / first:.2g} of their first length.",
                value=now / first,
                threshold=self.share,
            )


def _is_infinite(vitals: VitalSigns, step: int) -> bool:
    """Whether the gradient was no longer finite then, while the loss still was."""
    norm = vitals.vital("gradient_norm")
    there = norm.where(norm.steps == step).values
    return len(there) > 0 and not np.isfinite(there).any() and vitals.ends_at > step


def _is_hardly_trained(vitals: VitalSigns) -> bool:
    """The loss began where a model is that knows nothing, and has not come far."""
    if not vitals.is_settled or vitals.last_step < _SLOW_STEPS or vitals.fall > _SLOW_FALL:
        return False
    if len(vitals.anatomy.models) > 1:
        return False  # of a generator and its critic neither is to win
    if vitals.chance is None:
        return vitals.unexplained > _SLOW_UNEXPLAINED
    return vitals.late_loss > (1 - _SLOW_FALL) * vitals.chance


def _highest_rate(vitals: VitalSigns, optimizer: int | None = None) -> Series:
    """Of all groups, or of those of one optimizer, at each step."""
    rates = [
        rate
        for name, rate in vitals.series_by_name("learning_rate/").items()
        if optimizer is None or int(name.partition(".")[0] if "." in name else 0) == optimizer
    ]
    if not rates:
        return Series()
    steps = np.unique(np.concatenate([each.steps for each in rates]))
    highest = np.zeros(len(steps))
    for each in rates:
        places = np.searchsorted(steps, each.steps)
        highest[places] = np.maximum(highest[places], each.values)
    return Series(steps, highest)


def _is_clipped(vitals: VitalSigns) -> bool:
    """Always nearly the same: from batch to batch an unclipped norm differs by far more. For one
    repeated batch it does not; then only a norm far below the loss is taken for clipped."""
    norm, prints = vitals.vital("gradient_norm"), vitals.vital("input/fingerprint")
    if len(norm) < FEWEST_LOSSES or not norm.median > 0:
        return False
    is_one_batch = len(prints) > 0 and np.ptp(prints.values) == 0
    is_tiny = norm.median < _TINY_NORM * abs(vitals.late_loss)
    return float(np.ptp(norm.values)) < _CLIPPED_SPREAD * norm.median and (
        is_tiny or not is_one_batch
    )
