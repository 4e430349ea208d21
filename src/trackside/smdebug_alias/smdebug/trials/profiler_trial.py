from trackside.rules.profiler_trial import ProfilerTrial

__all__ = ["ProfilerTrial"]
