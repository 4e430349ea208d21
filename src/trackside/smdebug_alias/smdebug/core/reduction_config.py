from trackside.capture.selection.reduction_config import ReductionConfig

__all__ = ["ReductionConfig"]
