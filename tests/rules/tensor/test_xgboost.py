"""Trials with the tensors and names of smdebug's XGBoost hook."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.rules.recording import Recording, judge, steps_of
from trackside.capture.trial import Trial
from trackside.rules.report.xgboost_report import FILE, CreateXgboostReport
from trackside.rules.saved.evidence import Evidence
from trackside.rules.tensor.xgboost import FeatureImportanceOverweight, TreeDepth


def importances(folder: Path, steps: Any, kind: str = "weight") -> Trial:
    recording = Recording(folder)
    for step, values in enumerate(steps):
        named = {f"feature_importance/{kind}/f{i}": [v] for i, v in enumerate(values)}
        recording.step(step * 10, named)
    return recording.end()


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([[0.4, 0.2, 0.2, 0.2]], []),  # 0.8 is not above 0.8
        ([[0.5, 0.2, 0.2, 0.1]], [0]),
        ([[0.1, 0.2, 0.2, 0.5]], [0]),
        ([[0.2] * 5, [0.9, 0.025, 0.025, 0.025, 0.025]], [10]),
        ([[0.5, 0.3, 0.2]], []),  # three features are always everything
        ([[0.0, 0.0, 0.0, 0.0]], []),
    ],
)
def test_the_largest_importances_are_added_up(tmp_path, steps, found):
    trial = importances(tmp_path, steps)
    assert steps_of(judge(FeatureImportanceOverweight(), trial)) == found


def test_importances_of_another_kind_are_another_matter(tmp_path):
    trial = importances(tmp_path, [[0.9, 0.05, 0.03, 0.02]], kind="gain")
    assert judge(FeatureImportanceOverweight(), trial) == []
    rule = FeatureImportanceOverweight(tensor_regex=".*feature_importance/gain")
    (found,) = judge(rule, trial)
    assert "The features f0, f1, f2 make up 0.98" in found.message


@pytest.mark.parametrize(
    ("depth", "fires"), [(3, False), (4, False), (5, True), (6, True), (0, False)]
)
def test_the_depth_of_full_trees_is_reported_from_their_nodes(tmp_path, depth, fires):
    recording = Recording(tmp_path)
    recording.step(0, {"trees/Node": np.arange(2 ** (depth + 1) - 1)})
    assert bool(judge(TreeDepth(), recording.end())) is fires


def test_one_node_more_than_a_full_tree_is_a_level_more(tmp_path):
    recording = Recording(tmp_path)
    recording.step(0, {"trees/Node": np.arange(32)})
    (found,) = judge(TreeDepth(), recording.end())
    assert found.value == 5


def report(trial: Trial) -> str:
    evidence = Evidence(trial)
    evidence.advance()
    rule = CreateXgboostReport()
    assert [*rule.check(evidence)] == []
    assert rule.missing(evidence) == ""
    return rule.files(evidence)[FILE].decode()


def test_the_report_shows_metrics_importances_confusion_and_hyperparameters(tmp_path):
    labels = np.array([0, 0, 1, 1])
    recording = Recording(tmp_path)
    for step in range(3):
        recording.step(
            step * 5,
            {
                "train-error": [0.5 / (step + 1)],
                "validation-error": [0.6 / (step + 1)],
                "feature_importance/weight/age <years>": [0.7],
                "feature_importance/weight/height": [0.3],
                "predictions": [0.1, 0.8, 0.9, 0.7],
                "labels": labels,
                "hyperparameters/eta": [0.3],
            },
        )
    page = report(recording.end())
    assert "train-error 0.16667, validation-error 0.2" in page
    assert "age &lt;years&gt;" in page
    assert "Confusion at step 10" in page
    assert "75.0 % are right" in page
    assert "<td>eta</td>" in page


def test_the_report_of_a_regression_shows_residuals(tmp_path):
    recording = Recording(tmp_path)
    labels = np.linspace(0, 1, 11)
    recording.step(0, {"train-rmse": [0.1], "labels": labels, "predictions": labels + 0.1})
    page = report(recording.end())
    assert "Residuals at step 0" in page
    assert "Root mean square 0.1," in page


def test_a_trial_of_something_else_is_reported_what_is_missing(tmp_path):
    recording = Recording(tmp_path)
    recording.step(0, {"w": [1.0]})
    evidence = Evidence(recording.end())
    evidence.advance()
    assert "No tensor of collection 'metrics'" in CreateXgboostReport().missing(evidence)
