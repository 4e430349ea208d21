"""`from trackside.inputs import TrainingInput`, where a script has `sagemaker.inputs`."""

from trackside.sdk.inputs import ShuffleConfig, TrainingInput

__all__ = ["ShuffleConfig", "TrainingInput"]
