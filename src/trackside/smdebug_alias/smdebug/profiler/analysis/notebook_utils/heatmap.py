from trackside.smdebug_alias.profiler_charts import Heatmap

__all__ = ["Heatmap"]
