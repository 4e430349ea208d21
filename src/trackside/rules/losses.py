"""Rules about losses: whether training goes on getting better."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from trackside.capture.cube import Cube
from trackside.capture.modes import ModeKeys
from trackside.finding import Finding
from trackside.rules.builtin import Need, TensorRule
from trackside.rules.evidence import Evidence, Selection
from trackside.rules.onsets import Onsets
from trackside.rules.parameters import InvalidParameters, parameter
from trackside.rules.selecting import SelectingRule

LOSSES = Selection(("losses",))


@dataclass(slots=True)
class _Checked:
    """Of one loss in one mode: what was saved that a check may still compare with."""

    last_check: int | None = None
    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def compared(self, step: int, num_steps: int) -> float | None:
        """The newest value at least `num_steps` back; None when this step is not checked."""
        if self.last_check is not None and step < self.last_check + num_steps:
            return None
        place = int(np.searchsorted(self.steps, step - num_steps, side="right")) - 1
        if place < 0:
            return None
        self.last_check = step
        earlier = self.values[place]
        del self.steps[:place], self.values[:place]
        return earlier


@dataclass
class LossNotDecreasing(SelectingRule):
    """The loss no longer falls.

    Every `num_steps` steps the loss is compared with the newest saved one at least so many steps
    back. Fires when it fell by at most `diff_percent` percent, or rose by more than
    `increase_threshold_percent` percent.
    """

    advice = (
        "Lower or raise the learning rate, check the gradients, and look for data that are wrong "
        "from this step on. A noisy loss needs a larger num_steps."
    )

    use_losses_collection: bool = parameter(True, "Judge the collection `losses` too.")
    num_steps: int = parameter(10, "Steps between two losses that are compared.", at_least=1)
    diff_percent: float = parameter(0.1, "Fall in percent that is too small.", at_least=0)
    increase_threshold_percent: float = parameter(5.0, "Rise in percent that passes.", at_least=0)
    mode: str = parameter("GLOBAL", "TRAIN, EVAL or PREDICT; GLOBAL: each mode against itself.")
    _onsets: Onsets = field(default_factory=Onsets, init=False)
    _checked: dict[str, _Checked] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.mode.upper() not in ModeKeys.__members__:
            known = ", ".join(ModeKeys.__members__)
            raise InvalidParameters([f"mode = {self.mode!r} is no mode. Known: {known}."])
        self.mode = self.mode.upper()

    def needs(self) -> tuple[Need, ...]:
        losses = (Need("losses"),) if self.use_losses_collection else ()
        return (*losses, *self.selected())

    def look(self, evidence: Evidence) -> Iterable[Finding]:
        for step, mode, name, loss in each_loss(evidence, self._names(evidence)):
            if self.mode not in ("GLOBAL", mode):
                continue
            key = f"{mode} {name}"
            checked = self._checked.setdefault(key, _Checked())
            mode_step = evidence.trial.mode_step(step) or 0
            earlier = checked.compared(mode_step, self.num_steps)
            checked.steps.append(mode_step)
            checked.values.append(loss)
            if earlier is not None:
                rise = 100 * _relative(loss - earlier, earlier)
                if self._onsets.begins(key, self._is_bad(rise)):
                    yield self._finding(evidence, step, name, earlier, loss, rise)

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
    """The model does much better on the data it is trained with than on others.

    After each evaluation (EVAL steps without a TRAIN step between), fires when
    (mean EVAL loss - mean TRAIN loss) / mean TRAIN loss is above `ratio_threshold` for `patience`
    evaluations in a row. The means are over what was saved since the evaluation before.
    """

    advice = (
        "Stop here or go back to the best checkpoint; more data, augmentation, dropout, weight "
        "decay or a smaller model narrow the gap."
    )

    tensor_regex: tuple[str, ...] = parameter((), "Names of the losses; none: `losses`.")
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

    def look(self, evidence: Evidence) -> Iterable[Finding]:
        selection = Selection(patterns=self.tensor_regex) if self.tensor_regex else LOSSES
        names = evidence.scalars(evidence.names(selection))
        for step, mode, name, loss in each_loss(evidence, names):
            if mode == "TRAIN":
                yield from self._judge(evidence)
            if step >= self.start_step and mode in ("TRAIN", "EVAL"):
                losses = self._current.train if mode == "TRAIN" else self._current.validation
                losses.setdefault(name, []).append(loss)
                self._current.last_step = step
        if evidence.is_all:
            yield from self._judge(evidence)

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
                    f"{ratio:.3g} of it more, above {self.ratio_threshold:g}.",
                    tensor=name,
                    value=ratio,
                    threshold=self.ratio_threshold,
                )


@dataclass
class Overtraining(TensorRule):
    """Training goes on though the loss has stopped improving.

    Keeps the lowest value of each loss in TRAIN and in EVAL; a new one must be lower by more than
    `delta`. Fires when there was none for `patience_train` saved TRAIN steps or for
    `patience_validation` saved EVAL steps.
    """

    advice = (
        "Stop here and keep the best checkpoint, or lower the learning rate: with it as it is, "
        "further steps change nothing."
    )

    patience_train: int = parameter(5, "Saved TRAIN steps without a better loss.", at_least=1)
    patience_validation: int = parameter(10, "Saved EVAL steps without a better loss.", at_least=1)
    delta: float = parameter(0.01, "By how much a loss must be lower to be better.", at_least=0)
    _onsets: Onsets = field(default_factory=Onsets, init=False)
    _best: dict[str, tuple[float, int]] = field(default_factory=dict, init=False)

    def needs(self) -> tuple[Need, ...]:
        return (Need("losses"),)

    def look(self, evidence: Evidence) -> Iterable[Finding]:
        names = evidence.scalars(evidence.names(LOSSES))
        patience = {"TRAIN": self.patience_train, "EVAL": self.patience_validation}
        for step, mode, name, loss in each_loss(evidence, names):
            if mode not in patience:
                continue
            key = f"{mode} {name}"
            best, since = self._best.get(key, (float("inf"), -1))
            is_better = loss < best - self.delta
            self._best[key] = best, since = (loss, 0) if is_better else (best, since + 1)
            if self._onsets.begins(key, since >= patience[mode]):
                yield self.found(
                    evidence,
                    step,
                    f"In {mode} the loss has not gone below {best:.4g} by {self.delta:g} for "
                    f"{since} saved steps, the limit is {patience[mode]}.",
                    tensor=name,
                    value=loss,
                    threshold=best,
                )


def each_loss(evidence: Evidence, names: tuple[str, ...]) -> Iterator[tuple[int, str, str, float]]:
    """Step, mode, tensor and value of what is new, in order of steps."""
    cube: Cube = evidence.figures(names, "mean")
    modes = [evidence.mode(step).name for step in cube.steps]
    rows, columns = cube.saved.nonzero()
    values = cube.values[rows, columns].tolist()
    for row, column, value in zip(rows.tolist(), columns.tolist(), values, strict=True):
        yield cube.steps[row], modes[row], cube.names[column], value


def _relative(change: float, to: float) -> float:
    """Losses may be negative, and may be zero."""
    if to:
        return change / abs(to)
    return math.copysign(math.inf, change) if change else 0.0
