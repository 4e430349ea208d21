"""Rules about what goes in: inputs, labels, and the order in which they come."""

import math
from collections.abc import Iterable, Iterator

import numpy as np

from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.vitals_rule import (
    ENOUGH_BATCHES,
    FEW_BATCHES,
    HALVED,
    LEARNT_WELL,
    SMALL_BATCH,
    Sign,
    VitalsRule,
)
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import EPSILON, FAIR_STEPS, Series, VitalSigns

_LAYERS = ("Linear", "Conv1d", "Conv2d", "Conv3d")

_SHRUNK = 3.0
"""A model that scales its inputs itself makes them at least so much smaller in its first layer."""
_MOST_BATCHES = 0.9
"""Share of constant batches: a few others may be padding or the last of an epoch."""
_MORE_THAN_FEW_SHOTS = 32
"""Samples: a smaller batch may be all the data there are, as in few-shot learning."""
_FEWEST_KEPT, _KEPT_FOR = 6, 0.25
"""Checked batches, and the share of the training, in which one batch is kept: by then there were
many others to take."""
_USUAL_SIZES = (16, 32, 64, 128)
"""A batch of one of these sizes is a part of more data; whole data sets have odd sizes."""
_MOSTLY, _PURE_BATCHES = 0.6, 0.3
"""Shares of batches nearly of one class, and wholly of one: sorted data have mixed batches only
where one class ends and the next starts."""
_FEWEST_LABELS = 300
"""Labels before the share of a rare class is known to a few per cent."""
_BELOW_SHARES = 0.9
"""Of the loss of knowing the shares of two classes: less is no luck over a third of a training."""
_ROWS = 2
"""Axes of predictions for samples: those for pixels have more."""
_STALLED = 100.0
"""Times the usual wait for a batch."""
_RENAMED = 0.5
"""Of the accuracy in training: data that are merely new cost less."""
_BEYOND = 1.5
"""Times the largest or smallest deviation of a training batch."""
_RECALL = 0.2
"""The model may find this much of the other classes and still count as predicting one."""


@dataclass
class UnnormalizedInput(VitalsRule):
    """Inputs have a size that initial weights are not made for.

    Fires when over the first batches the root mean square of the inputs is above `size` and the
    first layer's output is as large (so not where the model scales them itself), or when no input
    is above `nothing`. For a model without embeddings, also fires when the first layer's output is
    `size` times what its weights give for inputs of this size, as when an unscaled whole number is
    concatenated to them. A model that is called several times for one backward, as for pairs, is
    judged at the end, and not if its loss has fallen to half.
    """

    kind = Kind.CAUSE
    rests_on = ("input/mean", "input/std", "input/min", "input/max", "activations:std")
    advice = (
        "Scale inputs to about mean 0 and standard deviation 1: divide pixels by 255, standardise "
        "each column of a table by the training data's mean and deviation."
    )

    size: float = parameter(15.0, "Root mean square that is too large.", at_least=0)
    nothing: float = parameter(0.01, "Largest value that is too small.", at_least=0)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        mean, std = (
            vitals.vital("input/mean").first(ENOUGH_BATCHES),
            vitals.vital("input/std").first(ENOUGH_BATCHES),
        )
        if len(mean) < FEW_BATCHES or not len(std):
            return
        size = math.hypot(mean.median, std.median)
        low, high = vitals.vital("input/min").median, vitals.vital("input/max").median
        step = int(mean.steps[0])
        is_large = _first_output(vitals) > self.size / _SHRUNK and not _copes(vitals)
        if size > self.size and is_large:
            yield Sign(
                step,
                f"Inputs lie between {low:.3g} and {high:.3g} with a root mean square of "
                f"{size:.3g}, above {self.size:g}.",
                value=size,
                threshold=self.size,
            )
        elif std.median > 0 and max(abs(low), abs(high)) < self.nothing:
            yield Sign(
                step,
                f"Inputs lie between {low:.3g} and {high:.3g}: all below {self.nothing:g}, as if "
                "scaled twice.",
                value=max(abs(low), abs(high)),
                threshold=self.nothing,
            )
        elif is_large and (arrived := _size_at_first_layer(vitals)) > self.size * max(1.0, size):
            yield Sign(
                step,
                f"Inputs have a root mean square of {size:.3g}, and the first layer's output is as "
                f"large as for inputs of {arrived:.3g}: some other input is far larger.",
                value=arrived,
                threshold=self.size * max(1.0, size),
            )


