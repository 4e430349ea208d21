"""`CreateXgboostReport`: what an XGBoost training did, as one HTML page. Never finds anything."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from trackside.capture.cube import Cube
from trackside.capture.dtypes import Array
from trackside.finding import Finding
from trackside.rules import charts
from trackside.rules.builtin import Need, TensorRule
from trackside.rules.class_pairs import as_classes
from trackside.rules.evidence import Evidence, Selection

FILE = "xgboost_report.html"
_METRIC = r"^[^/]+-[^/]+$"
"""`train-rmse`, `validation-auc`: data set, metric."""
_IMPORTANCES = r"feature_importance/"
_HYPERPARAMETERS = r"hyperparameters/"
_MOST_FEATURES = 15
_MOST_CLASSES = 50


@dataclass
class CreateXgboostReport(TensorRule):
    """Writes a report of an XGBoost training: metrics, feature importance, confusion, residuals.

    Never fires. The page shows the whole trial, and what the model predicts at its last saved step.
    """

    def needs(self) -> tuple[Need, ...]:
        return (
            *(
                Need(name, save_interval=5)
                for name in ("metrics", "feature_importance", "predictions", "labels")
            ),
            Need("hyperparameters", is_optional=True),
        )

    def missing(self, evidence: Evidence) -> str:
        selection = Selection(("metrics", "feature_importance"), (_METRIC, _IMPORTANCES))
        return evidence.missing(selection)

    def look(self, evidence: Evidence) -> Iterable[Finding]:
        return ()

    def files(self, evidence: Evidence) -> Mapping[str, bytes]:
        """What it leaves below `rule-output/<configuration>/` of the job, by name."""
        sections = [*_metrics(evidence), *_importances(evidence), *_verdicts(evidence)]
        sections += _hyperparameters(evidence)
        return {FILE: charts.page("XGBoost training report", sections).encode()}


def _metrics(evidence: Evidence) -> Iterator[str]:
    """A chart for each metric, a line for each data set."""
    names = evidence.names(Selection(("metrics",), (_METRIC,)))
    by_metric: dict[str, list[str]] = {}
    for name in names:
        by_metric.setdefault(name.partition("-")[2] or name, []).append(name)
    for metric, members in sorted(by_metric.items()):
        cube = evidence.trial.cube(members, "mean")
        lines = {name: _series(cube, column) for column, name in enumerate(members)}
        last = ", ".join(f"{escape(name)} {line[1][-1]:.5g}" for name, line in lines.items())
        yield f"<h2>{escape(metric)}</h2>{charts.lines(lines)}<p>At the end: {last}.</p>"


def _importances(evidence: Evidence) -> Iterator[str]:
    """For each kind (weight, gain ...), the most important features at the last step."""
    by_kind: dict[str, list[str]] = {}
    for name in evidence.names(Selection(patterns=(_IMPORTANCES,))):
        by_kind.setdefault(name.partition(_IMPORTANCES)[2].partition("/")[0], []).append(name)
    for kind, members in sorted(by_kind.items()):
        cube = evidence.trial.cube(members, "mean")
        latest = {
            name.rpartition("/")[2]: _series(cube, column)[1][-1]
            for column, name in enumerate(members)
        }
        largest = sorted(latest.items(), key=lambda each: -each[1])[:_MOST_FEATURES]
        yield f"<h2>Feature importance: {escape(kind)}</h2>{charts.bars(dict(largest))}"


def _verdicts(evidence: Evidence) -> Iterator[str]:
    """Confusion of classes, or residuals where the labels are no classes."""
    pair = _last_pair(evidence)
    if pair is None:
        return
    step, labels, predictions = pair
    classes = as_classes(labels, predictions, argmax=True)
    num_classes = 0 if classes is None else 1 + max(int(each.max(initial=0)) for each in classes)
    if classes is not None and num_classes <= _MOST_CLASSES:
        yield f"<h2>Confusion at step {step}</h2>{_confusion(*classes, num_classes)}"
    elif labels.size == predictions.size:
        residuals = (labels.ravel() - predictions.ravel()).astype(np.float64)
        rmse = float(np.sqrt(np.mean(residuals**2)))
        counts, edges = np.histogram(residuals, bins=20)
        bins = {f"{low:.3g}": float(n) for low, n in zip(edges, counts, strict=False)}
        yield (
            f"<h2>Residuals at step {step}</h2><p>Root of the mean square {rmse:.5g}, mean "
            f"absolute {float(np.abs(residuals).mean()):.5g}.</p>{charts.bars(bins)}"
        )


def _last_pair(evidence: Evidence) -> tuple[int, Array, Array] | None:
    names = [evidence.names(Selection((each,), (each,))) for each in ("labels", "predictions")]
    if not all(names):
        return None
    for step in reversed(evidence.trial.tensor(names[0][0]).steps()):
        labels, predictions = (evidence.values(each[0], step) for each in names)
        if labels is not None and predictions is not None:
            return step, labels, predictions
    return None


def _confusion(labels: Array, predictions: Array, size: int) -> str:
    matrix = np.bincount(labels * size + predictions, minlength=size * size).reshape(size, size)
    accuracy = 100 * matrix.trace() / max(1, matrix.sum())
    right = matrix.diagonal()
    recall = 100 * right / np.maximum(matrix.sum(axis=1), 1)
    precision = 100 * right / np.maximum(matrix.sum(axis=0), 1)
    head = ["label", *(f"predicted {each}" for each in range(size)), "recall %", "precision %"]
    rows = [
        [str(each), *map(str, matrix[each]), f"{recall[each]:.1f}", f"{precision[each]:.1f}"]
        for each in range(size)
    ]
    return f"<p>{accuracy:.1f} % are right.</p>{charts.table(head, rows)}"


def _hyperparameters(evidence: Evidence) -> Iterator[str]:
    names = evidence.names(Selection(patterns=(_HYPERPARAMETERS,)))
    rows = []
    for name in names:
        steps = evidence.trial.tensor(name).steps()
        value = evidence.values(name, steps[-1]) if steps else None
        if value is not None:
            shown = ", ".join(map(str, np.ravel(value).tolist()))
            rows.append([name.rpartition("/")[2], shown])
    if rows:
        yield f"<h2>Hyperparameters</h2>{charts.table(['name', 'value'], rows)}"


def _series(cube: Cube, column: int) -> tuple[Sequence[int], Sequence[float]]:
    kept = cube.saved[:, column]
    steps = np.array(cube.steps)[kept].tolist()
    return steps, cube.values[kept, column].tolist()
