"""Rules about results and schedules, which no curve shows: what the script's text says, where the
run agrees with it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from trackside.capture.reading.anatomy import RemarkFacts
from trackside.rules.checkup.vitals_rule import Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import FAIR_STEPS, VitalSigns

_TWICE = 2
"""Steps of a schedule over passes of the loader: with one for each pass, or one more at the start,
it counts epochs."""
_GROUP = 2
"""Backwards of an update that adds up gradients."""
_BOTH = 2
"""Calls of a model with gradients for each update: of a state and of the next one."""
_SCALE_MATTERS = ("SGD", "Muon", "LBFGS", "ASGD", "Rprop")
"""Optimizers whose updates grow with the gradients; those like Adam divide by their size."""


@dataclass
class MetricMiscomputed(VitalsRule):
    """A result of the evaluation is computed wrongly from the model's outputs.

    Fires when the script compares raw scores with 0.5 where the loss takes them as logits, takes
    the highest score over the samples in place of the classes, or divides means over batches by the
    number of samples, and the model was evaluated, with such a loss.
    """

    kind = Kind.MISTAKE
    leaves_training_loss = True
    is_independent = True
    advice = (
        "Compare torch.sigmoid(scores) with 0.5; take argmax over the classes (dim=1); add up "
        "loss.item() * len(x), or divide by len(loader)."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if not _is_evaluated(vitals):
            return
        for remark in remarks(vitals, self):
            if "axis 0" in remark.message and not _has_rows(vitals):
                continue
            if "means over" in remark.message and not _are_means(vitals):
                continue
            yield sign(remark, f"It was evaluated {_num_evaluated(vitals)} times.")


@dataclass
class WorstWeightsKept(VitalsRule):
    """The weights with the worst result are kept as the best.

    Fires at the end when the script keeps the weights with the highest loss, or the lowest score,
    and the model was evaluated; where the loss of the evaluation is recorded, it has fallen.
    """

    kind = Kind.MISTAKE
    leaves_training_loss = True
    is_independent = True
    advice = "Turn the comparison around, and begin with float('inf') for a loss, or -inf."

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        known = vitals.evaluation_loss.values
        if not vitals.is_all or not _is_evaluated(vitals):
            return
        if not len(known) or np.nanmin(known) < known[0]:
            for remark in remarks(vitals, self):
                yield sign(remark, _course_of(vitals))


@dataclass
class AugmentedAlike(VitalsRule):
    """Every sample gets the same random changes, in every epoch.

    Fires when `__getitem__` of a data set makes a generator with a constant seed for each sample,
    or draws from one that the data set has made with a seed while workers of the loader, which are
    started anew for each pass, get a copy of it, or draws and keeps every result in a cache; and
    there were at least `num_passes` passes of training.
    """

    kind = Kind.MISTAKE
    leaves_training_loss = True
    explains = ("RepeatedBatches", "Overfitting", "EvaluationInputDiffers")
    advice = (
        "Draw from torch.rand or numpy.random, which torch seeds anew in every worker and epoch; "
        "without workers, also from one generator that is made once, in __init__."
    )

    num_passes: int = parameter(2, "Passes over the data.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        passes = _num_passes(vitals)
        loaders = [each for each in vitals.anatomy.loaders if each.num_trained]
        for remark in remarks(vitals, self) if passes >= self.num_passes else ():
            if "workers" in remark.message and not any(each.num_workers for each in loaders):
                continue
            yield sign(remark, f"There were {passes} passes over the data.")


@dataclass
class ScheduleInOtherUnits(VitalsRule):
    """A schedule is counted in epochs and stepped with every batch, or the reverse.

    Fires after at least 100 steps when the script says so, and the schedule was stepped more than
    twice for each pass over the data; or, for one that counts batches, at most once.
    """

    kind = Kind.MISTAKE
    rests_on = ("learning_rate/*",)
    explains = ("LearningRateZero", "LearningRateTooLow", "WarmUpNeverEnds", "NothingLearnt")
    leaves_training_loss = True
    advice = (
        "Count the schedule in what it is stepped with: T_max=epochs * len(loader) for a step "
        "after every batch, or T_max=epochs for one after every epoch."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        passes = _num_passes(vitals)
        if vitals.last_step < FAIR_STEPS or passes < _TWICE:
            return
        for remark in remarks(vitals, self):
            for each in vitals.anatomy.schedulers:
                is_often = each.num_steps > _TWICE * passes
                is_epochs = "counts epochs" in remark.message
                if remark.message.startswith(each.name) and is_often is is_epochs:
                    seen = f"It was stepped {each.num_steps} times in {passes} passes."
                    yield sign(remark, seen)


@dataclass
class ScheduleBeforeOptimizer(VitalsRule):
    """The schedule is stepped before the optimizer, so that its first rate is never used.

    Fires when the script calls `scheduler.step()` before `optimizer.step()` in its loop, and the
    first update had another rate than the optimizer's own.
    """

    kind = Kind.MISTAKE
    rests_on = ("learning_rate/*",)
    leaves_training_loss = True
    advice = "Call scheduler.step() after optimizer.step(), or at the end of the epoch."

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        rate = vitals.vital("learning_rate/0")
        group = next((g for each in vitals.anatomy.optimizers[:1] for g in each.groups), {})
        wanted = float(group.get("initial_lr") or 0.0)
        if not len(rate) or not vitals.anatomy.schedulers or not wanted:
            return
        first = float(rate.values[0])
        if not np.isclose(first, wanted):
            for remark in remarks(vitals, self):
                yield sign(remark, f"The first update has a rate of {first:.3g}, not {wanted:.3g}.")


@dataclass
class ScheduleOfAnotherOptimizer(VitalsRule):
    """The schedule changes the rate of an optimizer that is no longer used.

    Fires when a schedule was stepped at least `num_steps` times while its optimizer made no update
    in between, and another optimizer with some of its parameters did.
    """

    kind = Kind.MISTAKE
    rests_on = ("learning_rate/*",)
    is_independent = True
    leaves_training_loss = True
    advice = (
        "Make the schedule anew where the optimizer is made anew, or add the parameters to the "
        "optimizer that there is: optimizer.add_param_group."
    )

    num_steps: int = parameter(3, "Such steps of the schedule.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for each in vitals.anatomy.schedulers:
            if each.num_idle >= self.num_steps:
                yield Sign(
                    each.idle_since,
                    f"{each.name} was stepped {each.num_idle} times for an optimizer that made no "
                    "update in between, while another one trained the same parameters.",
                    tensor=each.name,
                    value=float(each.num_idle),
                    threshold=float(self.num_steps),
                )


@dataclass
class TimeDrawnAgain(VitalsRule):
    """A model is told another time than that of the noise in its input.

    Fires after at least 100 steps when the script draws the times twice, in the same way: once for
    the noise and once for the model.
    """

    kind = Kind.CAUSE
    leaves_training_loss = True
    advice = "Draw the times once, and give the same ones to the noise and to the model."

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if vitals.last_step >= FAIR_STEPS:
            for remark in remarks(vitals, self):
                yield sign(remark, f"It was trained so for {vitals.num_updates} updates.")


@dataclass
class ScheduleNeverStepped(VitalsRule):
    """A learning-rate schedule is made, and never used.

    Fires at the end of at least 100 steps, over several passes where a loader is used, when the
    script makes a schedule that it never steps, and none was stepped.
    """

    kind = Kind.MISTAKE
    rests_on = ("learning_rate/*",)
    leaves_training_loss = True
    advice = (
        "Call scheduler.step(), after each update or after each epoch as its length is counted."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
        if not vitals.is_all or vitals.last_step < FAIR_STEPS or anatomy.schedulers:
            return
        if anatomy.crash is None and (not anatomy.loaders or _num_passes(vitals) >= _TWICE):
            for remark in remarks(vitals, self):
                rate = vitals.vital("learning_rate/0")
                seen = f"The rate was {rate.values[-1]:.3g} to the end." if len(rate) else ""
                yield sign(remark, seen)


@dataclass
class TemperatureOnOneSide(VitalsRule):
    """A temperature softens the student's distribution or the teacher's, and not both.

    Fires after at least 100 steps when the script divides the input of only one of the two softmax
    functions that a divergence compares.
    """

    kind = Kind.CAUSE
    leaves_training_loss = True
    advice = "Divide both by the temperature, log_softmax(s / T) and softmax(t / T), times T * T."

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        is_used = any(each.function == "kl_div" for each in vitals.anatomy.losses)
        if is_used and vitals.last_step >= FAIR_STEPS:
            for remark in remarks(vitals, self):
                yield sign(remark, f"It was trained so for {vitals.num_updates} updates.")


@dataclass
class MeanOfMeans(VitalsRule):
    """An evaluation averages the means of batches, and a small last batch distorts it.

    Fires when the script adds up the mean losses of the batches of an evaluation and divides by
    their number, the last batch is less than half as large as the others, and in the middle of at
    least `num_evaluations` evaluations the result differs by `share` from the mean over samples.
    """

    kind = Kind.CAUSE
    rests_on = ("loss_value",)
    is_independent = True
    leaves_training_loss = True
    advice = (
        "Weight each batch by its size, total += loss.item() * len(x), and divide by the number of "
        "samples."
    )

    num_evaluations: int = parameter(3, "Evaluations that are known as a whole.", at_least=1)
    share: float = parameter(0.1, "Of the mean over samples.", at_least=0)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        found = list(remarks(vitals, self))
        if not vitals.is_all or not found:
            return
        apart = list(_apart_by_last(vitals))
        if len(apart) >= self.num_evaluations and abs(np.median(apart)) >= self.share:
            yield sign(
                found[0],
                f"The last batch is smaller, and makes the result {np.median(apart):+.0%} of what "
                "it is over all samples.",
            )


@dataclass
class NoiseNotAdded(VitalsRule):
    """A model is to predict noise that is not in its input.

    Fires after at least 100 steps when the script draws normal noise that is the target of a loss
    and is used for nothing else, and the loss is as high as without a model.
    """

    kind = Kind.CAUSE
    explains = ("NothingLearnt",)
    advice = (
        "Draw the noise once: the noise that is added to the sample is the target of the loss. "
        "Look for a second randn in the call that adds it, or for a default that draws its own."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if vitals.last_step >= FAIR_STEPS and vitals.is_stuck:
            for remark in remarks(vitals, self):
                yield sign(remark, f"The loss is {vitals.late_loss:.3g}.")


@dataclass
class TargetWithGradients(VitalsRule):
    """A network is trained through the target that it computes itself.

    Fires after at least 100 steps when the script computes a target of temporal differences,
    reward + gamma * value, with gradients, by a model that an optimizer has, and never detaches it.
    """

    kind = Kind.CAUSE
    leaves_training_loss = True
    advice = "Compute the target within torch.no_grad(), or detach it."

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        grad = vitals.anatomy.num_forwards(training=True, grad=True)
        if vitals.last_step >= FAIR_STEPS and grad >= _BOTH * vitals.num_updates:
            for remark in remarks(vitals, self):
                yield sign(remark, f"The model was called {grad} times with gradients.")


@dataclass
class AccumulationMiscounted(VitalsRule):
    """Gradients are added up, and the first update of each pass has those of one batch.

    Fires when the script steps under `i % k == 0`, with i from 0, most checked updates had several
    backwards, and some had another number of them.
    """

    kind = Kind.MISTAKE
    leaves_training_loss = True
    advice = "Write if (i + 1) % k == 0 or i + 1 == len(loader), so that each group is complete."

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        counts = _backwards_per_step(vitals)
        usual = max(counts, key=lambda number: counts[number], default=0)
        others = sorted({*counts} - {0, usual})
        if usual >= _GROUP and others and len(vitals.anatomy.optimizers) == 1:
            for remark in remarks(vitals, self):
                seen = f"Updates had {usual} backwards each, and some {others[0]}."
                yield sign(remark, seen)


@dataclass
class AccumulationNotDivided(VitalsRule):
    """Gradients of several batches are added up, and none is divided by their number.

    Fires when the script steps every k batches and never divides by k, most checked updates had
    several backwards on the very value of a mean loss, and the updates grow with the gradients,
    as those of SGD do; gradients that are clipped are left out.
    """

    kind = Kind.CAUSE
    leaves_training_loss = True
    advice = "Call (loss / k).backward(), or divide the learning rate by k."

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
        counts = _backwards_per_step(vitals)
        usual = max(counts, key=lambda number: counts[number], default=0)
        if usual < _GROUP or anatomy.num_clipped:
            return
        kinds = [each.type for each in anatomy.optimizers]
        is_whole = any(each.is_objective and each.reduction == "mean" for each in anatomy.losses)
        if is_whole and len(kinds) == 1 and kinds[0] in _SCALE_MATTERS:
            for remark in remarks(vitals, self):
                yield sign(remark, f"{kinds[0]} stepped after {usual} backwards.")


@dataclass
class MaskNotUsed(VitalsRule):
    """A model is given a mask that it does not use.

    Fires when `forward` of a model takes a mask or the numbers of packed texts, a call gives them,
    and the method never reads them, after at least `num_steps` optimizer steps.
    """

    kind = Kind.CAUSE
    leaves_training_loss = True
    advice = (
        "Give the mask to the attention or to the pooling. For packed texts, let each token see "
        "only those of its own text: mask & (ids[:, :, None] == ids[:, None, :])."
    )

    num_steps: int = parameter(10, "Optimizer steps before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if vitals.num_updates >= self.num_steps:
            for remark in remarks(vitals, self):
                yield sign(remark, f"There were {vitals.num_updates} updates.")


def remarks(vitals: VitalSigns, rule: VitalsRule) -> Iterator[RemarkFacts]:
    """What reading the script found, under the rule's own name."""
    return (each for each in vitals.anatomy.remarks if each.rule == rule.name())


