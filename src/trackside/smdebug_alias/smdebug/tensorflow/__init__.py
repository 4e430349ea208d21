"""Importable only; hooks for TensorFlow are not offered."""

from trackside.capture.current_hook import del_hook, set_hook
from trackside.capture.modes import ModeKeys as modes
from trackside.capture.selection.collection import Collection, CollectionKeys
from trackside.capture.selection.reduction_config import ReductionConfig
from trackside.capture.selection.save_config import SaveConfig, SaveConfigMode
from trackside.smdebug_alias.not_offered import OTHER_FRAMEWORKS, no_hook, not_offered
from trackside.smdebug_alias.opening import create_trial

__all__ = [
    "Collection",
    "CollectionKeys",
    "EstimatorHook",
    "KerasHook",
    "ReductionConfig",
    "SaveConfig",
    "SaveConfigMode",
    "SessionHook",
    "create_trial",
    "del_hook",
    "get_hook",
    "modes",
    "set_hook",
]

KerasHook = not_offered("KerasHook", OTHER_FRAMEWORKS)
SessionHook = not_offered("SessionHook", OTHER_FRAMEWORKS)
EstimatorHook = not_offered("EstimatorHook", OTHER_FRAMEWORKS)
get_hook = no_hook("TensorFlow")
