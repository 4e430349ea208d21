"""Public names, loaded on first use so that the in-container half stays light."""

from __future__ import annotations

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
    from trackside.inside.api import finish as finish
    from trackside.inside.api import init as init
    from trackside.inside.api import log as log
    from trackside.inside.api import watch as watch
    from trackside.records.finding import Finding as Finding
    from trackside.records.spec import JobSpec as JobSpec
    from trackside.sdk import rule_configs as rule_configs
    from trackside.sdk.actions import SMS as SMS
    from trackside.sdk.actions import ActionList as ActionList
    from trackside.sdk.actions import Command as Command
    from trackside.sdk.actions import Email as Email
    from trackside.sdk.actions import SaveFlightRecorder as SaveFlightRecorder
    from trackside.sdk.actions import StopTraining as StopTraining
    from trackside.sdk.actions import Webhook as Webhook
    from trackside.sdk.debugger import CollectionConfig as CollectionConfig
    from trackside.sdk.debugger import DebuggerHookConfig as DebuggerHookConfig
    from trackside.sdk.debugger import ProfilerConfig as ProfilerConfig
    from trackside.sdk.debugger import TensorBoardOutputConfig as TensorBoardOutputConfig
    from trackside.sdk.estimator import Estimator as Estimator
    from trackside.sdk.estimator import PyTorch as PyTorch
    from trackside.sdk.estimator import get_execution_role as get_execution_role
    from trackside.sdk.inputs import ShuffleConfig as ShuffleConfig
    from trackside.sdk.inputs import TrainingInput as TrainingInput
    from trackside.sdk.job import TrainingJob as TrainingJob
    from trackside.sdk.job import attach as attach
    from trackside.sdk.rule import ProfilerRule as ProfilerRule
    from trackside.sdk.rule import Rule as Rule

_HOMES = {
    "ActionList": "trackside.sdk.actions",
    "CollectionConfig": "trackside.sdk.debugger",
    "Command": "trackside.sdk.actions",
    "DebuggerHookConfig": "trackside.sdk.debugger",
    "Email": "trackside.sdk.actions",
    "Estimator": "trackside.sdk.estimator",
    "Finding": "trackside.records.finding",
    "InvalidSpec": "trackside.errors",
    "JobFailed": "trackside.errors",
    "JobSpec": "trackside.records.spec",
    "ProfilerConfig": "trackside.sdk.debugger",
    "ProfilerRule": "trackside.sdk.rule",
    "PyTorch": "trackside.sdk.estimator",
    "Rule": "trackside.sdk.rule",
    "SMS": "trackside.sdk.actions",
    "SaveFlightRecorder": "trackside.sdk.actions",
    "ShuffleConfig": "trackside.sdk.inputs",
    "StopTraining": "trackside.sdk.actions",
    "SummaryWriter": "trackside.curves.event_writer",
    "TensorBoardOutputConfig": "trackside.sdk.debugger",
    "TracksideError": "trackside.errors",
    "TrainingInput": "trackside.sdk.inputs",
    "TrainingJob": "trackside.sdk.job",
    "Webhook": "trackside.sdk.actions",
    "attach": "trackside.sdk.job",
    "create_trial": "trackside.capture.trial",
    "curves": "trackside.curves",
    "finish": "trackside.inside.api",
    "get_execution_role": "trackside.sdk.estimator",
    "init": "trackside.inside.api",
    "log": "trackside.inside.api",
    "modes": "trackside.capture.modes",
    "rule_configs": "trackside.sdk.rule_configs",
    "watch": "trackside.inside.api",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'trackside' has no attribute {name!r}")
    home = import_module(_HOMES[name])
    found = home if _HOMES[name].endswith(f".{name}") else getattr(home, name)
    globals()[name] = found  # the next time it is found without us: `log` is called in every step
    return found


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext trackside`: AWS clients in this notebook find this machine's server."""
    from trackside.cli.notebook import set_up

    set_up()


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext trackside`."""
    from trackside.cli.notebook import take_back

    take_back()


def __dir__() -> list[str]:
    return sorted(__all__)
