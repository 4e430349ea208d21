"""smdebug's names, provided by Trackside. The original package, if installed, takes precedence."""

from trackside.capture.modes import ModeKeys as modes
from trackside.capture.selection.collection import CollectionKeys
from trackside.capture.selection.reduction_config import ReductionConfig
from trackside.capture.selection.save_config import SaveConfig, SaveConfigMode
from trackside.capture.smdebug_log import follow_variables

__all__ = ["CollectionKeys", "ReductionConfig", "SaveConfig", "SaveConfigMode", "modes"]

follow_variables()
