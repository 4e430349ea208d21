"""Rules about gradients and weights: how these start, and how fast they move."""

from collections.abc import Iterable, Iterator
from dataclasses import field

import numpy as np

from trackside.capture.dtypes import Array
from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.builtin import Need, TensorRule
from trackside.rules.onsets import Onsets
from trackside.rules.parameters import Pattern, parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.evidence import TRAINING, Evidence, Selection
from trackside.rules.saved.tensor_values import Stretch
from trackside.rules.saved.typed_tensors import meant_by


@dataclass
class VanishingGradient(TensorRule):
    """A layer's gradient is so small that the layer no longer learns.

    Fires when the mean absolute value of a tensor in `gradients` is below `threshold`.
    """

    kind = Kind.SYMPTOM
    rests_on = ("gradient_norm", "gradients:abs_mean")
    advice = (
        "Shorten the path to this layer (residual connections, normalisation), replace sigmoid or "
        "tanh by ReLU-like activations, or initialise the weights for the activation in use."
    )

    threshold: float = parameter(1e-7, "Mean absolute gradient that is too small.", at_least=0)
    _onsets: Onsets = field(default_factory=Onsets, init=False)

    def needs(self) -> tuple[Need, ...]:
        return (Need("gradients", reductions=("abs_mean",)),)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        names = evidence.names(self.needs()[0].selection)
        cube = evidence.figures(names, "abs_mean")
        small = cube.values < self.threshold
        for row, column in self._onsets.of(cube.names, small, cube.saved):
            value = float(cube.values[row, column])
            yield self.found(
                evidence,
                cube.steps[row],
                f"The mean absolute gradient is {value:.3g}, below {self.threshold:g}.",
                tensor=cube.names[column],
                value=value,
                threshold=self.threshold,
            )


@dataclass
class WeightUpdateRatio(TensorRule):
    """Weights change far too much or too little between saved steps.

    Fires when for a tensor in `weights`, mean |new - old| / (mean |old| + epsilon) is above
    `large_threshold` or below `small_threshold`. The old value is that of the previous saved step
    or, with `num_steps`, of the first saved step that is at most that many steps back.
    """

    kind = Kind.SYMPTOM
    rests_on = ("update_ratio", "weights:abs_mean")
    advice = (
        "Too large: lower the learning rate, clip gradients, or warm up. Too small: raise the "
        "learning rate, or check that this weight is in the optimizer and gets a gradient."
    )

    num_steps: int | None = parameter(
        None, "How many steps back to compare; None: with the previous saved step.", at_least=1
    )
    large_threshold: float = parameter(10.0, "Ratio that is too large.", at_least=0)
    small_threshold: float = parameter(1e-8, "Ratio that is too small.", at_least=0)
    epsilon: float = parameter(1e-9, "Keeps the ratio finite where weights are zero.", at_least=0)
    _large: Onsets = field(default_factory=Onsets, init=False)
    _small: Onsets = field(default_factory=Onsets, init=False)

    def needs(self) -> tuple[Need, ...]:
        return (Need("weights"),)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        for name in _trained(evidence, evidence.names(Selection(("weights",)))):
            for stretch in evidence.stretches(name, before=self.num_steps or 1, in_training=True):
                steps = stretch.steps[stretch.num_old :]
                ratios = self._ratios(stretch)[:, None]
                saved = ~np.isnan(ratios)
                for row, _ in self._large.of((name,), ratios > self.large_threshold, saved):
                    value = float(ratios[row, 0])
                    yield self._finding(evidence, steps[row], name, value, "above")
                for row, _ in self._small.of((name,), ratios < self.small_threshold, saved):
                    value = float(ratios[row, 0])
                    yield self._finding(evidence, steps[row], name, value, "below")

    def _ratios(self, stretch: Stretch) -> Array:
        """Of the new steps; NaN where there is nothing to compare with."""
        rows = stretch.values.reshape(len(stretch.steps), -1)
        if rows.dtype.kind in "biu":  # differences of such may not fit into their type
            rows = rows.astype(np.float64)
        ratios = np.full(len(rows), np.nan)
        new, old = _pairs(stretch.steps, self.num_steps)
        if len(new):
            with np.errstate(all="ignore"):  # weights that are NaN are another rule's subject
                moved = np.abs(rows[new] - rows[old]).mean(axis=1, dtype=np.float64)
                size = np.abs(rows[old]).mean(axis=1, dtype=np.float64)
                ratios[new] = moved / (size + self.epsilon)
        return ratios[stretch.num_old :]

    def _finding(
        self, evidence: Evidence, step: int, name: str, value: float, side: str
    ) -> Finding:
        threshold = self.large_threshold if side == "above" else self.small_threshold
        return self.found(
            evidence,
            step,
            f"The update is {value:.3g} times the size of the weights, {side} {threshold:g}.",
            tensor=name,
            value=value,
            threshold=threshold,
        )


