"""Rules about which of the data that there are training and evaluation get to see."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from trackside.capture.reading.anatomy import Anatomy, LoaderFacts
from trackside.rules.checkup.vitals_rule import HALVED, SMALL_BATCH, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import VitalSigns

_PART = 0.25
"""Of a loader's batches: who stops early on purpose uses more of each pass."""
_OTHERS = 1.5
"""Forwards in evaluation over batches of the loader: with more, some are of data without one."""
_BATCH_EACH = 0.9
"""Backwards that begin with a new batch of the loader. With fewer, batches are used several times
on purpose, as by sharpness-aware updates, or kept by the script."""


@dataclass
class EpochCutShort(VitalsRule):
    """Each epoch ends after its first batches.

    Fires when the training loader was started at least `num_passes` times, each pass ended after at
    most a quarter of its batches, so that the whole training saw less than `num_epochs` full
    passes, and the loss has not fallen to half. Drawing batches by next(iter(loader)) for a number
    of steps is not reported.
    """

    kind = Kind.MISTAKE
    advice = (
        "Look for a break or return inside the loop over batches that belongs after it, and for "
        "debugging code that was left in."
    )

    num_passes: int = parameter(5, "Passes that were started.", at_least=2)
    num_epochs: float = parameter(3.0, "Full passes over the data, in total.", at_least=0)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for loader in vitals.anatomy.loaders:
            whole = _num_batches(loader)
            if loader.num_passes < self.num_passes or 2 * loader.num_trained < loader.num_batches:
                continue
            each = loader.num_batches / loader.num_passes
            is_little = each <= _PART * whole and loader.num_batches < self.num_epochs * whole
            if vitals.is_settled and is_little and vitals.fall < HALVED:
                yield Sign(
                    0,
                    f"The loader has {whole} batches, and each of {loader.num_passes} passes ended "
                    f"after {each:.3g} batches: training saw {loader.num_batches} in all.",
                    value=each,
                    threshold=_PART * whole,
                )


