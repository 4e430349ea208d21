"""The charts of smdebug's profiler notebooks: their names, and their replacements."""

from trackside.smdebug_alias.not_offered import CHARTS, not_offered

Heatmap = not_offered("Heatmap", CHARTS)
MetricsHistogram = not_offered("MetricsHistogram", CHARTS)
StepHistogram = not_offered("StepHistogram", CHARTS)
StepTimelineChart = not_offered("StepTimelineChart", CHARTS)
TimelineCharts = not_offered("TimelineCharts", CHARTS)
