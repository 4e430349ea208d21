"""The history of a training: vitals, losses and anatomy, as judged by the check-up.

`Evidence` has only what is new; here it is accumulated, since a figure means something only
compared with the run's own past.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from functools import cached_property

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.modes import ModeKeys
from trackside.capture.reading.anatomy import Anatomy, AnatomyFile, LossFacts
from trackside.capture.reading.rank_figures import RankFigureFiles, WorkerFigures
from trackside.capture.reading.tensor_index import TensorRecord
from trackside.capture.reading.trial_folder import TrialFolder
from trackside.capture.trial import Trial
from trackside.capture.trial_layout import VITALS
from trackside.errors import TracksideError
from trackside.quick_dataclass import dataclass

LONG_RUN = 1000
"""Steps after which a running job is judged by its outcome: by then a loss that will fall has
started to, in every healthy script of the zoo.
"""
FAIR_STEPS = 100
"""Steps before a loss that has not moved means anything: warm-up and the noise of the first batches
are over.
"""
FEWEST_LOSSES = 20
"""Saved losses before their medians are compared: with fewer, one bad batch decides."""
EPSILON = 1e-12
"""Prevents division by zero; far below any figure of a training."""
_TENTH = 10
"""The start and the end of a loss are its first and last tenth."""
_FEWEST_FIRST, _MOST_FIRST, _FEWEST_LAST = 3, 10, 5
"""Number of losses in these: enough to outvote an outlier; at most ten at the start, where a loss
falls fastest.
"""
_JUMP = 3.0
"""The first loss alone is the start if the following ones are this many times higher: the first
updates have driven them up.
"""
_THIRD = 3
"""The last third of a loss is compared with the one before it, and with what the mean of the
targets would cost: long enough to average out noise, and short enough to be recent."""
_FEWEST_IN_THIRD = 10
"""Losses in a third before its spread is an estimate of the noise."""
_NOISE = 3.0
"""Standard errors by which a mean must be lower to count as falling: chance once in 700."""
_LINGERING, _LINGERING_IN_ALL = 5 / 6, 2 / 3
"""A loss lingers while it keeps more than five sixths in the second half of a stretch, and two
thirds of its start: healthy runs of the zoo are below both."""
EXPLAINED = 0.3
"""Of the targets' variance: with less left unexplained, amounts are learnt."""
_NOT_LOWER = 0.02
"""A loss over amounts that fell by less counts as unchanged."""
_LITTLE_LOWER, _AS_THE_MEAN = 0.2, 0.97
"""It may have fallen by this much when it is no better than always predicting the mean."""
CHANCE_SHARE = 0.9
"""Above this share of chance's loss a loss over classes is at the level of chance."""
_CHANCE_SHARE_IF_FALLING = 0.95
"""The same while it falls: it may yet leave that level."""
_LEVEL, _NEAR_CHANCE = 0.1, 1.2
"""At that level it has fallen by less than a tenth, or from no more than 1.2 times chance."""
_SAME_LOSS = 0.02
"""Relative difference up to which a loss's own value counts as the whole objective: regularisation
terms are larger where they matter.
"""
_SCORED = 0.1
"""Calls of `log_prob` over backwards, of which a policy's have one or more each."""
_SMOOTH = ("smooth_l1_loss", "huber_loss")
_TRAINING = (ModeKeys.TRAIN.value, ModeKeys.GLOBAL.value)
_FIGURES = (
    ("vitals", "mean"),
    ("losses", "mean"),
    ("gradients", "l2"),
    ("gradients", "abs_mean"),
    ("weights", "l2"),
    ("weights", "min"),
    ("weights", "max"),
)
"""The reductions that are read, by collection."""


