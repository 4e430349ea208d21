"""Rules about classifications: the classes in the data, and how they are confused."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import field

import numpy as np

from trackside.capture.dtypes import Array
from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.builtin import Need, TensorRule
from trackside.rules.onsets import Onsets
from trackside.rules.parameters import Pattern, parameter
from trackside.rules.saved.evidence import TRAINING, Evidence, Selection
from trackside.rules.tensor.class_pairs import (
    GIVEN_TO_LOSS,
    ClassPairs,
    LabelledTensors,
    find_pairs,
)

_MOST_CATEGORIES = 1000
"""A larger matrix is not checked: it would be mostly empty, and large."""


@dataclass(slots=True)
class _Tally:
    """Of one mode: labels from the start, and mispredictions since the last verdict."""

    num_labels: dict[int, int] = field(default_factory=dict)
    window: dict[int, list[int]] = field(default_factory=dict)
    """Class to its number of samples and of wrong predictions."""
    num_in_window: int = 0

    def add(self, pairs: ClassPairs) -> None:
        classes, places = np.unique(pairs.labels, return_inverse=True)
        totals = np.bincount(places, minlength=len(classes))
        wrong = np.bincount(places, pairs.labels != pairs.predictions, minlength=len(classes))
        for each, total, missed in zip(classes.tolist(), totals.tolist(), wrong, strict=True):
            self.num_labels[each] = self.num_labels.get(each, 0) + total
            counts = self.window.setdefault(each, [0, 0])
            counts[0] += total
            counts[1] += int(missed)
        self.num_in_window += len(pairs.labels)

    def imbalance(self) -> tuple[float, int, int]:
        """Ratio of the largest class to the smallest, and which those are."""
        largest = max(self.num_labels, key=lambda each: self.num_labels[each])
        smallest = min(self.num_labels, key=lambda each: self.num_labels[each])
        return self.num_labels[largest] / self.num_labels[smallest], largest, smallest

    def worst(self) -> tuple[float, int]:
        """The largest share of wrong predictions of any class, and the class."""
        shares = {each: wrong / total for each, (total, wrong) in self.window.items()}
        worst = max(shares, key=lambda each: shares[each])
        return shares[worst], worst

    def next_window(self) -> None:
        self.window, self.num_in_window = {}, 0


@dataclass
class ClassImbalance(TensorRule):
    """Some classes have far more samples than others, or are mostly predicted wrongly.

    Checked every `samples` labels. Fires when the largest class has more than `threshold_imbalance`
    times as many labels as the smallest, among all labels so far; or when for some class more than
    a share of `threshold_misprediction` of these labels was predicted wrongly.
    """

    rests_on = ("labels/largest_share", "predictions/largest_share")
    advice = (
        "Sample the rare classes more often or weight them in the loss, and judge the model by "
        "metrics per class instead of accuracy."
    )

    threshold_imbalance: float = parameter(10.0, "Ratio of class sizes that is too large.")
    threshold_misprediction: float = parameter(0.7, "Share of a class that may be wrong.")
    samples: int = parameter(500, "Labels per check.", at_least=1)
    argmax: bool = parameter(
        False, "Predictions are scores; the class is the index of the largest."
    )
    labels_regex: Pattern = parameter(".*labels", "Names of the labels.")
    predictions_regex: Pattern = parameter(".*predictions", "Names of the predictions.")
    _onsets: Onsets = field(default_factory=Onsets, init=False)
    _tallies: dict[str, _Tally] = field(default_factory=dict, init=False)

    def needs(self) -> tuple[Need, ...]:
        return (
            Need("labels", self.labels_regex),
            Need("predictions", self.predictions_regex),
            GIVEN_TO_LOSS,
        )

    def missing(self, evidence: Evidence) -> str:
        return "" if self._tensors(evidence).labels else super().missing(evidence)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        tensors = self._tensors(evidence)
        for pairs in tensors.read(evidence, argmax=self.argmax):
            mode = evidence.mode(pairs.step).name
            tally = self._tallies.setdefault(mode, _Tally())
            tally.add(pairs)
            if tally.num_in_window >= self.samples:
                yield from self._judge(evidence, pairs, mode, tally, tensors.note)
                tally.next_window()

    def _tensors(self, evidence: Evidence) -> LabelledTensors:
        return find_pairs(
            evidence,
            Selection(patterns=(self.labels_regex,)),
            Selection(patterns=(self.predictions_regex,)),
        )

    def _judge(
        self, evidence: Evidence, pairs: ClassPairs, mode: str, tally: _Tally, note: str
    ) -> Iterator[Finding]:
        ratio, largest, smallest = tally.imbalance()
        if self._onsets.begins(f"imbalance {mode}", ratio > self.threshold_imbalance):
            yield self.found(
                evidence,
                pairs.step,
                f"Class {largest} has {ratio:.3g} times as many labels as class {smallest}, more "
                f"than {self.threshold_imbalance:g} times.{note}",
                tensor=pairs.labels_tensor,
                value=ratio,
                threshold=self.threshold_imbalance,
            )
        share, worst = tally.worst()
        if self._onsets.begins(f"misprediction {mode}", share > self.threshold_misprediction):
            yield self.found(
                evidence,
                pairs.step,
                f"A share of {share:.3g} of class {worst} is predicted wrongly, more than "
                f"{self.threshold_misprediction:g}.{note}",
                tensor=pairs.predictions_tensor,
                value=share,
                threshold=self.threshold_misprediction,
            )


@dataclass
class Confusion(TensorRule):
    """The model confuses some class with another too often.

    Fires when less than `min_diag` of the samples of a class are predicted as this class, or when
    more than `max_off_diag` of the samples predicted as a class belong to one other class. In
    training the confusion matrix is computed from one saved step, in evaluation from all saved
    steps of the evaluation.
    """

    advice = (
        "Inspect samples of the two classes: wrong labels, too few of them, or features that do "
        "not distinguish them. Ignore the rule until the model has learnt something."
    )

    category_no: int | None = parameter(
        None, "Number of classes; None: as found in the data.", at_least=1
    )
    labels: str | None = parameter(None, "Name of the tensor of labels.")
    predictions: str | None = parameter(None, "Name of the tensor of predictions.")
    labels_collection: str = parameter("labels", "Collection of the labels.")
    predictions_collection: str = parameter("predictions", "Collection of the predictions.")
    min_diag: float = parameter(0.9, "Share of a class that must be right.", at_least=0, at_most=1)
    max_off_diag: float = parameter(
        0.1,
        "Share of the predictions of a class that may belong to one other.",
        at_least=0,
        at_most=1,
    )
    _onsets: Onsets = field(default_factory=Onsets, init=False)
    _matrix: Array | None = field(default=None, init=False)
    _last: ClassPairs | None = field(default=None, init=False)

    def needs(self) -> tuple[Need, ...]:
        return (
            Need(self.labels_collection, _exactly(self.labels) or ".*labels"),
            Need(self.predictions_collection, _exactly(self.predictions) or ".*predictions"),
            GIVEN_TO_LOSS,
        )

    def missing(self, evidence: Evidence) -> str:
        return "" if self._tensors(evidence).labels else super().missing(evidence)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        tensors = self._tensors(evidence)
        for pairs in tensors.read(evidence, argmax=True):
            mode = evidence.mode(pairs.step)
            if self._last is not None and mode is not evidence.mode(self._last.step):
                yield from self._judge(evidence, tensors.note)
            self._add(pairs)
            if mode in TRAINING:
                yield from self._judge(evidence, tensors.note)
        if evidence.is_all:
            yield from self._judge(evidence, tensors.note)

    def _tensors(self, evidence: Evidence) -> LabelledTensors:
        return find_pairs(
            evidence,
            _selected(self.labels, self.labels_collection, ".*labels"),
            _selected(self.predictions, self.predictions_collection, ".*predictions"),
        )

    def _add(self, pairs: ClassPairs) -> None:
        self._last = pairs
        size = int(max(pairs.labels.max(initial=0), pairs.predictions.max(initial=0))) + 1
        size = max(self.category_no or size, 0 if self._matrix is None else len(self._matrix))
        if size > _MOST_CATEGORIES:
            return
        inside = (pairs.labels < size) & (pairs.predictions < size)
        cells = pairs.labels[inside] * size + pairs.predictions[inside]
        matrix = np.bincount(cells, minlength=size * size).reshape(size, size)
        if self._matrix is not None:
            known = len(self._matrix)
            matrix[:known, :known] += self._matrix
        self._matrix = matrix

    def _judge(self, evidence: Evidence, note: str) -> Iterator[Finding]:
        matrix, pairs = self._matrix, self._last
        self._matrix = self._last = None
        if matrix is None or pairs is None:
            return
        mode = evidence.mode(pairs.step).name
        share, label = _least_right(matrix)
        if self._onsets.begins(f"right {mode}", share < self.min_diag):
            yield self.found(
                evidence,
                pairs.step,
                f"A share of {share:.3g} of class {label} is predicted as it, less than "
                f"{self.min_diag:g}.{note}",
                tensor=pairs.labels_tensor,
                value=share,
                threshold=self.min_diag,
            )
        share, label, predicted = _most_confused(matrix)
        if self._onsets.begins(f"wrong {mode}", share > self.max_off_diag):
            yield self.found(
                evidence,
                pairs.step,
                f"Of what is predicted as class {predicted}, a share of {share:.3g} is class "
                f"{label}, more than {self.max_off_diag:g}.{note}",
                tensor=pairs.predictions_tensor,
                value=share,
                threshold=self.max_off_diag,
            )


def _least_right(matrix: Array) -> tuple[float, int]:
    """By row; classes without a sample have no share."""
    totals = matrix.sum(axis=1)
    shares = np.where(totals > 0, matrix.diagonal() / np.maximum(totals, 1), 1.0)
    label = int(shares.argmin())
    return float(shares[label]), label


def _most_confused(matrix: Array) -> tuple[float, int, int]:
    """By column: share, true class, predicted class."""
    shares = matrix / np.maximum(matrix.sum(axis=0), 1)
    np.fill_diagonal(shares, 0)
    label, predicted = np.unravel_index(int(shares.argmax()), shares.shape)
    return float(shares[label, predicted]), int(label), int(predicted)


def _selected(name: str | None, collection: str, pattern: str) -> Selection:
    exactly = _exactly(name)
    return Selection(patterns=(exactly,)) if exactly else Selection((collection,), (pattern,))


def _exactly(name: str | None) -> str:
    return f"^{re.escape(name)}$" if name else ""
