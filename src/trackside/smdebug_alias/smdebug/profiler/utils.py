from trackside.smdebug_alias import profiler_times
from trackside.smdebug_alias.profiler_times import *  # noqa: F403

__all__ = [name for name in vars(profiler_times) if not name.startswith("_")]
