from trackside.smdebug_alias.profiler_readers import MetricsReaderBase

__all__ = ["MetricsReaderBase"]
