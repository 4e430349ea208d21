"""`from trackside.pytorch import PyTorch`, where a script has `sagemaker.pytorch`."""

from trackside.sdk.estimator import PyTorch

__all__ = ["PyTorch"]
