"""Rules about any tensors: what they hold, and whether they change."""

from collections.abc import Iterable
from dataclasses import field

import numpy as np

from trackside.capture.dtypes import Array
from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.builtin import Need
from trackside.rules.onsets import Onsets
from trackside.rules.parameters import InvalidParameters, parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.evidence import Evidence, Selection
from trackside.rules.saved.tensor_values import Stretch
from trackside.rules.tensor.selecting import SelectingRule


@dataclass
class ExplodingTensor(SelectingRule):
    """A tensor contains NaN or infinity, from which a training does not recover.

    Fires when a selected tensor contains NaN or, unless `only_nan` is set, an infinity.
    """

    kind = Kind.SYMPTOM
    rests_on = ("gradient_norm", "gradients:abs_mean")
    advice = (
        "Lower the learning rate or warm it up, clip gradients, and check the first tensor with "
        "such a value: a log or division of zero, or float16 out of range (use bfloat16 or a "
        "GradScaler)."
    )

    only_nan: bool = parameter(False, "Accept infinities.")
    _onsets: Onsets = field(default_factory=Onsets, init=False)

    def needs(self) -> tuple[Need, ...]:
        if self.selection != Selection():
            return self.selected("abs_max")
        # Where nothing is named, all that is saved is judged; these are where it shows first.
        return tuple(
            Need(name, reductions=("abs_max",), is_optional=True)
            for name in ("gradients", "weights")
        )

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        cube = evidence.figures(evidence.names(self.selection), "abs_max")
        holds = np.isnan(cube.values) if self.only_nan else ~np.isfinite(cube.values)
        for row, column in self._onsets.of(cube.names, holds, cube.saved):
            if _has_no_numbers(evidence, cube.names[column], cube.steps[row]):
                continue
            value = float(cube.values[row, column])
            what = "NaN" if np.isnan(value) else "an infinity"
            yield self.found(
                evidence,
                cube.steps[row],
                f"The tensor holds {what}, where only finite values are healthy.",
                tensor=cube.names[column],
                value=value,
            )


@dataclass
class AllZero(SelectingRule):
    """A tensor is all zeros, or nearly.

    Fires when the share of zeros in a selected tensor is at least `threshold` percent.
    """

    kind = Kind.SYMPTOM
    advice = (
        "Check what produces this tensor: inputs that are blank, a ReLU that is dead, a loss that "
        "does not depend on it, or a parameter that was initialised to zero and gets no gradient."
    )

    threshold: float = parameter(100.0, "Percent of zeros that is too high.", at_least=0)
    _onsets: Onsets = field(default_factory=Onsets, init=False)

    def __post_init__(self) -> None:
        self.require_selection()

    def needs(self) -> tuple[Need, ...]:
        return self.selected("abs_max") if self.threshold >= 100 else self.selected()

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        names = evidence.names(self.selection)
        if self.threshold >= 100:
            cube = evidence.figures(names, "abs_max")
            for row, column in self._onsets.of(cube.names, cube.values == 0, cube.saved):
                yield self._finding(evidence, cube.steps[row], cube.names[column], 100.0)
            return
        for name in names:
            for stretch in evidence.stretches(name):
                rows = stretch.values.reshape(len(stretch.steps), -1)
                percent = 100 * (1 - np.count_nonzero(rows, axis=1) / max(1, rows.shape[1]))
                holds = (percent >= self.threshold)[:, None]
                for row, _ in self._onsets.of((name,), holds, np.ones_like(holds)):
                    yield self._finding(evidence, stretch.steps[row], name, float(percent[row]))

    def _finding(self, evidence: Evidence, step: int, name: str, percent: float) -> Finding:
        return self.found(
            evidence,
            step,
            f"{percent:.3g} % of the elements are zero, at least {self.threshold:g} %.",
            tensor=name,
            value=percent,
            threshold=self.threshold,
        )