def sign(remark: RemarkFacts, seen: str) -> Sign:
    return Sign(0, f"{remark.place}: {remark.message} {seen}", tensor=remark.place)


def _is_evaluated(vitals: VitalSigns) -> bool:
    return _num_evaluated(vitals) > 0


def _num_evaluated(vitals: VitalSigns) -> int:
    return sum(each.count for each in vitals.anatomy.forwards if not each.grad)


def _has_rows(vitals: VitalSigns) -> bool:
    """Whether scores have an axis of samples, of several."""
    shapes = [each.shapes[0] for each in vitals.anatomy.losses if each.shapes]
    return any(len(shape) > 1 and shape[0] > 1 for shape in shapes)


def _are_means(vitals: VitalSigns) -> bool:
    losses = vitals.anatomy.losses
    return bool(losses) and all(each.reduction == "mean" for each in losses)


def _course_of(vitals: VitalSigns) -> str:
    known = vitals.evaluation_loss.values
    if not len(known):
        return f"It was evaluated {_num_evaluated(vitals)} times."
    return (
        f"The loss of the evaluation has come down from {known[0]:.3g} to {np.nanmin(known):.3g}."
    )


def _apart_by_last(vitals: VitalSigns) -> Iterator[float]:
    """By how much the mean of the batches' losses differs from that of the samples, for each
    evaluation of which all batches are known and the last one is much smaller."""
    loss, size = vitals.evaluation_loss, vitals.vital("batch_size", training=False)
    sizes = dict(zip(size.steps.tolist(), size.values.tolist(), strict=True))
    steps = [step for step in loss.steps.tolist() if step in sizes]
    values = dict(zip(loss.steps.tolist(), loss.values.tolist(), strict=True))
    starts = [n for n, step in enumerate(steps) if not n or step != steps[n - 1] + 1]
    for first, end in zip(starts, [*starts[1:], len(steps)], strict=True):
        held = np.array([sizes[step] for step in steps[first:end]])
        of_batches = np.array([values[step] for step in steps[first:end]])
        if len(held) < _TWICE or np.ptp(held[:-1]) or _TWICE * held[-1] >= held[0]:
            continue
        mean = float(np.average(of_batches, weights=held))
        if mean:
            yield float(of_batches.mean()) / mean - 1


def _num_passes(vitals: VitalSigns) -> int:
    """Over the data of training."""
    loaders = [each for each in vitals.anatomy.loaders if each.num_trained]
    return max((each.num_passes for each in loaders), default=0)


def _backwards_per_step(vitals: VitalSigns) -> dict[int, int]:
    known: dict[int, int] = {}
    for each in vitals.anatomy.optimizers:
        for number, count in (each.backwards_per_step or {}).items():
            known[int(number)] = known.get(int(number), 0) + count
    return known