@dataclass
class PoorWeightInitialization(TensorRule):
    """The first steps show that the weights were initialised badly.

    Fires within the first `steps` saved training steps when one of three conditions holds: the
    largest variance of the activation functions' inputs is more than `threshold` times the
    smallest; nine in ten values of some gradient (5th to 95th percentile) are within less than
    `distribution_range`; a loss has no new minimum for `patience` saved steps.
    """

    kind = Kind.SYMPTOM
    rests_on = ("gradient_norm", "gradients:abs_mean")
    advice = (
        "Initialise for the activation in use (He for ReLU, Xavier for tanh), add normalisation "
        "layers, and check that no layer starts with weights that are zero or all equal."
    )

    activation_inputs_regex: Pattern = parameter(
        ".*relu_input", "Names of the activation functions' inputs."
    )
    threshold: float = parameter(
        10.0, "Ratio of the layers' variances that is too large.", at_least=1
    )
    distribution_range: float = parameter(
        0.001, "Spread of a gradient's values that is too small.", at_least=0
    )
    patience: int = parameter(5, "Saved steps without a lower loss that are accepted.", at_least=1)
    steps: int = parameter(10, "Saved training steps that are checked.", at_least=1)
    _onsets: Onsets = field(default_factory=Onsets, init=False)
    _seen: set[int] = field(default_factory=set, init=False)
    _best: dict[str, tuple[float, int]] = field(default_factory=dict, init=False)

    def needs(self) -> tuple[Need, ...]:
        return (
            Need("relu_input", self.activation_inputs_regex, ("variance",)),
            Need("gradients", is_optional=True),
            Need("losses", is_optional=True),
        )

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        if len(self._seen) >= self.steps:
            return
        early = self._early(evidence)
        yield from self._variances(evidence, early)
        yield from self._spreads(evidence, early)
        yield from self._losses(evidence, early)

    def _early(self, evidence: Evidence) -> set[int]:
        """Of the new steps, those that belong to the first ones at which its tensors were saved:
        a script may save other things more often."""
        activations = meant_by(evidence, self.activation_inputs_regex, "relu_input").names
        names = (*activations, *evidence.names(Selection(("gradients", "losses"))))
        saved = [step for step in evidence.steps if evidence.mode(step) in TRAINING]
        for step in saved:
            if len(self._seen) >= self.steps:
                break
            if evidence.has_any(names, step):
                self._seen.add(step)
        return self._seen.intersection(saved)

    def _variances(self, evidence: Evidence, early: set[int]) -> Iterator[Finding]:
        meant = meant_by(evidence, self.activation_inputs_regex, "relu_input")
        cube = evidence.figures(meant.names, "variance")
        for step, values in zip(cube.steps, cube.values, strict=True):
            known = np.isfinite(values)
            if step not in early or known.sum() < 2:
                continue
            low, high = np.min(values[known]), np.max(values[known])
            ratio = float(high / low) if low > 0 else float("inf") if high > 0 else 1.0
            if self._onsets.begins("variance", ratio > self.threshold):
                tensor = cube.names[int(np.nanargmax(np.where(known, values, np.nan)))]
                yield self.found(
                    evidence,
                    step,
                    f"The variances of the layers' activation inputs differ {ratio:.3g} times, "
                    f"by more than {self.threshold:g}.{meant.note}",
                    tensor=tensor,
                    value=ratio,
                    threshold=self.threshold,
                )

    def _spreads(self, evidence: Evidence, early: set[int]) -> Iterator[Finding]:
        for name in evidence.names(Selection(("gradients",))):
            for stretch in evidence.stretches(name):
                rows = stretch.values.reshape(len(stretch.steps), -1)
                if rows.shape[1] < 2:
                    continue
                low, high = np.percentile(rows, (5, 95), axis=1)
                for step, spread in zip(stretch.steps, (high - low).tolist(), strict=True):
                    holds = spread < self.distribution_range
                    if step in early and self._onsets.begins(name, holds):
                        yield self.found(
                            evidence,
                            step,
                            f"Nine in ten values of the gradient lie within {spread:.3g}, "
                            f"less than {self.distribution_range:g}.",
                            tensor=name,
                            value=spread,
                            threshold=self.distribution_range,
                        )

    def _losses(self, evidence: Evidence, early: set[int]) -> Iterator[Finding]:
        names = evidence.scalars(evidence.names(Selection(("losses",))))
        cube = evidence.figures(names, "mean")
        for row, column in np.argwhere(cube.saved).tolist():
            step, name, loss = cube.steps[row], cube.names[column], float(cube.values[row, column])
            if step not in early:
                continue
            best, since = self._best.get(name, (float("inf"), 0))
            self._best[name] = (loss, 0) if loss < best else (best, since + 1)
            since = self._best[name][1]
            if self._onsets.begins(f"loss {name}", since >= self.patience):
                yield self.found(
                    evidence,
                    step,
                    f"The loss has no new minimum for {since} saved steps at the start, the "
                    f"limit is {self.patience}.",
                    tensor=name,
                    value=float(since),
                    threshold=self.patience,
                )


def _trained(evidence: Evidence, names: Iterable[str]) -> Iterator[str]:
    """Without frozen ones: the hook says so, or gradients are saved and they have none."""
    gradients = set(evidence.names(Selection(("gradients",))))
    frozen = evidence.frozen()
    for name in names:
        if name not in frozen and (not gradients or f"gradient/{name}" in gradients):
            yield name


def _pairs(steps: tuple[int, ...], num_steps: int | None) -> tuple[Array, Array]:
    """Places of new values and of those to compare with."""
    places = np.arange(len(steps))
    old = places - 1
    if num_steps is not None:
        numbers = np.array(steps)
        old = np.searchsorted(numbers, numbers - num_steps)
    has_old = (old >= 0) & (old < places)
    return places[has_old], old[has_old]
