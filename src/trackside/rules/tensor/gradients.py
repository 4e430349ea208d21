"""Rules about gradients."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from trackside.records.finding import Finding
from trackside.rules.builtin import Need, TensorRule
from trackside.rules.onsets import Onsets
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.evidence import Evidence


@dataclass
class VanishingGradient(TensorRule):
    """A layer's gradient has become so small that the layer no longer learns.

    Fires when the mean of the absolute values of a tensor of `gradients` is below the threshold.
    """

    kind = Kind.SYMPTOM
    advice = (
        "Shorten the path to this layer (residual connections, normalisation), replace sigmoid or "
        "tanh by ReLU-like activations, or initialise the weights for the activation in use."
    )

    threshold: float = parameter(1e-7, "Mean absolute gradient that is too small.", at_least=0)
    _onsets: Onsets = field(default_factory=Onsets, init=False)

    def needs(self) -> tuple[Need, ...]:
        return (Need("gradients", reductions=("abs_mean",)),)

    def look(self, evidence: Evidence) -> Iterable[Finding]:
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
