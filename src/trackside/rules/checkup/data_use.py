"""Rules about what goes in: inputs, labels, and the order in which they come."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from trackside.rules.checkup.vitals_rule import (
    ENOUGH_BATCHES,
    FEW_BATCHES,
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
_USUAL_SIZES = (16, 32, 64, 128)
"""A batch of one of these sizes is a part of more data; whole data sets have odd sizes."""
_MOSTLY, _PURE_BATCHES = 0.6, 0.3
"""Shares of batches nearly of one class, and wholly of one: sorted data have mixed batches only
where one class ends and the next starts."""
_FEWEST_LABELS = 300
"""Labels before the share of a rare class is known to a few per cent."""
_RECALL = 0.2
"""The model may find this much of the other classes and still count as predicting one."""


@dataclass
class UnnormalizedInput(VitalsRule):
    """Inputs have a size that initial weights are not made for.

    Fires when over the first batches the root mean square of the inputs is above `size` and the
    first layer's output is as large (so not where the model scales them itself), or when no input
    is above `nothing`. For a model without embeddings, also fires when the first layer's output is
    `size` times what its weights give for inputs of this size, as when an unscaled whole number is
    concatenated to them.
    """

    kind = Kind.CAUSE
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
        is_large = _first_output(vitals) > self.size / _SHRUNK
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

    Fires when the standard deviation within the batch is 0 in at least nine of ten batches.
    """

    kind = Kind.MISTAKE
    advice = (
        "Print one batch as the model gets it. Usual reasons: integer division (x // 255), a path "
        "without files, a mask that is all zeros."
    )

    num_batches: int = parameter(5, "Batches before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        std = vitals.vital("input/std")
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
    """An input contains NaN or infinity.

    Fires at the first such batch.
    """

    kind = Kind.MISTAKE
    advice = (
        "Look for missing values and divisions by zero in the data; fill in or drop those rows."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        mean = vitals.vital("input/mean")
        bad = np.flatnonzero(~np.isfinite(mean.values))
        if len(bad):
            value = float(mean.values[bad[0]])
            yield Sign(
                int(mean.steps[bad[0]]),
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
    """

    kind = Kind.MISTAKE
    explains = ("Overfitting",)
    is_independent = True
    advice = (
        "Iterate over the loader in a for loop; next(iter(loader)) in the loop restarts it each "
        "time. Check that the batch is fetched inside the loop."
    )

    num_batches: int = parameter(20, "Number of equal batches.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        print_ = vitals.vital("input/fingerprint")
        if len(print_) < self.num_batches or np.ptp(print_.values) != 0:
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


@dataclass
class ConstantLabels(VitalsRule):
    """All labels are the same.

    Fires when over at least `num_samples` samples a loss over classes got one label only, or the
    only loss, over amounts, got one number. Targets for the gradients of inputs, as of a
    differential equation, may be 0 everywhere.
    """

    kind = Kind.MISTAKE
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
    other samples.
    """

    kind = Kind.CAUSE
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
        if mean > self.share and size > SMALL_BATCH and is_one:
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
    means by more than `times` the standard deviation of the training inputs.
    """

    kind = Kind.CAUSE
    explains = ("Overfitting",)
    leaves_training_loss = True
    advice = "Preprocess both in the same way, with the mean and deviation of the training data."

    times: float = parameter(4.0, "Ratio that is too large.", at_least=1)

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
        if max(ratio, shift) > self.times:
            yield Sign(
                int(means.steps[0]),
                f"Inputs have mean {mean.median:.3g} and deviation {std.median:.3g} in training, "
                f"{means.median:.3g} and {stds.median:.3g} in evaluation.",
                value=max(ratio, shift),
                threshold=self.times,
            )


@dataclass
class SlowDataLoading(VitalsRule):
    """Training waits for its data most of the time.

    Fires when at least `num_batches` batches took `seconds` each on average, and that is `share` of
    the time of a step. The time is that of a DataLoader's batches or, without a DataLoader, the
    median time between an update and the next forward over the checked steps.
    """

    kind = Kind.CAUSE
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

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        step_seconds = vitals.vital("step_seconds").median
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

    def _waits(self, vitals: VitalSigns) -> Iterator[tuple[float, str]]:
        for loader in vitals.anatomy.loaders:
            if loader.num_batches >= self.num_batches:
                mean = loader.wait_seconds / loader.num_batches
                # A few long waits, as for workers that start, are not what training waits for.
                yield min(mean, loader.median_wait_seconds or mean), "Loading a batch"
        between = vitals.vital("between_seconds")
        if len(between) >= self.num_batches:
            yield between.median, "Making a batch, from an update to the next forward pass,"


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
