from trackside.smdebug_alias.profiler_readers import (
    LocalSystemMetricsReader,
    S3SystemMetricsReader,
    SystemMetricsReader,
)

__all__ = ["LocalSystemMetricsReader", "S3SystemMetricsReader", "SystemMetricsReader"]
