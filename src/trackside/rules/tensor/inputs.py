"""Rules about what the model is fed with."""

from collections.abc import Iterable
from dataclasses import field

import numpy as np

from trackside.capture.dtypes import Array
from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.builtin import Need, TensorRule
from trackside.rules.onsets import Onsets
from trackside.rules.parameters import InvalidParameters, Pattern, parameter
from trackside.rules.saved.evidence import Evidence
from trackside.rules.saved.typed_tensors import meant_by


@dataclass(slots=True)
class _ChannelMeans:
    """Sums by channel, over images since the last verdict."""

    totals: Array | None = None
    num_values: int = 0
    num_images: int = 0

    def add(self, images: Array, channel: int) -> None:
        is_plain = images.ndim < 4 or images.ndim <= channel  # no channels: everything is one
        axes = tuple(a for a in range(images.ndim) if is_plain or a != channel)
        totals = np.atleast_1d(images.sum(axis=axes, dtype=np.float64))
        if self.totals is None or self.totals.shape != totals.shape:
            self.totals, self.num_values, self.num_images = np.zeros_like(totals), 0, 0
        self.totals = self.totals + totals
        self.num_values += images.size // len(totals)
        self.num_images += len(images)

    def take(self) -> Array:
        """The mean of each channel; counting starts again."""
        assert self.totals is not None
        means: Array = self.totals / max(1, self.num_values)
        self.totals = None
        return means


@dataclass
class CheckInputImages(TensorRule):
    """Input images are not normalised.

    Checked every `threshold_samples` images. Fires when the mean of some channel is further from
    zero than `threshold_mean`.
    """

    advice = (
        "Subtract the training set's mean of each channel and divide by its standard deviation "
        "before the model (torchvision: transforms.Normalize), in training and in evaluation alike."
    )

    threshold_mean: float = parameter(
        0.2, "Distance of a mean from zero that is accepted.", at_least=0
    )
    threshold_samples: int = parameter(500, "Images per check.", at_least=1)
    regex: Pattern = parameter(".*hybridsequential0_input_0", "Names of the tensors with images.")
    channel: int = parameter(1, "Axis of the colour channels.", at_least=0)
    _onsets: Onsets = field(default_factory=Onsets, init=False)
    _means: dict[str, _ChannelMeans] = field(default_factory=dict, init=False)

    def needs(self) -> tuple[Need, ...]:
        return (Need("input_image", self.regex),)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        meant = meant_by(evidence, self.regex, "input_image")
        for name in meant.names:
            for stretch in evidence.stretches(name):
                # By type the input of any model is found, and one of two axes is no image.
                if stretch.values.ndim < (4 if meant.note else 2) or not stretch.values.size:
                    continue
                for step, images in zip(stretch.steps, stretch.values, strict=True):
                    key = f"{evidence.mode(step).name} {name}"
                    means = self._means.setdefault(key, _ChannelMeans())
                    means.add(images, self.channel)
                    if means.num_images < self.threshold_samples:
                        continue
                    num_images, found = means.num_images, means.take()
                    worst = int(np.argmax(np.abs(found)))
                    value = float(found[worst])
                    if self._onsets.begins(key, abs(value) > self.threshold_mean):
                        yield self.found(
                            evidence,
                            step,
                            f"The mean of channel {worst} over {num_images} images is "
                            f"{value:.3g}, further from zero than {self.threshold_mean:g}."
                            f"{meant.note}",
                            tensor=name,
                            value=value,
                            threshold=self.threshold_mean,
                        )


@dataclass
class NLPSequenceRatio(TensorRule):
    """Sequences consist mostly of one token, such as padding.

    Fires when one of `token_values` makes up more than its `token_thresholds_percent` of all tokens
    of a saved step.
    """

    advice = (
        "Batch sequences of similar length, pad only to the longest of the batch, or truncate the "
        "few very long ones: time is spent on tokens without information."
    )

    tensor_regex: Pattern = parameter(".*embedding0_input_0", "Names of the tensors with tokens.")
    token_values: tuple[float, ...] = parameter((0.0,), "Tokens to count; 0 is often padding.")
    token_thresholds_percent: tuple[float, ...] = parameter(
        (50.0,), "Percent that each token may make up.", at_least=0, at_most=100
    )
    _onsets: Onsets = field(default_factory=Onsets, init=False)

    def __post_init__(self) -> None:
        if len(self.token_values) != len(self.token_thresholds_percent):
            raise InvalidParameters(
                [
                    f"token_values has {len(self.token_values)} tokens and "
                    f"token_thresholds_percent {len(self.token_thresholds_percent)} thresholds. "
                    "Give one for each."
                ]
            )

    def needs(self) -> tuple[Need, ...]:
        return (Need("input_sequence", self.tensor_regex),)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        meant = meant_by(evidence, self.tensor_regex, "input_sequence")
        limits = list(zip(self.token_values, self.token_thresholds_percent, strict=True))
        for name in meant.names:
            for stretch in evidence.stretches(name):
                rows = stretch.values.reshape(len(stretch.steps), -1)
                for token, limit in limits:
                    percent = 100 * (rows == token).sum(axis=1) / max(1, rows.shape[1])
                    holds = (percent > limit)[:, None]
                    key = (f"{token:g} {name}",)
                    for row, _ in self._onsets.of(key, holds, np.ones_like(holds)):
                        yield self.found(
                            evidence,
                            stretch.steps[row],
                            f"Token {token:g} makes up {percent[row]:.3g} % of the sequences, "
                            f"more than {limit:g} %.{meant.note}",
                            tensor=name,
                            subject=f"token {token:g}",
                            value=float(percent[row]),
                            threshold=limit,
                        )
