"""Labels and predictions of a classification, brought to the same form: what rules compare."""

from collections.abc import Iterator, Sequence

import numpy as np

from trackside.capture.dtypes import Array
from trackside.quick_dataclass import dataclass
from trackside.rules.builtin import Need
from trackside.rules.saved.evidence import Evidence, Selection

GIVEN_TO_LOSS = Need("loss_inputs", r"(CrossEntropy|NLL)\w*_input_[01]$", is_optional=True)
_LOSS_LABELS = r"(CrossEntropy|NLL)\w*_input_1$"
"""What torch's classification losses get as their target; `_input_0` is the prediction."""


@dataclass(frozen=True, slots=True)
class ClassPairs:
    """One step's labels and predictions, as class numbers."""

    step: int
    labels_tensor: str
    predictions_tensor: str
    labels: Array
    predictions: Array


@dataclass(frozen=True, slots=True)
class LabelledTensors:
    """Names of labels and of the predictions that belong to them."""

    labels: tuple[str, ...]
    predictions: tuple[str, ...]
    note: str = ""

    def read(self, evidence: Evidence, *, argmax: bool = False) -> Iterator[ClassPairs]:
        """The new steps at which both were saved."""
        for step in evidence.steps if self.labels and self.predictions else ():
            for label, prediction in zip(self.labels, self.predictions, strict=False):
                true, predicted = evidence.values(label, step), evidence.values(prediction, step)
                if true is None or predicted is None:
                    continue
                classes = as_classes(true, predicted, argmax=argmax)
                if classes is not None:
                    yield ClassPairs(step, label, prediction, *classes)


def find_pairs(evidence: Evidence, labels: Selection, predictions: Selection) -> LabelledTensors:
    """By name; where the trial has no such names, what classification losses were given."""
    named = evidence.names(labels), evidence.names(predictions)
    if all(named):
        return LabelledTensors(*named)
    targets = evidence.names(Selection(patterns=(_LOSS_LABELS,)))
    saved = set(evidence.names(Selection()))
    outputs = [f"{name[:-1]}0" for name in targets]
    pairs = [(t, o) for t, o in zip(targets, outputs, strict=True) if o in saved]
    note = f" (Labels and predictions are what the loss was given: no saved name is of {labels}.)"
    return LabelledTensors(tuple(t for t, _ in pairs), tuple(o for _, o in pairs), note)


def as_classes(labels: Array, predictions: Array, *, argmax: bool) -> tuple[Array, Array] | None:
    """Flat arrays of class numbers; None for what is no classification.

    Scores are recognized by their extra axis, whether or not `argmax` is set. Probabilities of a
    single class are rounded. Labels below zero are ignored, as losses do.
    """
    if not all(each.dtype.kind in "biuf" for each in (labels, predictions)):
        return None
    if labels.ndim > 1 and labels.shape[-1] == 1:
        labels = labels[..., 0]
    if predictions.ndim > 1 and predictions.shape[-1] == 1:
        predictions = predictions[..., 0]
    axis = _class_axis(labels.shape, predictions.shape)
    if axis is not None:
        predictions = predictions.argmax(axis)
    elif argmax and predictions.ndim > 1:
        is_one_hot = labels.shape == predictions.shape
        predictions = predictions.argmax(-1)
        labels = labels.argmax(-1) if is_one_hot else labels
    labels, predictions = labels.ravel(), predictions.ravel()
    if labels.size != predictions.size or not _are_whole(labels):
        return None
    known = (labels >= 0) & np.isfinite(predictions)
    whole = np.rint(predictions[known]).astype(np.int64)
    return labels[known].astype(np.int64), np.maximum(whole, 0)


def _class_axis(labels: Sequence[int], predictions: Sequence[int]) -> int | None:
    """The last one, or the second as in maps of scores [samples, classes, height, width]."""
    if len(predictions) == len(labels) + 1:
        for axis in (len(predictions) - 1, 1):
            if [*predictions[:axis], *predictions[axis + 1 :]] == [*labels]:
                return axis
    return None


def _are_whole(labels: Array) -> bool:
    return bool(np.isfinite(labels).all() and (labels == np.rint(labels)).all())
