"""What a job captures and which rules watch it, as the user asks for it.

Only the request is made here; capturing and judging happen elsewhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trackside.sdk.locations import location

RULES_IMAGE = "trackside/sagemaker-debugger-rules:latest"
"""Readers recognise built-in rules by the repository's name, whatever the registry."""


@dataclass(frozen=True, slots=True)
class TensorBoardOutputConfig:
    """Where event files go while the job runs, and where the script writes them."""

    s3_output_path: str
    container_local_output_path: str | None = None

    def to_request(self) -> dict[str, Any]:
        request = {"S3OutputPath": location(self.s3_output_path)}
        if self.container_local_output_path:
            request["LocalPath"] = self.container_local_output_path
        return request


@dataclass(frozen=True, slots=True)
class CollectionConfig:
    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def to_request(self) -> dict[str, Any]:
        request: dict[str, Any] = {"CollectionName": self.name}
        if self.parameters:
            request["CollectionParameters"] = _texts(self.parameters)
        return request


@dataclass(frozen=True, slots=True)
class DebuggerHookConfig:
    s3_output_path: str | None = None
    """The job's output location when not given."""
    container_local_output_path: str | None = None
    hook_parameters: Mapping[str, Any] = field(default_factory=dict)
    collection_configs: Sequence[CollectionConfig] = ()

    def to_request(self, output: str) -> dict[str, Any]:
        request: dict[str, Any] = {
            "S3OutputPath": location(self.s3_output_path or output),
            "CollectionConfigurations": [each.to_request() for each in self.collection_configs],
        }
        if self.container_local_output_path:
            request["LocalPath"] = self.container_local_output_path
        if self.hook_parameters:
            request["HookParameters"] = _texts(self.hook_parameters)
        return request


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule to evaluate against a job. Made by `Rule.sagemaker(rule_configs.overfit())`."""

    name: str
    invokes: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    collections: Sequence[CollectionConfig] = ()
    """Saved by the hook for this rule."""
    s3_output_path: str | None = None

    @classmethod
    def sagemaker(
        cls,
        base_config: "Rule",
        *,
        name: str | None = None,
        s3_output_path: str | None = None,
        rule_parameters: Mapping[str, Any] | None = None,
        collections_to_save: Sequence[CollectionConfig] | None = None,
    ) -> "Rule":
        """A built-in rule; collections given here replace the rule's own."""
        saved = base_config.collections if collections_to_save is None else collections_to_save
        return replace(
            base_config,
            name=name or base_config.name,
            parameters={**base_config.parameters, **(rule_parameters or {})},
            collections=saved,
            s3_output_path=s3_output_path,
        )

    def to_request(self) -> dict[str, Any]:
        request: dict[str, Any] = {
            "RuleConfigurationName": self.name,
            "RuleEvaluatorImage": RULES_IMAGE,
            "RuleParameters": {"rule_to_invoke": self.invokes, **_texts(self.parameters)},
        }
        if self.s3_output_path:
            request["S3OutputPath"] = location(self.s3_output_path)
        return request


def hook_request(
    config: DebuggerHookConfig | bool | None, rules: Sequence[Rule], output: str
) -> dict[str, Any] | None:
    """The request's DebugHookConfig with what the rules need; None when it is switched off."""
    if config is False:
        return None
    hook = config if isinstance(config, DebuggerHookConfig) else DebuggerHookConfig()
    wanted = [*hook.collection_configs]
    for rule in rules:
        wanted += [collection for collection in rule.collections if collection not in wanted]
    return replace(hook, collection_configs=wanted).to_request(output)


def _texts(parameters: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in parameters.items()}
