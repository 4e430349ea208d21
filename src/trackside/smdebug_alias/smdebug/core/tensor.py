from trackside.capture.step_table import StepState
from trackside.capture.tensor import Tensor

__all__ = ["StepState", "Tensor"]
