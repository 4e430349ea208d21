from enum import Enum

__all__ = ["Metrics"]


class Metrics(Enum):
    TOTAL_TIME = "tottime"
    CUMULATIVE_TIME = "cumtime"
    PRIMITIVE_CALLS = "pcalls"
    TOTAL_CALLS = "ncalls"
