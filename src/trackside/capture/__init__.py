"""See every tensor of a training job: `import trackside.capture as tc`.

Public names are loaded on first use, so that reading a trial needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trackside.capture import modes as modes
    from trackside.capture.current_hook import del_hook as del_hook
    from trackside.capture.current_hook import set_hook as set_hook
    from trackside.capture.hook import Hook as Hook
    from trackside.capture.hook import get_hook as get_hook
    from trackside.capture.modes import ModeKeys as ModeKeys
    from trackside.capture.reading.anatomy import Anatomy as Anatomy
    from trackside.capture.reading.anatomy import read_anatomy as read_anatomy
    from trackside.capture.reading.step_table import StepState as StepState
    from trackside.capture.reading.table import tensor_table as tensor_table
    from trackside.capture.reading.tensor import Tensor as Tensor
    from trackside.capture.refreshing import no_refresh as no_refresh
    from trackside.capture.refreshing import refresh as refresh
    from trackside.capture.selection.collection import Collection as Collection
    from trackside.capture.selection.collection import CollectionKeys as CollectionKeys
    from trackside.capture.selection.reduction_config import ReductionConfig as ReductionConfig
    from trackside.capture.selection.save_config import SaveConfig as SaveConfig
    from trackside.capture.selection.save_config import SaveConfigMode as SaveConfigMode
    from trackside.capture.trial import Trial as Trial
    from trackside.capture.trial import create_trial as create_trial
    from trackside.capture.watch_model import watch as watch

_HOMES = {
    "Anatomy": "reading.anatomy",
    "Collection": "selection.collection",
    "CollectionKeys": "selection.collection",
    "Hook": "hook",
    "ModeKeys": "modes",
    "ReductionConfig": "selection.reduction_config",
    "SaveConfig": "selection.save_config",
    "SaveConfigMode": "selection.save_config",
    "StepState": "reading.step_table",
    "Tensor": "reading.tensor",
    "Trial": "trial",
    "create_trial": "trial",
    "del_hook": "current_hook",
    "get_hook": "hook",
    "no_refresh": "refreshing",
    "read_anatomy": "reading.anatomy",
    "refresh": "refreshing",
    "set_hook": "current_hook",
    "tensor_table": "reading.table",
    "watch": "watch_model",
}

__all__ = sorted([*_HOMES, "modes"])


def __getattr__(name: str) -> Any:
    if name == "modes":  # the module: `tc.modes.TRAIN`
        return import_module("trackside.capture.modes")
    if name not in _HOMES:
        raise AttributeError(f"module 'trackside.capture' has no attribute {name!r}")
    return getattr(import_module(f"trackside.capture.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
