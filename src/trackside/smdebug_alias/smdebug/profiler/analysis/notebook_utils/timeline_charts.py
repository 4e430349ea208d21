from trackside.smdebug_alias.profiler_charts import TimelineCharts

__all__ = ["TimelineCharts"]
