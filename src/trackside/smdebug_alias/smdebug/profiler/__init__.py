from trackside.rules.saved.profiler_trial import FrameworkMetric, ProfilerTrial, SystemMetric

__all__ = ["FrameworkMetric", "ProfilerTrial", "SystemMetric"]
