from trackside.capture.reduction_config import ReductionConfig

__all__ = ["ReductionConfig"]
