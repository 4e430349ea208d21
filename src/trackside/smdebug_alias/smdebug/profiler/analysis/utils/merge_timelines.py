from enum import Enum

from trackside.smdebug_alias.not_offered import not_offered

__all__ = ["MergeUnit", "MergedTimeline"]

MergedTimeline = not_offered(
    "MergedTimeline",
    "The timelines below profiler-output/framework are Chrome traces: open them one by one.",
)


class MergeUnit(Enum):
    TIME = "time"
    STEP = "step"
