"""Public names, loaded on first use so that the in-container half stays light."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from trackside import curves as curves
    from trackside.capture import modes as modes
    from trackside.capture.trial import create_trial as create_trial
    from trackside.curves.event_writer import SummaryWriter as SummaryWriter
    from trackside.errors import InvalidSpec as InvalidSpec
    from trackside.errors import JobFailed as JobFailed
    from trackside.errors import TracksideError as TracksideError
    from trackside.finding import Finding as Finding
    from trackside.sdk import rule_configs as rule_configs
    from trackside.sdk.debugger import CollectionConfig as CollectionConfig
    from trackside.sdk.debugger import DebuggerHookConfig as DebuggerHookConfig
    from trackside.sdk.debugger import Rule as Rule
    from trackside.sdk.debugger import TensorBoardOutputConfig as TensorBoardOutputConfig
    from trackside.sdk.estimator import Estimator as Estimator
    from trackside.sdk.estimator import PyTorch as PyTorch
    from trackside.sdk.estimator import get_execution_role as get_execution_role
    from trackside.sdk.inputs import ShuffleConfig as ShuffleConfig
    from trackside.sdk.inputs import TrainingInput as TrainingInput
    from trackside.sdk.job import TrainingJob as TrainingJob
    from trackside.sdk.job import attach as attach
    from trackside.spec import JobSpec as JobSpec

_HOMES = {
    "CollectionConfig": "trackside.sdk.debugger",
    "DebuggerHookConfig": "trackside.sdk.debugger",
    "Estimator": "trackside.sdk.estimator",
    "Finding": "trackside.finding",
    "InvalidSpec": "trackside.errors",
    "JobFailed": "trackside.errors",
    "JobSpec": "trackside.spec",
    "PyTorch": "trackside.sdk.estimator",
    "Rule": "trackside.sdk.debugger",
    "ShuffleConfig": "trackside.sdk.inputs",
    "SummaryWriter": "trackside.curves.event_writer",
    "TensorBoardOutputConfig": "trackside.sdk.debugger",
    "TracksideError": "trackside.errors",
    "TrainingInput": "trackside.sdk.inputs",
    "TrainingJob": "trackside.sdk.job",
    "attach": "trackside.sdk.job",
    "create_trial": "trackside.capture.trial",
    "curves": "trackside.curves",
    "get_execution_role": "trackside.sdk.estimator",
    "modes": "trackside.capture.modes",
    "rule_configs": "trackside.sdk.rule_configs",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'trackside' has no attribute {name!r}")
    home = import_module(_HOMES[name])
    return home if _HOMES[name].endswith(f".{name}") else getattr(home, name)


def __dir__() -> list[str]:
    return sorted(__all__)
