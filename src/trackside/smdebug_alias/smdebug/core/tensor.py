from trackside.capture.reading.step_table import StepState
from trackside.capture.reading.tensor import Tensor

__all__ = ["StepState", "Tensor"]
