from trackside.smdebug_alias.profiler_frames import PandasFrame

__all__ = ["PandasFrame"]