@dataclass
class UnchangedTensor(SelectingRule):
    """A tensor does not change between steps.

    Fires when the last `num_steps` saved values of a tensor are all close to the newest one,
    element by element: |old - new| <= atol + rtol * |new|.
    """

    kind = Kind.SYMPTOM
    advice = (
        "Check that the parameter is in the optimizer, that its gradient is not cut (detach, "
        "no_grad, requires_grad=False), and that the learning rate is not zero here."
    )

    num_steps: int = parameter(3, "Saved steps that must agree, this one included.", at_least=2)
    rtol: float = parameter(1e-5, "Relative difference that still counts as equal.", at_least=0)
    atol: float = parameter(1e-8, "Absolute difference that still counts as equal.", at_least=0)
    equal_nan: bool = parameter(False, "Whether NaN is equal to NaN.")
    _onsets: Onsets = field(default_factory=Onsets, init=False)

    def __post_init__(self) -> None:
        self.require_selection()

    def needs(self) -> tuple[Need, ...]:
        return self.selected()

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        for name in evidence.names(self.selection):
            before = self.num_steps - 1
            for stretch in evidence.stretches(name, before=before, in_training=True):
                holds = self._unchanged(stretch)[stretch.num_old :, None]
                for row, _ in self._onsets.of((name,), holds, np.ones_like(holds)):
                    yield self.found(
                        evidence,
                        stretch.steps[stretch.num_old + row],
                        f"The last {self.num_steps} saved values are the same within "
                        f"{self.rtol:g} of their size.",
                        tensor=name,
                        value=0.0,
                        threshold=self.rtol,
                    )

    def _unchanged(self, stretch: Stretch) -> Array:
        rows = stretch.values.reshape(len(stretch.steps), -1)
        unchanged = np.zeros(len(rows), bool)
        unchanged[self.num_steps - 1 :] = True
        for back in range(1, self.num_steps):
            places = unchanged.nonzero()[0]  # fewer with each round: most tensors change
            if not len(places):
                break
            close = np.isclose(
                rows[places - back],
                rows[places],
                rtol=self.rtol,
                atol=self.atol,
                equal_nan=self.equal_nan,
            )
            unchanged[places] = close.all(axis=1)
        return unchanged


@dataclass
class TensorVariance(SelectingRule):
    """The variance of a tensor is outside its range.

    Fires when the variance of a selected tensor is above `max_threshold` or below `min_threshold`.
    At least one of the two must be given.
    """

    kind = Kind.SYMPTOM
    advice = (
        "A high variance points to weights that are too large or inputs that are not normalised; a "
        "low one to units that are all similar. Change the initialisation, or normalise."
    )

    max_threshold: float | None = parameter(None, "Variance that is too high; None: no limit.")
    min_threshold: float | None = parameter(None, "Variance that is too low; None: no limit.")
    _high: Onsets = field(default_factory=Onsets, init=False)
    _low: Onsets = field(default_factory=Onsets, init=False)

    def __post_init__(self) -> None:
        self.require_selection()
        if self.max_threshold is None and self.min_threshold is None:
            raise InvalidParameters(
                ["TensorVariance needs max_threshold or min_threshold: it has no range of its own."]
            )

    def needs(self) -> tuple[Need, ...]:
        return self.selected("variance")

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        cube = evidence.figures(evidence.names(self.selection), "variance")
        for threshold, onsets, side in (
            (self.max_threshold, self._high, "above"),
            (self.min_threshold, self._low, "below"),
        ):
            if threshold is None:
                continue
            holds = cube.values > threshold if side == "above" else cube.values < threshold
            for row, column in onsets.of(cube.names, holds, cube.saved):
                value = float(cube.values[row, column])
                yield self.found(
                    evidence,
                    cube.steps[row],
                    f"The variance is {value:.3g}, {side} {threshold:g}.",
                    tensor=cube.names[column],
                    value=value,
                    threshold=threshold,
                )


def _has_no_numbers(evidence: Evidence, name: str, step: int) -> bool:
    """Texts and empty tensors have no largest value, which is another thing than NaN."""
    value = evidence.values(name, step)
    return value is not None and (value.size == 0 or value.dtype.kind not in "biufc")