@dataclass(frozen=True, slots=True)
class Series:
    """One figure over the steps at which it was recorded."""

    steps: Array = field(default_factory=lambda: np.empty(0, int))
    values: Array = field(default_factory=lambda: np.empty(0))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def median(self) -> float:
        """NaN if empty."""
        known = self.values[np.isfinite(self.values)]
        return float(np.median(known)) if len(known) else math.nan

    @property
    def span(self) -> int:
        """Steps from the first to the last."""
        return int(self.steps[-1] - self.steps[0]) if len(self) else 0

    def first(self, count: int) -> "Series":
        return Series(self.steps[:count], self.values[:count])

    def last(self, count: int) -> "Series":
        return Series(self.steps[-count:], self.values[-count:])

    def since(self, step: float) -> "Series":
        return self.where(self.steps >= step)

    def where(self, chosen: Array) -> "Series":
        return Series(self.steps[chosen], self.values[chosen])


class _Column:
    """One growing figure of one tensor. Joined when it is read: few rules read every figure."""

    def __init__(self, steps: Array, values: Array, trains: Array) -> None:
        self._parts = [(steps, values, trains)]

    def append(self, steps: Array, values: Array, trains: Array) -> None:
        self._parts.append((steps, values, trains))

    def joined(self) -> tuple[Array, Array, Array]:
        """Steps, values, and whether weights are updated at each step."""
        if len(self._parts) > 1:
            steps, values, trains = map(np.concatenate, zip(*self._parts, strict=True))
            self._parts = [(steps, values, trains)]
        return self._parts[0]


