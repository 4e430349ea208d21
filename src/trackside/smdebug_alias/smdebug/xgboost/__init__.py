"""Importable only; a hook for XGBoost is not offered."""

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
    "Hook",
    "ReductionConfig",
    "SaveConfig",
    "SaveConfigMode",
    "create_trial",
    "del_hook",
    "get_hook",
    "modes",
    "set_hook",
]

Hook = not_offered("Hook", OTHER_FRAMEWORKS)
get_hook = no_hook("XGBoost")
