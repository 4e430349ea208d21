from enum import Enum

from trackside.smdebug_alias.not_offered import CHARTS, not_offered

__all__ = ["PandasFrameAnalysis", "Resource", "StatsBy"]

PandasFrameAnalysis = not_offered("PandasFrameAnalysis", CHARTS)


class StatsBy(Enum):
    TRAINING_PHASE = "training_phase"
    FRAMEWORK_METRICS = "framework_metric"
    PROCESS = "process"


class Resource(Enum):
    CPU = "cpu"
    GPU = "gpu"
    IO = "i/o"
    NETWORK = "network"
    MEMORY = "memory"