class VitalSigns:
    """Grows with the trial: `refresh` reads what is new. Steps are global. With several workers,
    covers the one named, or the first.

    Most figures are the same from one check to the next: derived values are cached until more
    arrive.
    """

    def __init__(self, trial: Trial, worker: str | None = None) -> None:
        self.is_all = False
        self.anatomy = Anatomy()
        self._trial = trial
        self._worker = worker
        self._anatomy_file = AnatomyFile(trial.path, worker)
        self._rank_files = RankFigureFiles(TrialFolder(trial.location))
        self._columns: dict[tuple[str, str], _Column] = {}
        self._read_up_to: dict[tuple[str, str], int] = {}
        self._names: dict[tuple[str, str], list[str]] = {}
        self._known = (0, 0)
        self._loss_names: list[str] = []
        self._made: dict[tuple[str, str, bool | None], Series] = {}
        self._found: dict[tuple[str, str], list[tuple[str, str]]] = {}

    def refresh(self, *, is_all: bool) -> None:
        self.is_all = is_all
        for cached in ("loss", "evaluation_loss", "ends_at", "ranks"):
            self.__dict__.pop(cached, None)
        was_evaluated = self._is_all_evaluation
        with suppress(TracksideError, ValueError, TypeError):  # the next check may find it complete
            self.anatomy = self._anatomy_file.read() or self.anatomy
        if self._is_all_evaluation != was_evaluated:
            self._made.clear()
        records = dict(self._trial.tensor_records())
        known = len(records), self._trial.collections_revision
        if known != self._known or is_all:
            self._names.clear()
            self._known = known
        for collection, reduction in _FIGURES:
            self._read(collection, reduction, records)

    def vital(self, name: str, *, training: bool = True) -> Series:
        """At training steps, or at evaluation steps."""
        return self._series(VITALS + name, "mean", training)

    def series_by_name(self, prefix: str, suffix: str = "") -> dict[str, Series]:
        """By the part between the two, at training steps, as long as the loss is finite."""
        start = VITALS + prefix
        if (start, suffix) not in self._found:
            self._found[start, suffix] = [
                (name, reduction)
                for name, reduction in self._columns
                if name.startswith(start) and name.endswith(suffix)
            ]
        return {
            name[len(start) : len(name) - len(suffix)]: self._while_finite(name, reduction)
            for name, reduction in self._found[start, suffix]
        }

    def figure(self, tensor: str, reduction: str) -> Series:
        """Of a gradient or a weight, if it was saved."""
        return self._series(tensor, reduction, None)

    def tensors(self, reduction: str, *, gradients: bool) -> list[str]:
        """Names that have this figure, in the model's order."""
        return [
            name
            for name, known in self._columns
            if known == reduction
            and name.startswith("gradient/") is gradients
            and not name.startswith(VITALS)
        ]

    @cached_property
    def ranks(self) -> list[WorkerFigures]:
        """What every process of the group recorded, by rank; at most one for a single process."""
        with suppress(TracksideError, OSError):  # the next check may find it
            return self._rank_files.read()
        return []

    @cached_property
    def loss(self) -> Series:
        """The training loss: of several, the one saved most often."""
        return self._loss(training=True)

    @cached_property
    def evaluation_loss(self) -> Series:
        return self._loss(training=False)

    @cached_property
    def ends_at(self) -> float:
        """The step from which the loss is not finite: later figures mean nothing."""
        bad = np.flatnonzero(~np.isfinite(self.loss.values))
        return float(self.loss.steps[bad[0]]) if len(bad) else math.inf

    @property
    def last_step(self) -> int:
        """Of training."""
        seen = [each.steps[-1] for each in (self.loss, self.vital("batch_size")) if len(each)]
        return int(max(seen, default=0))

    @property
    def num_updates(self) -> int:
        return self.anatomy.num_optimizer_steps

    @property
    def chance(self) -> float | None:
        """The loss of random guessing, for losses over classes."""
        for loss in self.anatomy.losses:
            if loss.function.startswith("binary_cross_entropy"):
                return math.log(2) * _mean_weight(loss)
            if loss.num_classes and loss.label_max is not None and loss.label_min is not None:
                seen = min(loss.num_classes, loss.label_max - loss.label_min + 1)
                return math.log(seen) if seen > 1 else None
        return None

    @property
    def unexplained(self) -> float:
        """For a single loss over amounts: the loss of the last third, relative to that of always
        predicting the targets' mean. NaN if unknown, as when that loss is only a part of the
        objective.
        """
        known = self.loss.last(max(FEWEST_LOSSES, len(self.loss) // _THIRD)).values
        variance = self._target_variance()
        if not len(known) or not variance > 0 or not self._is_all_of_the_loss("loss_value"):
            return math.nan
        loss = self.anatomy.losses[0]
        if len(self.anatomy.losses) > 1 or loss.reduction != "mean":
            return math.nan
        return float(known.mean()) / _loss_of_mean(loss, math.sqrt(variance))

    @property
    def fall(self) -> float:
        """The fraction by which the training loss has fallen from its start to now; negative if it
        rose. Medians of its first and last tenth.
        """
        early, late = self.early_loss, self.late_loss
        return (early - late) / max(abs(early), EPSILON) if math.isfinite(early) else 0.0

    @property
    def early_loss(self) -> float:
        """The median of the first losses; the very first if the next are several times higher."""
        count = max(_FEWEST_FIRST, min(_MOST_FIRST, len(self.loss) // _TENTH))
        median = self.loss.first(count).median
        first = self.first_loss
        return first if abs(first) < abs(median) / _JUMP else median

    @property
    def first_loss(self) -> float:
        return float(self.loss.values[0]) if len(self.loss) else math.nan

    @property
    def late_loss(self) -> float:
        """NaN when none of the last is finite."""
        return self.loss.last(max(_FEWEST_LAST, len(self.loss) // _TENTH)).median

    def lingers(self, num_steps: int) -> bool:
        """Whether the loss had hardly come down after so many steps: by less than a sixth in their
        second half, and by less than a third in all, since the first few are noisy."""
        steps = self.loss.steps
        before = self.loss.where(steps < num_steps / 2).median
        then = self.loss.where((steps >= num_steps / 2) & (steps <= num_steps)).median
        return then > _LINGERING * before and then > _LINGERING_IN_ALL * self.early_loss > 0

    @property
    def is_of_policy(self) -> bool:
        """Whether actions are drawn and scored: the height of such a loss says nothing."""
        anatomy = self.anatomy
        scored = anatomy.num_scored_samples
        return anatomy.policy is not None or scored >= max(1, anatomy.num_backwards) * _SCORED

    @property
    def is_settled(self) -> bool:
        """Whether it is time to judge the outcome: many losses linger before they fall."""
        return self.is_all or self.last_step >= LONG_RUN

    @property
    def is_stuck(self) -> bool:
        """Whether after a fair number of steps the loss is about where it started.

        For classes: at the level of chance. For amounts: less than a fiftieth lower, or less than a
        fifth and no better than predicting their mean. Amounts that are explained well are learnt,
        wherever the loss started: in Q-learning they grow with what is learnt.
        """
        return self.is_stuck_above(CHANCE_SHARE)

    def is_stuck_above(self, chance_share: float) -> bool:
        """The same with another share of chance's loss."""
        if not self._is_long_enough:
            return False
        if not math.isfinite(self.late_loss):
            return True
        if self.chance is None:
            if self.unexplained < EXPLAINED:
                return False
            is_as_the_mean = self.fall < _LITTLE_LOWER and self.unexplained > _AS_THE_MEAN
            return self.fall < _NOT_LOWER or is_as_the_mean
        is_level = self.fall < _LEVEL or self.late_loss < _NEAR_CHANCE * self.chance
        share = max(chance_share, _CHANCE_SHARE_IF_FALLING) if self.is_falling else chance_share
        return self.late_loss > share * self.chance and is_level

    @property
    def _is_long_enough(self) -> bool:
        is_long = self.last_step >= FAIR_STEPS and len(self.loss) >= FEWEST_LOSSES
        return self.is_settled and is_long

    @property
    def is_falling(self) -> bool:
        """Whether the last third of the loss is below the one before it, by more than noise."""
        third = len(self.loss) // _THIRD
        before, now = self.loss.last(2 * third).first(third).values, self.loss.last(third).values
        if third < _FEWEST_IN_THIRD:
            return False
        noise = math.sqrt((before.var() + now.var()) / third)
        return bool(before.mean() - now.mean() > _NOISE * noise)

    @property
    def moved(self) -> float:
        """The greatest relative distance that the weights have moved: the sum of all updates."""
        ratio = self.vital("update_ratio")
        known = ratio.values[np.isfinite(ratio.values)]
        return float(known.mean()) * max(self.num_updates, 1) if len(known) else 0.0

    def _is_all_of_the_loss(self, name: str) -> bool:
        part = self.vital(name)
        steps, here, there = np.intersect1d(self.loss.steps, part.steps, return_indices=True)
        with np.errstate(invalid="ignore"):  # the difference of infinite values is undefined
            difference = np.abs(self.loss.values[here] - part.values[there])
        size = np.abs(part.values[there])
        return len(steps) > 0 and bool(np.median(difference) <= _SAME_LOSS * np.median(size))

    def _target_variance(self) -> float:
        """Over all batches: within and between them."""
        std, mean = self.vital("target/std").values, self.vital("target/mean").values
        return float((std**2).mean() + mean.var()) if len(std) else math.nan

    def is_weight_unchanged(self, name: str) -> bool:
        """As far as the saved figures show; False when none are saved."""
        series = [self.figure(name, each) for each in ("l2", "min", "max")]
        return all(len(each) > 1 and np.ptp(each.values) == 0 for each in series)

    def module_type(self, name: str) -> str:
        return next((m.type for m in self.anatomy.modules if m.name == name), "")

    def _while_finite(self, name: str, reduction: str) -> Series:
        series = self._series(name, reduction, True)
        if math.isinf(self.ends_at):
            return series
        return series.where(series.steps < self.ends_at)

    def _loss(self, *, training: bool) -> Series:
        names = [name for name in self._losses() if len(self._series(name, "mean", training))]
        found = [self._series(name, "mean", training) for name in names]
        return max(found, key=len, default=Series())

    def _losses(self) -> list[str]:
        return [name for name in self._loss_names if (name, "mean") in self._columns]

    def _read(self, collection: str, reduction: str, records: Mapping[str, TensorRecord]) -> None:
        key = (collection, reduction)
        names = self._names.get(key)
        if names is None:
            names = self._with_figure(collection, reduction, records)
        if not names:
            return
        after = self._read_up_to.get(key)
        cube = self._trial.cube(names, reduction, worker=self._worker, after_step=after)
        if not cube.steps:
            return
        self._read_up_to[key] = cube.steps[-1]
        steps = np.array(cube.steps)
        trains = np.isin(self._trial.step_table.modes_at(steps), _TRAINING)
        rows = np.ascontiguousarray(cube.values.T)  # one for each name
        if cube.saved.all():
            for name, values in zip(cube.names, rows, strict=True):
                self._append(name, reduction, steps, values, trains)
            return
        for name, values, saved in zip(cube.names, rows, cube.saved.T, strict=True):
            if saved.any():
                self._append(name, reduction, steps[saved], values[saved], trains[saved])

    def _with_figure(
        self, collection: str, reduction: str, records: Mapping[str, TensorRecord]
    ) -> list[str]:
        names = self._trial.tensor_names(collection=collection)
        if collection == "losses":
            names = self._loss_names = [name for name in names if "_input" not in name]
        found = [name for name in names if _has(records[name], reduction)]
        if found == names:  # otherwise some may still get it
            self._names[collection, reduction] = found
        return found

    def _append(
        self, name: str, reduction: str, steps: Array, values: Array, trains: Array
    ) -> None:
        key = (name, reduction)
        if key in self._columns:
            self._columns[key].append(steps, values, trains)
        else:
            self._columns[key] = _Column(steps, values, trains)
            self._found.clear()
        for training in (None, True, False):
            self._made.pop((*key, training), None)

    def _series(self, name: str, reduction: str, training: bool | None) -> Series:
        key = (name, reduction, training)
        if key not in self._made:
            self._made[key] = self._make(name, reduction, training)
        return self._made[key]

    def _make(self, name: str, reduction: str, training: bool | None) -> Series:
        column = self._columns.get((name, reduction))
        if column is None:
            return Series()
        steps, values, trains = column.joined()
        whole = Series(steps, values)
        if training is None:
            return whole
        if self._is_all_evaluation:
            return whole if training else Series()
        return whole.where(trains == training)

    @property
    def _is_all_evaluation(self) -> bool:
        """Whether the model is trained in evaluation mode: then modes do not tell steps apart."""
        backwards = self.anatomy.backwards
        return bool(backwards) and not any(each.training for each in backwards)


def _mean_weight(loss: LossFacts) -> float:
    """Of a target of a binary loss, whose mean is not divided by the weights."""
    counted = sum(loss.class_counts)
    if not counted:
        return 1.0
    pairs = zip(loss.class_counts, loss.weights, strict=False)
    return sum(count * weight for count, weight in pairs) / counted


def _loss_of_mean(loss: LossFacts, deviation: float) -> float:
    """A loss over amounts for a model that always predicts their mean, assuming a normal
    distribution; NaN for other losses.
    """
    if loss.function == "mse_loss":
        return deviation**2
    if loss.function == "l1_loss":
        return deviation * math.sqrt(2 / math.pi)
    if loss.function not in _SMOOTH or not loss.bend > 0:
        return math.nan
    # Squared up to the bend, straight beyond it, in units of the deviation.
    bend = loss.bend / deviation
    beyond = math.erfc(bend / math.sqrt(2))
    density = math.exp(-(bend**2) / 2) / math.sqrt(2 * math.pi)
    inner = (1 - beyond - 2 * bend * density) / 2
    outer = 2 * bend * density - bend**2 / 2 * beyond
    huber = deviation**2 * (inner + outer)
    return huber / loss.bend if loss.function == "smooth_l1_loss" else huber


def _has(record: TensorRecord, reduction: str) -> bool:
    return bool(record.runs.workers) or any(reduction in cube.columns for cube in record.cubes)
