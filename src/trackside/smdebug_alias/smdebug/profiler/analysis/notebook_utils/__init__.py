from trackside.smdebug_alias.profiler_charts import MetricsHistogram, StepHistogram
from trackside.smdebug_alias.training_job import TrainingJob

__all__ = ["MetricsHistogram", "StepHistogram", "TrainingJob"]