@dataclass
class EvaluationOnTrainingData(VitalsRule):
    """The model is evaluated on its training data, while other data is unused.

    Fires at the end when at least `num_batches` evaluation batches came from the training loader,
    none from any other, and a loader of other data was created and never used.
    """

    kind = Kind.MISTAKE
    leaves_training_loss = True
    advice = (
        "Use the loader of the training set for training, and the other one for evaluation: one of "
        "the two loops uses the wrong variable."
    )

    num_batches: int = parameter(10, "Evaluation batches.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        loaders = vitals.anatomy.loaders
        evaluated = [each for each in loaders if each.num_evaluated]
        unused = [each for each in loaders if not each.num_batches and each.num_samples]
        if not vitals.is_all or len(evaluated) != 1 or not unused:
            return
        (both,) = evaluated
        # More of them than came from it are of data without a loader.
        others = (
            vitals.anatomy.num_forwards(training=False, grad=False) > _OTHERS * both.num_evaluated
        )
        is_other = unused[0].num_samples != both.num_samples
        if both.num_trained and both.num_evaluated >= self.num_batches and is_other and not others:
            yield Sign(
                0,
                f"All {both.num_evaluated} batches of evaluation are of the {both.num_samples} "
                f"training samples; the loader of {unused[0].num_samples} others is never used.",
                value=float(both.num_evaluated),
                threshold=self.num_batches,
            )


@dataclass
class RepeatedBatches(VitalsRule):
    """The loader yields the same batch several times within one pass over the data.

    Fires when of the batches that directly follow another checked one, at least `num_batches` and
    `share` of all are equal to the one before. If the loader shuffles, an equal batch counts up to
    a whole pass before. Not reported: small data that come again in each epoch, batches of fewer
    than 4 samples, batches that the script uses for several backwards, and trainings of several
    models or from several loaders.
    """

    kind = Kind.CAUSE
    explains = ("Overfitting",)
    leaves_training_loss = True
    advice = (
        "Print the first values of some batches. Usual reasons: loader workers that share a random "
        "generator (seed it in worker_init_fn by get_worker_info().seed), and an IterableDataset "
        "that yields all its data in each worker (share them out by get_worker_info().id)."
    )

    num_batches: int = parameter(5, "Repeated batches before the rule may fire.", at_least=1)
    share: float = parameter(
        0.2, "Share of repeated ones among the checked batches.", at_least=0, at_most=1
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        loader = _only_loader(vitals.anatomy)
        if loader is None or (loader.batch_size or 0) < SMALL_BATCH:
            return
        if loader.num_batches < 2 * loader.num_passes or vitals.vital("input/std").median == 0:
            return  # with one batch in a pass, the next pass may well repeat it
        distances = _distances(vitals)
        repeated = {step: each for step, each in distances.items() if each < _pass_length(loader)}
        if len(repeated) == len(distances):
            return  # `SameBatch` judges whether that is a mistake
        if len(repeated) >= max(self.num_batches, self.share * len(distances)):
            yield Sign(
                min(repeated),
                f"{len(repeated)} of {len(distances)} batches in a row are equal to one shortly "
                f"before, most often {_most_common(repeated)} step(s) before, although each is a "
                f"new batch of {loader.batch_size} samples from the loader.",
                value=len(repeated) / len(distances),
                threshold=self.share,
            )


@dataclass
class OneSampleOfBatch(VitalsRule):
    """The loader yields batches, but only one sample of each reaches the model.

    Fires when all of at least `num_batches` checked inputs have as many values as one sample of the
    loader, whose batches have at least `samples`, the targets of all losses are of one sample, and
    each batch is used for one forward only. Samples of a batch that pass the model one by one are
    not reported, nor are batches that the model gets as one sequence or set.
    """

    kind = Kind.MISTAKE
    advice = (
        "Give the model the whole batch: look for an index or slice such as x[:1] or batch[0] "
        "between the loader and the model, and for debugging code that was left in."
    )

    num_batches: int = parameter(20, "Checked inputs before the rule may fire.", at_least=1)
    samples: int = parameter(8, "Samples in a batch of the loader.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        loader = _only_loader(vitals.anatomy)
        if loader is None or (loader.batch_size or 0) < self.samples:
            return
        num_forwards = vitals.anatomy.num_forwards(training=True, grad=True)
        given = vitals.vital("input/num_values")
        if loader.num_trained < _BATCH_EACH * num_forwards or len(given) < self.num_batches:
            return
        is_one = bool((given.values == loader.values_per_sample).all())
        if is_one and _is_loss_of_one(vitals.anatomy, loader.batch_size or 0):
            yield Sign(
                int(given.steps[0]),
                f"The loader yields batches of {loader.batch_size} samples, and in all {len(given)}"
                " batches that were checked the model gets one sample.",
                value=1.0,
                threshold=float(self.samples),
            )


def _is_loss_of_one(anatomy: Anatomy, batch_size: int) -> bool:
    """Whether all losses are known and of one sample: of a target [1, N, ...], another axis may be
    the batch."""
    targets = [loss.shapes[1] for loss in anatomy.losses if len(loss.shapes) > 1]
    return len(targets) == len(anatomy.losses) > 0 and all(
        shape[:1] in ((), (1,)) and not any(size % batch_size == 0 for size in shape)
        for shape in targets
    )


def _only_loader(anatomy: Anatomy) -> LoaderFacts | None:
    """The loader that every training step gets a new batch from, if there is one and no other is
    used for training."""
    used = [each for each in anatomy.loaders if each.num_batches > each.num_evaluated]
    if len(used) != 1 or len(anatomy.models) > 1:
        return None
    return used[0] if used[0].num_trained >= _BATCH_EACH * anatomy.num_backwards > 0 else None


def _distances(vitals: VitalSigns) -> dict[int, float]:
    """By step, for batches that directly follow another checked one: steps since the last equal
    batch, infinite if there is none."""
    prints, means = vitals.vital("input/fingerprint"), vitals.vital("input/mean")
    mean_at = dict(zip(means.steps.tolist(), means.values.tolist(), strict=True))
    last: dict[tuple[float, float | None], int] = {}
    found: dict[int, float] = {}
    before = None
    for step, value in zip(prints.steps.tolist(), prints.values.tolist(), strict=True):
        # The fingerprint is of the first tensor only: class numbers may repeat, amounts do not.
        key = (value, mean_at.get(step))
        if before == step - 1:
            found[step] = step - last.get(key, -math.inf)
        last[key] = before = step
    return found


def _pass_length(loader: LoaderFacts) -> int:
    """Steps before a batch can be yielded again. Data that are read in order may contain copies:
    of these only neighbours count."""
    if loader.sampler != "RandomSampler" or loader.num_samples is None or not loader.batch_size:
        return 2
    return max(
        2, min(loader.num_samples // loader.batch_size, loader.num_batches // loader.num_passes)
    )


def _most_common(distances: dict[int, float]) -> float:
    return Counter(distances.values()).most_common(1)[0][0]


def _num_batches(loader: LoaderFacts) -> float:
    """Of a whole pass; infinite where it has no end, none where it is not known."""
    if loader.num_samples is None or not loader.batch_size:
        return 0
    return math.ceil(loader.num_samples / loader.batch_size)
