from trackside.smdebug_alias.profiler_charts import MetricsHistogram

__all__ = ["MetricsHistogram"]
