from trackside.smdebug_alias.profiler_charts import StepHistogram

__all__ = ["StepHistogram"]
