from trackside.rules.profiler_trial import FrameworkMetric, ProfilerTrial, SystemMetric

__all__ = ["FrameworkMetric", "ProfilerTrial", "SystemMetric"]
