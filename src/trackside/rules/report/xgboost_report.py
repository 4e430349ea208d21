"""`CreateXgboostReport`: an XGBoost training as one HTML page. It has no findings."""

import time
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from trackside.capture.dtypes import Array
from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.builtin import Need, TensorRule
from trackside.rules.report.charts import Line, histogram, line_chart
from trackside.rules.report.facts import Fact, Head
from trackside.rules.report.markup import Html, element
from trackside.rules.report.page import sections_page, stamp
from trackside.rules.report.sections import gaps_section, section, table
from trackside.rules.saved.evidence import Evidence, Selection
from trackside.rules.tensor.class_pairs import as_classes

FILE = "xgboost_report.html"
METRIC = r"^[^/]+-[^/]+$"
"""`train-rmse`, `validation-auc`: data set, metric."""
IMPORTANCES = r"feature_importance/"
_HYPERPARAMETERS = r"hyperparameters/"
_MOST_FEATURES = 15
_MOST_CLASSES = 50


@dataclass
class CreateXgboostReport(TensorRule):
    """Writes a report of an XGBoost training: metrics, feature importance, confusion, residuals.

    Never fires. The page shows the whole trial, and the model's predictions at its last saved step.
    """

    is_of_worker = False

    def needs(self) -> tuple[Need, ...]:
        return (
            *(
                Need(name, save_interval=5)
                for name in ("metrics", "feature_importance", "predictions", "labels")
            ),
            Need("hyperparameters", is_optional=True),
        )

    def missing(self, evidence: Evidence) -> str:
        selection = Selection(("metrics", "feature_importance"), (METRIC, IMPORTANCES))
        return evidence.missing(selection)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        return ()

    def files(self, evidence: Evidence) -> Mapping[str, bytes]:
        return {FILE: xgboost_page(evidence)}


def xgboost_page(evidence: Evidence) -> bytes:
    """The whole trial, and the model's predictions at its last saved step."""
    head = Head(
        "XGBoost training report",
        "Completed" if evidence.is_all else "InProgress",
        [Fact("saved steps", f"{len(evidence.trial.steps()):,}")],
        hyperparameters=dict(_hyperparameters(evidence)),
        is_running=not evidence.is_all,
    )
    found = {
        "metrics": ("Metrics", _metrics(evidence)),
        "importance": ("Feature importance", _importances(evidence)),
        "predictions": ("Predictions", _predictions(evidence)),
    }
    gaps = [f"{title}: nothing of it was saved." for title, made in found.values() if made is None]
    found["gaps"] = ("Not captured", gaps_section(gaps))
    return sections_page(head, stamp(time.time()), found)


def _metrics(evidence: Evidence) -> Html | None:
    """A chart for each metric, a line for each data set."""
    by_metric: dict[str, list[str]] = {}
    for name in evidence.names(Selection(("metrics",), (METRIC,))):
        by_metric.setdefault(name.partition("-")[2] or name, []).append(name)
    charts, last = [], []
    for metric, members in sorted(by_metric.items()):
        cube = evidence.trial.cube(members, "mean")
        lines = [Line.of(cube, column) for column in range(len(members))]
        charts.append(line_chart(metric, lines))
        last += [f"{line.name} {line.y[-1]:.5g}" for line in lines]
    if not charts:
        return None
    about = f"At the end: {', '.join(last)}."
    return section("metrics", "Metrics", about, element("div", *charts, class_="grid"))


def _importances(evidence: Evidence) -> Html | None:
    """For each kind (weight, gain ...), the most important features at the last step."""
    by_kind: dict[str, list[str]] = {}
    for name in evidence.names(Selection(patterns=(IMPORTANCES,))):
        by_kind.setdefault(name.partition(IMPORTANCES)[2].partition("/")[0], []).append(name)
    cards = [
        element("div", element("h3", kind), _ranking(evidence, members), class_="card")
        for kind, members in sorted(by_kind.items())
    ]
    if not cards:
        return None
    about = f"At the last saved step, the {_MOST_FEATURES} most important of each kind."
    grid = element("div", *cards, class_="grid")
    return section("importance", "Feature importance", about, grid)


def _ranking(evidence: Evidence, members: list[str]) -> Html:
    cube = evidence.trial.cube(members, "mean")
    lines = [Line.of(cube, column) for column in range(len(members))]
    latest = [(line.name.rpartition("/")[2], float(line.y[-1])) for line in lines]
    largest = sorted(latest, key=lambda each: -each[1])[:_MOST_FEATURES]
    most = max((value for _, value in largest), default=0.0) or 1.0
    rows = [
        (feature, element("meter", value=value, max=most), f"{value:.4g}")
        for feature, value in largest
    ]
    return table(("feature", "", "importance"), rows, numbers=1)


def _predictions(evidence: Evidence) -> Html | None:
    """Confusion of classes, or residuals if the labels are not classes."""
    pair = _last_pair(evidence)
    if pair is None:
        return None
    step, labels, predictions = pair
    classes = as_classes(labels, predictions, argmax=True)
    num_classes = 0 if classes is None else 1 + max(int(each.max(initial=0)) for each in classes)
    if classes is not None and num_classes <= _MOST_CLASSES:
        return _confusion(step, *classes, num_classes)
    return _residuals(step, labels, predictions) if labels.size == predictions.size else None


def _last_pair(evidence: Evidence) -> tuple[int, Array, Array] | None:
    names = [evidence.names(Selection((each,), (each,))) for each in ("labels", "predictions")]
    if not all(names):
        return None
    for step in reversed(evidence.trial.tensor(names[0][0]).steps()):
        labels, predictions = (evidence.values(each[0], step) for each in names)
        if labels is not None and predictions is not None:
            return step, labels, predictions
    return None


def _confusion(step: int, labels: Array, predictions: Array, size: int) -> Html:
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
    about = f"Confusion at step {step}: {accuracy:.1f} % are right."
    content = element("div", table(head, rows, numbers=size + 2), class_="card")
    return section("predictions", "Predictions", about, content)


def _residuals(step: int, labels: Array, predictions: Array) -> Html:
    residuals = (labels.ravel() - predictions.ravel()).astype(np.float64)
    rmse, mean = float(np.sqrt(np.mean(residuals**2))), float(np.abs(residuals).mean())
    about = (
        f"Residuals at step {step}: label minus prediction. Root mean square {rmse:.5g}, "
        f"mean absolute {mean:.5g}."
    )
    chart = histogram("residuals", residuals, unit="")
    return section("predictions", "Predictions", about, element("div", chart, class_="grid"))


def _hyperparameters(evidence: Evidence) -> Iterator[tuple[str, str]]:
    for name in evidence.names(Selection(patterns=(_HYPERPARAMETERS,))):
        steps = evidence.trial.tensor(name).steps()
        value = evidence.values(name, steps[-1]) if steps else None
        if value is not None:
            yield name.rpartition("/")[2], ", ".join(map(str, np.ravel(value).tolist()))
