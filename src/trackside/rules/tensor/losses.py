"""Rules about losses: whether training goes on getting better."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import field
from itertools import pairwise

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.modes import ModeKeys
from trackside.capture.reading.cube import Cube
from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.builtin import Need, TensorRule
from trackside.rules.onsets import Onsets
from trackside.rules.parameters import Mode, Pattern, parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.evidence import Evidence, Selection
from trackside.rules.tensor.selecting import SelectingRule

LOSSES = Selection(("losses",))


@dataclass(frozen=True, slots=True)
class _Series:
    """What is new of one loss in one mode."""

    mode: str
    name: str
    steps: list[int]
    mode_steps: list[int]
    values: list[float]

    @property
    def key(self) -> str:
        return f"{self.mode} {self.name}"


@dataclass(slots=True)
class _Past:
    """Of one loss in one mode: what a check may still compare with."""

    last_check: int | None = None
    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def checks(self, series: _Series, num_steps: int) -> Iterator[tuple[int, float, float]]:
        """Of each check among what is new: its place there, the earlier loss and the loss."""
        num_old = len(self.steps)
        self.steps += series.mode_steps
        self.values += series.values
        start = self.steps[0] if self.last_check is None else self.last_check
        while (place := bisect_left(self.steps, start + num_steps)) < len(self.steps):
            start = self.last_check = self.steps[place]
            earlier = self.values[bisect_right(self.steps, start - num_steps) - 1]
            yield place - num_old, earlier, self.values[place]
        kept = bisect_left(self.steps, start)
        del self.steps[:kept], self.values[:kept]


@dataclass
class LossNotDecreasing(SelectingRule):
    """The loss no longer falls.

    Every `num_steps` steps a loss is compared with the newest saved one that is at least that many
    steps back. Fires when the loss fell by at most `diff_percent` percent, or rose by more than
    `increase_threshold_percent` percent.
    """

    kind = Kind.SYMPTOM
    advice = (
        "If the loss jumps up and down, divide the learning rate by ten; if it hardly changes, "
        "multiply it by ten; if it started to rise here, check the data of this step. --rule all "
        "says which of these it is. A noisy loss needs a larger num_steps."
    )

    use_losses_collection: bool = parameter(True, "Judge the collection `losses` too.")
    num_steps: int = parameter(10, "Steps between two losses that are compared.", at_least=1)
    diff_percent: float = parameter(0.1, "Fall in percent that is too small.", at_least=0)
    increase_threshold_percent: float = parameter(
        5.0, "Rise in percent that is accepted.", at_least=0
    )
    mode: Mode | None = parameter(
        "GLOBAL", "TRAIN, EVAL or PREDICT; GLOBAL: each mode against itself."
    )
    _onsets: Onsets = field(default_factory=Onsets, init=False)
    _past: dict[str, _Past] = field(default_factory=dict, init=False)

    def needs(self) -> tuple[Need, ...]:
        losses = (Need("losses"),) if self.use_losses_collection else ()
        return (*losses, *self.selected())

    def judges_losses(self) -> bool:
        return self.use_losses_collection and not self.collection_names

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        for series in _new_losses(evidence, self._names(evidence)):
            if self.mode not in (None, "GLOBAL", series.mode):
                continue
            past = self._past.setdefault(series.key, _Past())
            for place, earlier, loss in past.checks(series, self.num_steps):
                rise = 100 * _relative(loss - earlier, earlier)
                if self._onsets.begins(series.key, self._is_bad(rise)):
                    step = series.steps[place]
                    yield self._finding(evidence, step, series.name, earlier, loss, rise)

    def _names(self, evidence: Evidence) -> tuple[str, ...]:
        collections = ("losses",) if self.use_losses_collection else ()
        selection = Selection((*collections, *self.collection_names), self.tensor_regex)
        return evidence.scalars(evidence.names(selection)) if selection != Selection() else ()

    def _is_bad(self, rise: float) -> bool:
        """NaN counts as bad: a loss that is none does not fall."""
        fell_enough = rise < 0 and -rise > self.diff_percent
        return not (fell_enough or 0 < rise <= self.increase_threshold_percent)

    def _finding(
        self, evidence: Evidence, step: int, name: str, earlier: float, loss: float, rise: float
    ) -> Finding:
        if rise > 0:
            limit = self.increase_threshold_percent
            change = f"rose by {rise:.3g} %, more than {limit:g} %"
        else:
            limit = self.diff_percent
            change = f"fell by {-rise + 0.0:.3g} %, no more than {limit:g} %"
        message = f"From {earlier:.5g} the loss {change}, and is {loss:.5g}."
        return self.found(evidence, step, message, tensor=name, value=loss, threshold=limit)


@dataclass(slots=True)
class _Evaluation:
    """What was saved since the last evaluation ended, by tensor."""

    train: dict[str, list[float]] = field(default_factory=dict)
    validation: dict[str, list[float]] = field(default_factory=dict)
    last_step: int = 0

    def means(self) -> Iterator[tuple[str, float, float]]:
        """Tensor, mean in TRAIN, mean in EVAL. Where no tensor has both, all are taken as one."""
        both = [name for name in self.validation if name in self.train]
        for name in both:
            yield name, float(np.mean(self.train[name])), float(np.mean(self.validation[name]))
        if not both and self.train and self.validation:
            train = np.concatenate([*self.train.values()])
            validation = np.concatenate([*self.validation.values()])
            yield next(iter(self.validation)), float(train.mean()), float(validation.mean())


@dataclass
class Overfit(TensorRule):
    """The model does much better on its training data than on other data.

    Checked after each evaluation (EVAL steps without a TRAIN step between them). Fires when (mean
    EVAL loss - mean TRAIN loss) / |mean TRAIN loss| is above `ratio_threshold` for `patience`
    evaluations in a row. The means are over the losses saved since the previous evaluation.
    """

    advice = (
        "Stop here or go back to the best checkpoint; more data, augmentation, dropout, weight "
        "decay or a smaller model narrow the gap."
    )

    tensor_regex: tuple[Pattern, ...] = parameter((), "Names of the losses; none: `losses`.")
    start_step: int = parameter(0, "Global step before which nothing is judged.", at_least=0)
    patience: int = parameter(1, "Evaluations in a row that must be too high.", at_least=1)
    ratio_threshold: float = parameter(0.1, "Gap, relative to the TRAIN loss, that is too wide.")
    _onsets: Onsets = field(default_factory=Onsets, init=False)
    _current: _Evaluation = field(default_factory=_Evaluation, init=False)
    _in_a_row: dict[str, int] = field(default_factory=dict, init=False)

    def needs(self) -> tuple[Need, ...]:
        if self.tensor_regex:
            return (Need("Overfit_tensors", "|".join(self.tensor_regex)),)
        return (Need("losses"),)

    def judges_losses(self) -> bool:
        return True

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        selection = Selection(patterns=self.tensor_regex) if self.tensor_regex else LOSSES
        names = evidence.scalars(evidence.names(selection))
        cube = evidence.figures(names, "mean")
        for rows, mode in _passes(evidence.modes(cube.steps)):
            if mode is ModeKeys.TRAIN:
                yield from self._judge(evidence)
            if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
                self._add(cube, rows, is_training=mode is ModeKeys.TRAIN)
        if evidence.is_all:
            yield from self._judge(evidence)

    def _add(self, cube: Cube, rows: range, *, is_training: bool) -> None:
        losses = self._current.train if is_training else self._current.validation
        steps = np.array(cube.steps)[rows.start : rows.stop]
        for column, name in enumerate(cube.names):
            saved = cube.saved[rows.start : rows.stop, column] & (steps >= self.start_step)
            if saved.any():
                values = cube.values[rows.start : rows.stop, column][saved]
                losses.setdefault(name, []).extend(values.tolist())
                self._current.last_step = int(steps[saved][-1])

    def _judge(self, evidence: Evidence) -> Iterator[Finding]:
        """Called when an evaluation may be over."""
        if not self._current.validation:
            return
        ended, self._current = self._current, _Evaluation()
        for name, train, validation in ended.means():
            ratio = _relative(validation - train, train)
            in_a_row = self._in_a_row.get(name, 0) + 1 if ratio > self.ratio_threshold else 0
            self._in_a_row[name] = in_a_row
            if self._onsets.begins(name, in_a_row >= self.patience):
                yield self.found(
                    evidence,
                    ended.last_step,
                    f"The loss is {validation:.4g} in evaluation and {train:.4g} in training: "
                    f"{ratio:.3g} times the latter more, above {self.ratio_threshold:g}.",
                    tensor=name,
                    value=ratio,
                    threshold=self.ratio_threshold,
                )


@dataclass
class Overtraining(TensorRule):
    """Training continues although the loss has stopped improving.

    Tracks the minimum of each loss, in TRAIN and in EVAL. A new minimum must be lower by more than
    `delta`. Fires when there was none for `patience_train` saved TRAIN steps, or for
    `patience_validation` saved EVAL steps.
    """

    advice = (
        "Stop here and keep the best checkpoint, or lower the learning rate: at the current rate, "
        "further steps change nothing."
    )

    patience_train: int = parameter(5, "Saved TRAIN steps without a better loss.", at_least=1)
    patience_validation: int = parameter(10, "Saved EVAL steps without a better loss.", at_least=1)
    delta: float = parameter(0.01, "By how much a loss must be lower to be better.", at_least=0)
    _onsets: Onsets = field(default_factory=Onsets, init=False)
    _best: dict[str, tuple[float, int]] = field(default_factory=dict, init=False)

    def needs(self) -> tuple[Need, ...]:
        return (Need("losses"),)

    def judges_losses(self) -> bool:
        return True

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        names = evidence.scalars(evidence.names(LOSSES))
        patience = {"TRAIN": self.patience_train, "EVAL": self.patience_validation}
        for series in _new_losses(evidence, names):
            if series.mode not in patience:
                continue
            limit = patience[series.mode]
            best, since = self._best.get(series.key, (math.inf, -1))
            for step, loss in zip(series.steps, series.values, strict=True):
                best, since = (loss, 0) if loss < best - self.delta else (best, since + 1)
                if since not in (0, limit):  # between, nothing begins and nothing ends
                    continue
                if self._onsets.begins(series.key, since >= limit):
                    yield self.found(
                        evidence,
                        step,
                        f"In {series.mode} the loss has not gone below {best:.4g} by "
                        f"{self.delta:g} for {since} saved steps, the limit is {limit}.",
                        tensor=series.name,
                        value=loss,
                        threshold=best,
                    )
            self._best[series.key] = best, since


def _new_losses(evidence: Evidence, names: tuple[str, ...]) -> Iterator[_Series]:
    cube: Cube = evidence.figures(names, "mean")
    modes, mode_steps = evidence.modes(cube.steps), evidence.mode_steps(cube.steps)
    steps = np.array(cube.steps)
    for column, name in enumerate(cube.names):
        for mode in ModeKeys:
            rows = cube.saved[:, column] & (modes == mode.value)
            if rows.any():
                yield _Series(
                    mode.name,
                    name,
                    steps[rows].tolist(),
                    mode_steps[rows].tolist(),
                    cube.values[rows, column].tolist(),
                )


def _passes(modes: Array) -> Iterator[tuple[range, ModeKeys]]:
    """Stretches of steps that follow each other in one mode."""
    ends = [*(np.flatnonzero(np.diff(modes)) + 1).tolist(), len(modes)]
    for start, end in pairwise([0, *ends]):
        if end > start:
            yield range(start, end), ModeKeys(int(modes[start]))


def _relative(change: float, to: float) -> float:
    """Losses may be negative, and may be zero."""
    if to:
        return change / abs(to)
    return math.copysign(math.inf, change) if change else 0.0
