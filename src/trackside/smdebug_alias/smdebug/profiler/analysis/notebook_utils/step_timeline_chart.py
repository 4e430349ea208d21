from trackside.smdebug_alias.profiler_charts import StepTimelineChart

__all__ = ["StepTimelineChart"]
