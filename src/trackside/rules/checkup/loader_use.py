"""Rules about which of the data that there are training and evaluation get to see."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from trackside.capture.reading.anatomy import Anatomy, LoaderFacts, TextFacts
from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.reading_results import remarks, sign
from trackside.rules.checkup.vitals_rule import HALVED, SMALL_BATCH, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import VitalSigns

_PART = 0.25
"""Of a loader's batches: who stops early on purpose uses more of each pass."""
_OTHERS = 1.5
"""Forwards in evaluation over batches of the loader: with more, some are of data without one."""
_FEWEST_EVALUATIONS, _RUN = 3, 5
"""Evaluations, and steps from one to the next."""
_LAST_DRAWN, _MOSTLY_SEEN, _NEARLY_ALL = 5, 0.2, 0.98
"""Batches of training before the first evaluation, of which less than a fifth is new: then what was
seen is most of the data. Where all that is evaluated was trained on, that is known anyway."""
_BATCH_EACH = 0.9
"""Backwards that begin with a new batch of the loader. With fewer, batches are used several times
on purpose, as by sharpness-aware updates, or kept by the script."""

_WHOLE = ("SequentialSampler", "RandomSampler")
"""Samplers that draw as many as there are."""
_FEWEST_TEXTS = 4
"""Texts of evaluation found in training: a greeting or two may well be in both."""


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
    none from any other, and a loader of other data was created and never used. Also fires when
    `share` of the texts that a language model is evaluated on are among those of its first training
    batches.
    """

    kind = Kind.MISTAKE
    leaves_training_loss = True
    advice = (
        "Use the loader of the training set for training, and the other one for evaluation: one of "
        "the two loops uses the wrong variable."
    )

    num_batches: int = parameter(10, "Evaluation batches.", at_least=1)
    share: float = parameter(0.25, "Share of evaluated texts.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        yield from self._texts(vitals.anatomy.text)
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

    def _texts(self, text: TextFacts | None) -> Iterator[Sign]:
        if text is None or text.num_evaluated_trained < _FEWEST_TEXTS:
            return
        share = text.num_evaluated_trained / text.num_evaluated
        if share >= self.share:
            yield Sign(
                0,
                f"{text.num_evaluated_trained} of {text.num_evaluated} texts of evaluation are "
                "also in the first training batches, token by token.",
                value=share,
                threshold=self.share,
            )


@dataclass
class SamplerWeightsReversed(VitalsRule):
    """A weighted sampler draws frequent classes more often still.

    Fires when the weights of a loader's sampler have few different values, and each is exactly
    proportional to the number of samples that have it: the counts of the classes themselves.
    """

    kind = Kind.MISTAKE
    rests_on = ("labels/largest_share",)
    explains = ("OneClassPredicted",)
    leaves_training_loss = True
    advice = (
        "Weight each sample by the inverse of its class's count, (1 / counts)[labels]: the sampler "
        "draws in proportion to the weights."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for loader in vitals.anatomy.loaders:
            if loader.is_weighted_by_counts and loader.num_trained:
                yield Sign(
                    0,
                    f"The {loader.sampler} of {loader.num_samples} samples has weights that are "
                    "proportional to the number of samples with each: the rare become rarer.",
                )
                return


@dataclass
class SameOrderEachEpoch(VitalsRule):
    """The loader shuffles, and every epoch has the same order.

    Fires when of at least `num_passes` passes over a loader with a RandomSampler, or with a
    DistributedSampler that shuffles, nearly all began with the very batch that the pass before
    began with; or when the script gives such a loader to itertools.cycle, and at least twice as
    many batches were trained on as it has given. Trainings of several models are not reported.
    """

    kind = Kind.CAUSE
    leaves_training_loss = True
    advice = (
        "With a DistributedSampler, call sampler.set_epoch(epoch) in each epoch. Otherwise set the "
        "seed once, before the loop over epochs: a torch.manual_seed in each epoch, also "
        "one in an evaluation between them, or a generator made anew for each loader, gives every "
        "epoch the same order and the same augmentation."
    )

    num_passes: int = parameter(4, "Passes before the rule may fire.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if len(vitals.anatomy.models) != 1 or vitals.anatomy.num_remade:
            return  # of several trainings, each may well begin alike
        yield from self._kept(vitals)
        for loader in vitals.anatomy.loaders:
            is_used = loader.num_trained > loader.num_evaluated
            several = loader.num_batches >= 2 * loader.num_passes
            is_shuffled = loader.is_shuffled or loader.sampler == "RandomSampler"
            if not is_shuffled or not is_used or not several:
                continue
            repeats = loader.num_passes - 1
            # The first pass may have begun before it was watched.
            most = min(_BATCH_EACH * repeats, repeats - 1)
            if repeats + 1 >= self.num_passes and loader.num_same_starts >= most:
                yield Sign(
                    _steps_of_pass(loader),
                    f"The loader shuffles {loader.num_samples} samples, and {repeats + 1} passes "
                    "began with the same batch: every epoch has the same order.",
                    value=float(loader.num_same_starts),
                    threshold=most,
                )

    def _kept(self, vitals: VitalSigns) -> Iterator[Sign]:
        given = [each for each in vitals.anatomy.loaders if each.num_trained]
        steps = vitals.anatomy.num_backwards
        if len(given) != 1 or given[0].num_passes > 1 or steps < 2 * given[0].num_batches:
            return
        for remark in remarks(vitals, self):
            seen = f"{steps} backwards were on the {given[0].num_batches} batches of one pass."
            yield sign(remark, seen)


@dataclass
class FewDistinctSamples(VitalsRule):
    """The data set yields the same few samples again and again.

    Fires when in the first pass over the only loader of training, in order or shuffled, the samples
    of at least `num_batches` checked batches were all in all new for less than `share`. Samples
    are compared as the model gets them; those of few values or of small whole numbers may be equal
    by chance and are not compared.
    """

    kind = Kind.CAUSE
    rests_on = ("input/new_share",)
    explains = ("Overfitting",)
    leaves_training_loss = True
    advice = (
        "Compare some samples, data[0], data[1], ...: check the index in __getitem__, what is "
        "cached, and whether augmentation replaces the sample. If the copies are meant, as in "
        "oversampling, draw them by a sampler."
    )

    num_batches: int = parameter(5, "Checked batches of the first pass.", at_least=1)
    share: float = parameter(0.4, "Share of new samples that is too small.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        loader = _only_loader(vitals.anatomy)
        new = vitals.vital("input/new_share")
        if loader is None or loader.sampler not in ("RandomSampler", "SequentialSampler"):
            return
        length = int(_num_batches(loader))
        number = np.searchsorted(vitals.vital("batch_size").steps, new.steps)
        first = new.where(number < length)
        if (loader.batch_size or 0) < SMALL_BATCH or len(first) < self.num_batches:
            return
        mean = float(first.values.mean())
        if mean < self.share and mean * len(first) * (loader.batch_size or 0) > 1:
            yield Sign(
                int(first.steps[0]),
                f"In the first pass over {loader.num_samples} samples, {mean:.0%} of the samples "
                f"of {len(first)} batches were new: the others are copies of one before.",
                value=mean,
                threshold=self.share,
            )


@dataclass
class TrainedOnEvaluationData(VitalsRule):
    """Samples of the evaluation are trained on.

    Fires when by the first batches nearly all that training draws has been seen, or its loader was
    read once, there were at least three evaluations, and of the samples that are evaluated, in
    nearly every batch some or all are samples that the model was trained on before; all in all at
    least `share`, and no more than `part` of the training's samples. Evaluation of the training
    data next to other data has batches of both kinds and is not reported.
    """

    kind = Kind.CAUSE
    rests_on = ("input/trained_share",)
    leaves_training_loss = True
    advice = (
        "Split first, then oversample, augment or cut into windows; check the indices of both "
        "parts, and look for copies in the data. What the evaluation says about new data is too "
        "good as it is."
    )

    share: float = parameter(
        0.2, "Share of the evaluated samples that is too large.", at_least=0, at_most=1
    )
    part: float = parameter(
        0.6, "Of the training's samples: more are evaluated on purpose.", at_least=0, at_most=1
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        shares = vitals.vital("input/trained_share", training=False)
        drawn = vitals.vital("input/new_share")
        if not len(shares) or len(vitals.anatomy.models) > 1 or not _are_evaluations(vitals):
            return
        before = drawn.where(drawn.steps < shares.steps[0]).last(_LAST_DRAWN)
        sizes = vitals.vital("batch_size", training=False)
        size = sizes.where(np.isin(sizes.steps, shares.steps)).values
        # By samples: a last batch of few may well have none of them.
        weights = size if len(size) == len(shares) else np.ones(len(shares))
        num_evaluated = float(size.sum())
        num_trained = float((drawn.values * vitals.vital("batch_size").median).sum())
        mean = float(np.average(shares.values, weights=weights))
        if mean < self.share or mean * num_evaluated > self.part * num_trained:
            return
        is_everywhere = float(np.average(shares.values > 0, weights=weights)) > _BATCH_EACH
        is_whole = mean > _NEARLY_ALL
        is_known = _is_read_once(vitals, int(shares.steps[0])) or (
            len(before) and before.median < _MOSTLY_SEEN
        )
        if is_everywhere and (is_whole or is_known):
            yield Sign(
                int(shares.steps[0]),
                f"{mean:.0%} of {num_evaluated:.0f} samples that are evaluated were trained on "
                "before.",
                value=mean,
                threshold=self.share,
            )


@dataclass
class EvaluationAugmented(VitalsRule):
    """The samples of an evaluation are changed at random each time.

    Fires when of at least `num_passes` passes over a loader that is only evaluated, in the order of
    its data, every one began with the same class labels and with other inputs.
    """

    kind = Kind.CAUSE
    rests_on = ("batch_size",)
    leaves_training_loss = True
    advice = (
        "Give the validation set a transform of its own, without random crops, flips or noise: two "
        "evaluations of one model should agree. A split of one data set shares its transform."
    )

    num_passes: int = parameter(3, "Passes before the rule may fire.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for loader in vitals.anatomy.loaders:
            is_evaluated = loader.num_evaluated > 0 and not loader.num_trained
            if not is_evaluated or loader.sampler != "SequentialSampler":
                continue
            if self.num_passes <= loader.num_passes == loader.num_altered_starts + 1:
                seen = vitals.vital("batch_size", training=False)
                yield Sign(
                    int(seen.steps[0]) if len(seen) else 0,
                    f"{loader.num_passes} passes over {loader.num_samples} samples of evaluation "
                    "began with the same labels and with other inputs each time.",
                    value=float(loader.num_altered_starts),
                    threshold=float(self.num_passes - 1),
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
    rests_on = ("input/fingerprint",)
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
    loader, whose batches have at least `samples`, or the loader itself yields one row of values
    that cannot be shared out among the samples of a batch; the targets of all losses are of one
    sample, and each batch is used for one forward only. Samples of a batch that pass the model one
    by one are not reported, nor are batches that the model gets as one sequence or set.
    """

    kind = Kind.MISTAKE
    rests_on = ("input/num_values", "batch_size")
    advice = (
        "Give the model the whole batch: look for an index or slice such as x[:1] or batch[0] "
        "between the loader and the model or in its collate_fn, and for debugging code that was "
        "left in."
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
        is_collated = _is_collated_to_one(vitals, loader)
        if (is_one or is_collated) and _is_loss_of_one(vitals.anatomy, loader.batch_size or 0):
            what = "collates" if is_collated else "yields"
            yield Sign(
                int(given.steps[0]),
                f"The loader {what} batches of {loader.batch_size} samples, and in all {len(given)}"
                " batches that were checked the model gets one sample.",
                value=1.0,
                threshold=float(self.samples),
            )


@dataclass
class IteratorUsedUp(VitalsRule):
    """A loop goes over an iterator that is at its end, and gets no batch.

    Fires when iterators of a loader were asked for more at least `num_times` times after they had
    ended. An iterator that is made anew after its end, and one that a zip leaves at its end, are
    not asked again.
    """

    kind = Kind.MISTAKE
    leaves_training_loss = True
    advice = (
        "Iterate the loader itself, `for batch in loader`, or call iter(loader) inside the loop "
        "over epochs: an iterator that was made before it is empty from the second epoch on. "
        "Figures of these epochs are of no data."
    )

    num_times: int = parameter(2, "Requests after the end.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for loader in vitals.anatomy.loaders:
            if loader.num_used_up >= self.num_times:
                use = "evaluation" if loader.num_evaluated > loader.num_trained else "training"
                yield Sign(
                    _end_of_first_use(vitals, is_training=use == "training"),
                    f"An iterator over the {use}'s {loader.num_samples or 'many'} samples had ended"
                    f" and was looped over {loader.num_used_up} more times, without a batch.",
                    value=float(loader.num_used_up),
                    threshold=self.num_times,
                )


@dataclass
class SamplesNeverDrawn(VitalsRule):
    """The loader leaves the same samples out of every epoch.

    Fires when a loader of training reads its data in order and drops the last batch, so that in at
    least two passes the same `share` of the samples or more was never drawn; or, at the end, when a
    loader drops its only batch, because it has fewer samples than one batch; or when the length of
    a data set is a number of batches, by the script, and a loader of training takes it for samples.
    """

    kind = Kind.MISTAKE
    explains = ("SameBatch", "Overfitting")
    leaves_training_loss = True
    advice = (
        "Shuffle, so that other samples are dropped in each epoch; or keep the last batch "
        "(drop_last=False), or use a batch size that divides the number of samples."
    )

    share: float = parameter(
        0.1, "Share of the samples: a smaller rest is dropped on purpose.", at_least=0, at_most=1
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        yield from self._by_length(vitals)
        for loader in vitals.anatomy.loaders:
            samples, size = loader.num_samples, loader.batch_size
            if not samples or not size or not loader.drops_last:
                continue
            left = samples % size
            is_read = loader.sampler == "SequentialSampler" and loader.num_passes > 1
            is_trained = loader.num_trained > loader.num_evaluated
            is_empty = samples < size and loader.sampler in _WHOLE and vitals.is_all
            if is_empty or (is_read and is_trained and left >= self.share * samples):
                yield Sign(
                    0,
                    f"A loader of {samples} samples, in batches of {size}, drops the last batch: "
                    f"{left} samples, {left / samples:.0%}, are never drawn.",
                    tensor=f"loader of {samples} samples",
                    value=left / samples,
                    threshold=self.share,
                )

    def _by_length(self, vitals: VitalSigns) -> Iterable[Sign]:
        trained = [each for each in vitals.anatomy.loaders if each.num_trained]
        for each in trained[:1]:
            if each.num_samples and (each.batch_size or 0) > 1:
                for remark in remarks(vitals, self):
                    yield sign(remark, f"The loader takes it for {each.num_samples} samples.")


def _is_read_once(vitals: VitalSigns, step: int) -> bool:
    """Whether the only loader of training has given all that it has before this step."""
    trained = [each for each in vitals.anatomy.loaders if each.num_trained]
    is_whole = len(trained) == 1 and trained[0].sampler in _WHOLE
    return is_whole and 0 < _num_batches(trained[0]) <= step


def _are_evaluations(vitals: VitalSigns) -> bool:
    """Several, between which the model is trained for a while. An agent that acts and learns in
    turn does not evaluate."""
    between = np.diff(vitals.vital("batch_size", training=False).steps)
    gaps = between[between > 1]
    return len(gaps) + 1 >= _FEWEST_EVALUATIONS and float(np.median(gaps)) >= _RUN


def _end_of_first_use(vitals: VitalSigns, *, is_training: bool) -> int:
    """The last step at which there still were batches."""
    seen = vitals.vital("batch_size", training=is_training)
    return int(seen.steps[-1]) if len(seen) else 0


def _is_collated_to_one(vitals: VitalSigns, loader: LoaderFacts) -> bool:
    """Whether the loader itself makes one sample of a batch. What has a value, or several, of each
    sample, as a set or a packed sequence, has a multiple of the batch size."""
    given = vitals.vital("input/num_values")
    return loader.num_rows == 1 and bool((given.values % (loader.batch_size or 1) != 0).all())


def _steps_of_pass(loader: LoaderFacts) -> int:
    return loader.num_batches // max(1, loader.num_passes)


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
