"""`from trackside.estimator import Estimator`, where a script has `sagemaker.estimator`."""

from trackside.sdk.estimator import Estimator

__all__ = ["Estimator"]
