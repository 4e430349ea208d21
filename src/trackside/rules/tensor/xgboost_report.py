"""`CreateXgboostReport`: what an XGBoost training did, as one HTML page. Never finds anything."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trackside.records.finding import Finding
from trackside.rules.builtin import Need, TensorRule
from trackside.rules.saved.evidence import Evidence, Selection

FILE = "xgboost_report.html"
METRIC = r"^[^/]+-[^/]+$"
"""`train-rmse`, `validation-auc`: data set, metric."""
IMPORTANCES = r"feature_importance/"


@dataclass
class CreateXgboostReport(TensorRule):
    """Writes a report of an XGBoost training: metrics, feature importance, confusion, residuals.

    Never fires. The page shows the whole trial, and what the model predicts at its last saved step.
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

    def look(self, evidence: Evidence) -> Iterable[Finding]:
        return ()

    def files(self, evidence: Evidence) -> Mapping[str, bytes]:
        # Imported when a report is made: the page needs far more than the rule does.
        from trackside.rules.report.xgboost_page import xgboost_page

        return {FILE: xgboost_page(evidence)}
