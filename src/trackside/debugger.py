"""`from trackside.debugger import Rule, rule_configs`, where a script has `sagemaker.debugger`."""

from trackside.sdk import rule_configs
from trackside.sdk.debugger import (
    CollectionConfig,
    DebuggerHookConfig,
    ProfilerConfig,
    TensorBoardOutputConfig,
)
from trackside.sdk.rule import ProfilerRule, Rule

__all__ = [
    "CollectionConfig",
    "DebuggerHookConfig",
    "ProfilerConfig",
    "ProfilerRule",
    "Rule",
    "TensorBoardOutputConfig",
    "rule_configs",
]
