"""smdebug's names, by Trackside. The original package, where installed, comes before this one."""

from trackside.capture.collection import CollectionKeys
from trackside.capture.modes import ModeKeys as modes
from trackside.capture.reduction_config import ReductionConfig
from trackside.capture.save_config import SaveConfig, SaveConfigMode

__all__ = ["CollectionKeys", "ReductionConfig", "SaveConfig", "SaveConfigMode", "modes"]