@dataclass
class ConstantInput(VitalsRule):
    """Every input has the same value everywhere.

    Fires when the standard deviation within the batch is 0 in at least nine of ten batches. Where
    a model is given several inputs, all of them must be so: a first state may well be all zero.
    """

    kind = Kind.MISTAKE
    rests_on = ("input/std", "input/mean")
    advice = (
        "Print one batch as the model gets it. Usual reasons: integer division (x // 255), a path "
        "without files, a mask that is all zeros."
    )

    num_batches: int = parameter(5, "Batches before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        std = vitals.vital("input/std")
        if vitals.vital("input/others_vary").values.any():
            return
        if len(std) >= self.num_batches and float(np.mean(std.values == 0)) > _MOST_BATCHES:
            value = vitals.vital("input/mean").median
            yield Sign(
                int(std.steps[0]),
                f"All values of an input are {value:g}, in every batch.",
                value=0.0,
                threshold=0.0,
            )


@dataclass
class InputNotFinite(VitalsRule):
    """An input contains NaN or infinity, and the model does not deal with it.

    Fires at the first such batch if its loss is not finite, either, or the training ends with it.
    Values that a model fills in itself, and masks of minus infinity, leave the loss finite.
    """

    kind = Kind.MISTAKE
    rests_on = ("input/mean",)
    advice = (
        "Look for missing values and divisions by zero in the data; fill in or drop those rows."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        mean = vitals.vital("input/mean")
        bad = np.flatnonzero(~np.isfinite(mean.values))
        if not len(bad):
            return
        value, step = float(mean.values[bad[0]]), int(mean.steps[bad[0]])
        losses = vitals.loss.since(step).values
        if not np.isfinite(losses[:1]).all() or (not len(losses) and vitals.is_all):
            yield Sign(
                step,
                f"The batch of inputs holds NaN or infinite values (its mean is {value}).",
                value=value,
            )


@dataclass
class SameBatch(VitalsRule):
    """The model gets the same batch repeatedly, although there is more data.

    Fires when at least `num_batches` batches are equal, and a loader or the evaluation has more
    samples than that, at least 32: few-shot learning has fewer. Without a loader and an evaluation,
    fires when the batch has a usual batch size (16, 32, 64, up to 128). A batch that was taken
    once, is memorised and is not followed by any evaluation is an intended test of the model.

    Also fires when from some step on, for a quarter of the training and at least 100 steps, all
    batches that were checked are one and the same, while before each was another one of that size.
    Not reported: several optimizers, as for a last stage on fixed points, policies, inputs that are
    trained, and fewer than 4 samples.
    """

    kind = Kind.MISTAKE
    rests_on = ("input/fingerprint",)
    explains = ("Overfitting",)
    is_independent = True
    advice = (
        "Iterate over the loader in a for loop; next(iter(loader)) in the loop restarts it each "
        "time. Check that the batch is fetched inside the loop."
    )

    num_batches: int = parameter(20, "Number of equal batches.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        print_ = vitals.vital("input/fingerprint")
        if len(print_) and np.ptp(print_.values) != 0:
            yield from self._since_some_step(vitals, print_)
            return
        if len(print_) < self.num_batches:
            return
        size = vitals.vital("batch_size").median
        others = vitals.vital("batch_size", training=False)
        more = [each.num_samples or 0 for each in vitals.anatomy.loaders]
        has_more = max(more, default=0) > size or (
            len(others) > 0 and others.median > size >= _MORE_THAN_FEW_SHOTS
        )
        if vitals.vital("input/std").median == 0:
            return
        is_taken_once = all(each.num_batches <= 1 for each in vitals.anatomy.loaders)
        if is_taken_once and not len(others) and vitals.fall > LEARNT_WELL:
            return
        if has_more or (not more and size in _USUAL_SIZES):
            yield Sign(
                int(print_.steps[0]),
                f"All {len(print_)} batches that were checked are the same {size:.0f} samples.",
                value=float(len(print_)),
                threshold=self.num_batches,
            )

    def _since_some_step(self, vitals: VitalSigns, prints: Series) -> Iterator[Sign]:
        kept = _kept_to_the_end(prints)
        size = vitals.vital("batch_size")
        if len(kept) < _FEWEST_KEPT or not _draws_batches(vitals):
            return
        first = int(kept.steps[0])
        if kept.span < max(FAIR_STEPS, _KEPT_FOR * vitals.last_step):
            return
        before = prints.where(prints.steps < first)
        is_drawn = len(before) >= ENOUGH_BATCHES and bool(np.all(np.diff(before.values)))
        if not is_drawn or not _is_no_period(before, kept):
            return
        sizes = size.since(first).median, size.where(size.steps < first).median
        if sizes[0] == sizes[1] >= SMALL_BATCH and _is_same_throughout(vitals, first):
            yield Sign(
                first,
                f"From step {first} on, all {len(kept)} batches that were checked are the same "
                f"{sizes[0]:.0f} samples; the {len(before)} before were different ones.",
                value=float(len(kept)),
                threshold=_FEWEST_KEPT,
                advice="Look for what stops fetching a batch at about that step: an iterator that "
                "has ended and whose StopIteration is passed over, a condition around next(), or "
                "code for debugging that keeps one batch.",
            )


@dataclass
class SameTargets(VitalsRule):
    """Inputs change from step to step, and the targets never do.

    Fires when at `num_batches` checked steps, all of them, the only loss over amounts gets the very
    same targets, which are no whole numbers and differ from each other, while the inputs of the
    only model differ, and batches are a part of more data: from a loader, or of a usual size.
    """

    kind = Kind.CAUSE
    rests_on = ("target/fingerprint", "input/fingerprint")
    explains = ("Overfitting",)
    leaves_training_loss = True
    advice = (
        "Draw noise and targets anew in each step. Usual reasons: a generator that is made or "
        "seeded inside the loop, noise that is drawn once before it, and a batch of targets that "
        "is fetched outside of the loop."
    )

    num_batches: int = parameter(20, "Steps with equal targets.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        targets, inputs = vitals.vital("target/fingerprint"), vitals.vital("input/fingerprint")
        whole, size = vitals.vital("target/whole_share"), vitals.vital("batch_size").median
        if len(targets) < self.num_batches or np.ptp(targets.values) != 0 or not len(inputs):
            return
        if len(np.unique(inputs.values)) < _MOST_BATCHES * len(inputs) or size < SMALL_BATCH:
            return
        varies = vitals.vital("target/std").median > 0 and whole.values.max() < 1
        loaders = [each for each in vitals.anatomy.loaders if each.num_trained]
        is_part = any(each.num_batches >= 2 * each.num_passes for each in loaders)
        if varies and _has_one_target(vitals) and (is_part or size in _USUAL_SIZES):
            yield Sign(
                int(targets.steps[0]),
                f"At all {len(targets)} steps that were checked the targets are the same "
                f"{size:.0f} samples, while the inputs differ.",
                tensor=f"{vitals.anatomy.losses[0].name}_input_1",
                value=float(len(targets)),
                threshold=self.num_batches,
            )


@dataclass
class ClassesRenamed(VitalsRule):
    """Classes have other numbers in evaluation than in training.

    Fires when at the end the accuracy is above `accuracy` in training and below half of that in
    evaluation, while evaluation would be as good as training if each predicted class were called
    after the label that it meets.
    """

    kind = Kind.CAUSE
    rests_on = ("accuracy", "renamed_accuracy")
    explains = ("Overfitting", "EvaluationInputDiffers")
    leaves_training_loss = True
    advice = (
        "Make the table of class names and numbers once, from the training data, save it with the "
        "model, and use it for both. Sets, folders and sorted lists of other names are numbered "
        "differently."
    )

    accuracy: float = parameter(0.8, "Accuracy in training.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        evaluated = vitals.vital("accuracy", training=False).last(FEW_BATCHES)
        renamed = vitals.vital("renamed_accuracy", training=False).last(FEW_BATCHES)
        trained = vitals.vital("accuracy").last(ENOUGH_BATCHES).median
        if min(len(evaluated), len(renamed)) < FEW_BATCHES or not trained > self.accuracy:
            return
        is_low = evaluated.median < _RENAMED * trained
        if vitals.is_settled and is_low and renamed.median > self.accuracy:
            yield Sign(
                int(vitals.vital("accuracy", training=False).steps[0]),
                f"The accuracy is {trained:.0%} in training and {evaluated.median:.0%} in "
                f"evaluation, where it would be {renamed.median:.0%} if classes were renamed.",
                value=evaluated.median,
                threshold=_RENAMED * trained,
            )


@dataclass
class ConstantLabels(VitalsRule):
    """All labels are the same.

    Fires when over at least `num_samples` samples a loss over classes got one label only, or the
    only loss, over amounts, got one number. Targets for the gradients of inputs, as of a
    differential equation, may be 0 everywhere.
    """

    kind = Kind.MISTAKE
    rests_on = ("labels/min", "labels/max", "target/min", "target/max")
    explains = ("OneClassPredicted", "Overfitting")
    advice = "Print a batch of labels as the loss gets them, and trace them back to the file."

    num_samples: int = parameter(100, "Samples before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        low, high = vitals.vital("labels/min"), vitals.vital("labels/max")
        if not len(low) and _has_one_target(vitals):
            low, high = vitals.vital("target/min"), vitals.vital("target/max")
        seen = vitals.vital("batch_size").median * len(low)
        if not len(low) or seen < self.num_samples or len(vitals.anatomy.models) > 1:
            return  # a discriminator may be given real and made-up samples apart
        if any(loss.num_classes == 1 for loss in vitals.anatomy.losses):
            return  # with one score there is one class, whatever the labels are
        if low.values.min() == high.values.max():
            yield Sign(
                int(low.steps[0]),
                f"Every label is {low.values[0]:g}, in {len(low)} batches.",
                value=float(low.values[0]),
            )


@dataclass
class UnshuffledLabels(VitalsRule):
    """Data is sorted by class instead of shuffled.

    Fires when in most of at least `num_batches` batches nearly all samples, `share`, are of one
    class, and other batches have another class.
    """

    kind = Kind.MISTAKE
    rests_on = ("labels/largest_share", "labels/min", "labels/max")
    explains = ("OneClassPredicted", "Overfitting")
    is_independent = True
    advice = "Shuffle: DataLoader(..., shuffle=True), or permute the data once before training."

    num_batches: int = parameter(10, "Batches before the rule may fire.", at_least=2)
    share: float = parameter(0.9, "Share of the largest class in a batch.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        share, low = vitals.vital("labels/largest_share"), vitals.vital("labels/min")
        high = vitals.vital("labels/max")
        size = _num_labels(vitals)
        if len(share) < self.num_batches or size < SMALL_BATCH or len(vitals.anatomy.models) > 1:
            return
        pure = low.values == high.values
        mixed = np.unique(low.values[pure])
        is_sorted = np.mean(share.values >= self.share) > _MOSTLY and pure.mean() > _PURE_BATCHES
        if is_sorted and len(mixed) > 1:
            runs = int(np.count_nonzero(np.diff(low.values[pure])))
            yield Sign(
                int(share.steps[0]),
                f"In {np.mean(pure):.0%} of the batches all samples are of one class, and that "
                f"class changed {runs} times in {int(pure.sum())} such batches.",
                value=float(np.median(share.values)),
                threshold=self.share,
            )


@dataclass
class OneClassPredicted(VitalsRule):
    """Nearly all samples are of one class, and the model predicts no other.

    Fires when over the second half of training the largest class has `share` of the labels and
    `predicted` of the predictions are one class, so that the model finds less than a fifth of the
    other samples. Not reported if the loss is below that of knowing the shares of the classes: then
    it tells rare samples from others, as in the prediction of clicks.
    """

    kind = Kind.CAUSE
    rests_on = ("predictions/largest_share", "labels/largest_share")
    leaves_training_loss = True
    advice = (
        "Weight the classes in the loss, sample the rare ones more often, and judge by recall or "
        "F1 of the rare class instead of accuracy."
    )

    share: float = parameter(
        0.85, "Share of the largest class among the labels.", at_least=0, at_most=1
    )
    predicted: float = parameter(
        0.995, "Share of one class among the predictions.", at_least=0, at_most=1
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        labels = vitals.vital("labels/largest_share")
        predictions = vitals.vital("predictions/largest_share")
        late = predictions.since(vitals.last_step / 2)
        size = _num_labels(vitals)
        several = vitals.vital("labels/num_classes_seen")
        if vitals.last_step < FAIR_STEPS or len(late) < FEW_BATCHES:
            return
        if size * len(labels) < _FEWEST_LABELS:
            return
        if not vitals.is_settled:
            return
        if not len(several) or several.values.max() < 2 or len(vitals.anatomy.models) > 1:
            return
        mean = float(labels.values.mean())
        others = 1 - float(late.values.mean())
        is_one = others < min(1 - self.predicted, _RECALL * (1 - mean))
        if mean > self.share and size > SMALL_BATCH and is_one and not _tells_apart(vitals, mean):
            yield Sign(
                int(labels.steps[0]),
                f"{mean:.0%} of the labels are of one class, and {late.values.mean():.1%} of the "
                "predictions are one class.",
                value=mean,
                threshold=self.share,
            )


@dataclass
class EvaluationInputDiffers(VitalsRule):
    """Evaluation inputs are scaled differently from training inputs.

    Fires when the root mean square of the inputs differs by more than a factor of `times`, or their
    means by more than `times` the standard deviation of the training inputs. Also fires when their
    standard deviation differs by more than a factor of `spread`, and is outside of that of all
    batches of training by half as much again.
    """

    kind = Kind.CAUSE
    rests_on = ("input/mean", "input/std")
    explains = ("Overfitting",)
    leaves_training_loss = True
    advice = "Preprocess both in the same way, with the mean and deviation of the training data."

    times: float = parameter(4.0, "Ratio that is too large.", at_least=1)
    spread: float = parameter(2.5, "Ratio of deviations that is too large.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        mean, std = vitals.vital("input/mean"), vitals.vital("input/std")
        means = vitals.vital("input/mean", training=False)
        stds = vitals.vital("input/std", training=False)
        if len(mean) < FEW_BATCHES or not len(means):
            return
        trained = math.hypot(mean.median, std.median)
        evaluated = math.hypot(means.median, stds.median)
        if min(trained, evaluated) <= 0:
            return
        ratio = max(trained / evaluated, evaluated / trained)
        shift = abs(means.median - mean.median) / max(std.median, EPSILON)
        if max(ratio, shift) > self.times or self._is_spread(std, stds):
            yield Sign(
                int(means.steps[0]),
                f"Inputs have mean {mean.median:.3g} and deviation {std.median:.3g} in training, "
                f"{means.median:.3g} and {stds.median:.3g} in evaluation.",
                value=max(ratio, shift),
                threshold=self.times,
            )

    def _is_spread(self, trained: Series, evaluated: Series) -> bool:
        first, second = trained.median, evaluated.median
        if not min(first, second) > 0 or len(evaluated) < FEW_BATCHES:
            return False
        is_beyond = second > _BEYOND * trained.values.max() or (
            second * _BEYOND < trained.values.min()
        )
        return is_beyond and max(first / second, second / first) > self.spread


@dataclass
class SlowDataLoading(VitalsRule):
    """Training waits for its data most of the time.

    Fires when at least `num_batches` batches took `seconds` each on average, and that is `share` of
    the time of a step. The time is that of a DataLoader's batches or, without a DataLoader, the
    median time between an update and the next forward over the checked steps. Also fires when one
    batch, but for the first of a pass, took `stall` seconds, and a hundred times as long as others.
    """

    kind = Kind.CAUSE
    rests_on = ("between_seconds", "step_seconds")
    explains = ("BatchSize", "CPUBottleneck", "Dataloader", "LowGPUUtilization")
    leaves_training_loss = True
    advice = (
        "Load in parallel (a DataLoader with num_workers), preprocess once and store the result, "
        "or build a batch with tensor operations instead of sample by sample. The profiler rules "
        "give details."
    )

    num_batches: int = parameter(20, "Loaded batches before the rule may fire.", at_least=1)
    seconds: float = parameter(0.02, "Mean time to load a batch.", at_least=0)
    share: float = parameter(0.75, "Share of a step's time.", at_least=0, at_most=1)
    stall: float = parameter(10.0, "Time of one batch that is too long.", at_least=0)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        step_seconds = vitals.vital("step_seconds").median
        yield from self._stalls(vitals)
        for wait, what in self._waits(vitals):
            if wait > self.seconds and wait > self.share * step_seconds:
                yield Sign(
                    0,
                    f"{what} takes {wait:.3g} s, {min(1, wait / step_seconds):.0%} of a step of "
                    f"{step_seconds:.3g} s.",
                    value=wait,
                    threshold=self.seconds,
                )
                return

    def _stalls(self, vitals: VitalSigns) -> Iterator[Sign]:
        for loader in vitals.anatomy.loaders:
            usual = loader.median_wait_seconds or 0.0
            if loader.longest_wait_seconds > max(self.stall, _STALLED * usual):
                yield Sign(
                    0,
                    f"Loading one batch took {loader.longest_wait_seconds:.3g} s, and {usual:.2g} "
                    "s usually: a worker, the disk or the network stood still.",
                    tensor="stall",
                    value=loader.longest_wait_seconds,
                    threshold=self.stall,
                )
                return

    def _waits(self, vitals: VitalSigns) -> Iterator[tuple[float, str]]:
        for loader in vitals.anatomy.loaders:
            if loader.num_batches >= self.num_batches:
                mean = loader.wait_seconds / loader.num_batches
                # A few long waits, as for workers that start, are not what training waits for.
                yield min(mean, loader.median_wait_seconds or mean), "Loading a batch"
        between = vitals.vital("between_seconds")
        if len(between) >= self.num_batches:
            yield between.median, "Making a batch, from an update to the next forward pass,"


def _kept_to_the_end(prints: Series) -> Series:
    """The last of them, as far back as they are equal."""
    others = np.flatnonzero(prints.values != prints.values[-1])
    return prints.last(len(prints) - 1 - int(others[-1])) if len(others) else prints


def _is_no_period(before: Series, kept: Series) -> bool:
    """Whether the equal ones are no accident of which steps are checked: data that come in the same
    order again would have been equal before, at steps that are as far apart."""
    apart = int(np.gcd.reduce(np.diff(kept.steps).astype(int)))
    alike = (kept.steps[0] - before.steps) % apart == 0
    return bool(np.any(alike & (before.values != kept.values[0])))


def _draws_batches(vitals: VitalSigns) -> bool:
    """Whether one model is trained on data that it does not make itself."""
    anatomy = vitals.anatomy
    is_plain = len(anatomy.models) == len(anatomy.optimizers) == 1 and not vitals.is_of_policy
    return is_plain and not np.any(vitals.vital("input/is_trained").values > 0)


def _is_same_throughout(vitals: VitalSigns, step: int) -> bool:
    """Whether means and targets stay the same, too. Inputs that are all one value have a rule of
    their own."""
    rest = [vitals.vital(name).since(step).values for name in ("input/mean", "target/fingerprint")]
    is_varied = vitals.vital("input/std").since(step).median != 0
    return is_varied and all(np.ptp(each) == 0 for each in rest if len(each))


def _copes(vitals: VitalSigns) -> bool:
    """A model of pairs or triplets compares inputs of one size: it may learn well. So wait."""
    counts = vitals.anatomy.forwards_per_backward or {}
    usual = max(counts, key=lambda each: counts[each], default="1")
    return int(usual) > 1 and (not vitals.is_settled or vitals.fall > HALVED)


def _tells_apart(vitals: VitalSigns, share: float) -> bool:
    """Whether the last losses are clearly below what is reached by always predicting the shares of
    two classes, the larger of which is `share`. Of a picture most pixels are easy: that says
    nothing."""
    if len(vitals.anatomy.losses) != 1 or vitals.anatomy.losses[0].reduction != "mean":
        return False
    loss = vitals.anatomy.losses[0]
    if any(len(shape) > _ROWS for shape in loss.shapes) or not share < 1:
        return False
    if not loss.function.startswith("binary") and loss.num_classes != 2:
        return False
    constant = -share * math.log(share) - (1 - share) * math.log(1 - share)
    last = vitals.loss.last(max(ENOUGH_BATCHES, len(vitals.loss) // 3)).values
    return len(last) > 0 and float(last.mean()) < _BELOW_SHARES * constant


def _size_at_first_layer(vitals: VitalSigns) -> float:
    """What the first layer must have been given, by its output and its weights' size; 0 where that
    is not known, as after embeddings, which many models make larger on purpose."""
    layer = _first_layer(vitals)
    if vitals.anatomy.tables or layer is None or len(vitals.anatomy.models) != 1:
        return 0.0
    name = f"{vitals.anatomy.models[0]}_{layer[0]}.weight"
    weight = vitals.figure(name, "l2").first(1).median
    shape = next((p.shape for p in vitals.anatomy.parameters if p.name == name), ())
    if not shape or not weight > 0:
        return 0.0
    spread = layer[1].first(1).median  # before any update changes it
    return spread / (weight / math.sqrt(shape[0]))  # rms times the root of the fan-in


def _num_labels(vitals: VitalSigns) -> float:
    """In a batch. A script that goes sample by sample gives the model no axis of samples: the
    batch's size is then that of a sample."""
    count = vitals.vital("labels/count")
    return count.median if len(count) else vitals.vital("batch_size").median


def _has_one_target(vitals: VitalSigns) -> bool:
    """Whether all that is learnt is a number for each sample, which the data give."""
    losses = vitals.anatomy.losses
    if len(losses) != 1 or len(vitals.anatomy.optimizers) != 1 or losses[0].is_target_trained:
        return False
    return not vitals.anatomy.asks_for_others and not np.any(
        vitals.vital("input/is_trained").values > 0
    )


def _first_output(vitals: VitalSigns) -> float:
    """How far the first layer's output spreads at the start; infinite where none is known."""
    layer = _first_layer(vitals)
    return math.inf if layer is None else layer[1].first(FEW_BATCHES).median


def _first_layer(vitals: VitalSigns) -> tuple[str, Series] | None:
    """Its name, and how far its output spreads."""
    spreads = vitals.series_by_name("activation/", "/std")
    for module in vitals.anatomy.modules:
        if module.type in _LAYERS and len(spreads.get(module.name, ())):
            return module.name, spreads[module.name]
    return None
