from trackside.rules.saved.profiler_trial import FrameworkMetric, ProfilerTrial, SystemMetric
from trackside.smdebug_alias.profiler_readers import (
    LocalAlgorithmMetricsReader,
    LocalSystemMetricsReader,
    MetricsReaderBase,
    S3AlgorithmMetricsReader,
    S3SystemMetricsReader,
)

__all__ = [
    "FrameworkMetric",
    "LocalAlgorithmMetricsReader",
    "LocalSystemMetricsReader",
    "MetricsReaderBase",
    "ProfilerTrial",
    "S3AlgorithmMetricsReader",
    "S3SystemMetricsReader",
    "SystemMetric",
]
