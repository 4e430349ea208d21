from trackside.rules.saved.profiler_trial import ProfilerTrial

__all__ = ["ProfilerTrial"]
