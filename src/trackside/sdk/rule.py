"""The rules of a job, as the user configures them. `trackside.rules` evaluates them."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trackside.records.layout import JobKeys
from trackside.records.spec import BUILT_IN_RULES, CUSTOM_RULES
from trackside.sdk.actions import ActionList, Actions, action_json, as_list
from trackside.sdk.debugger import CollectionConfig, texts
from trackside.sdk.locations import is_remote, location

RULES_IMAGE = f"trackside/{BUILT_IN_RULES}:latest"
EVALUATOR_IMAGE = f"trackside/{CUSTOM_RULES}:latest"
"""Readers check only the repository's name, not the registry."""


@dataclass(frozen=True, kw_only=True)
class AnyRule(ABC):
    """The base of all rules. Names are the SageMaker SDK's."""

    name: str
    image_uri: str = RULES_IMAGE
    rule_parameters: Mapping[str, Any] = field(default_factory=dict)
    """With `rule_to_invoke`, which selects the rule; the name is free text."""
    source: str | None = None
    """The file of a custom rule, on this machine or in storage."""
    container_local_output_path: str | None = None
    s3_output_path: str | None = None
    instance_type: str | None = None
    volume_size_in_gb: int | None = None

    @abstractmethod
    def parameters_for(self, job: JobKeys) -> dict[str, str]:
        """The parameters that the evaluator of this job gets, all as text."""

    @property
    def invokes(self) -> str:
        return str(self.rule_parameters.get("rule_to_invoke", ""))

    def to_request(self, job: JobKeys) -> dict[str, Any]:
        request: dict[str, Any] = {
            "RuleConfigurationName": self.name,
            "RuleEvaluatorImage": self.image_uri,
            "RuleParameters": self.parameters_for(job),
        }
        if self.source is not None:
            request["RuleParameters"]["source_s3_uri"] = self.source_uri(job)
        others = {
            "LocalPath": self.container_local_output_path,
            "S3OutputPath": self.s3_output_path and location(self.s3_output_path),
            "InstanceType": self.instance_type,
            "VolumeSizeInGB": self.volume_size_in_gb,
        }
        return request | {key: value for key, value in others.items() if value is not None}

    @property
    def source_file(self) -> Path | None:
        """The file of this machine that has to be stored with the job."""
        if self.source is None or is_remote(self.source):
            return None
        return Path(os.path.abspath(os.path.expanduser(self.source)))

    def source_uri(self, job: JobKeys) -> str | None:
        """Where the evaluator finds the file: by content, so that rules in one file share it."""
        file = self.source_file
        if file is None:
            return self.source
        from hashlib import sha256  # loads OpenSSL, which most jobs do not need

        content = file.read_bytes() if file.is_file() else b""
        return job.rule_source(sha256(content).hexdigest()[:12], file.name)


@dataclass(frozen=True, kw_only=True)
class Rule(AnyRule):
    """Watches tensors: `Rule.sagemaker(rule_configs.overfit())`, or `Rule.custom` for your own."""

    other_trials: Sequence[str] = ()
    collections_to_save: Sequence[CollectionConfig] | None = None
    """None: what the rule needs, no more; the losses for rules without that information."""
    actions: ActionList | None = None

    @classmethod
    def sagemaker(
        cls,
        base_config: "Rule | str",
        name: str | None = None,
        container_local_output_path: str | None = None,
        s3_output_path: str | None = None,
        other_trials_s3_input_paths: Sequence[str] | None = None,
        rule_parameters: Mapping[str, Any] | None = None,
        collections_to_save: Sequence[CollectionConfig] | None = None,
        actions: Actions | None = None,
    ) -> "Rule":
        """A built-in rule. Collections given here are saved instead of those it needs."""
        base = built_in(base_config) if isinstance(base_config, str) else base_config
        if not isinstance(base, Rule):
            raise TypeError(f"{base!r} is no tensor rule. Use ProfilerRule.sagemaker for it.")
        return replace(
            base,
            name=name or base.name,
            container_local_output_path=container_local_output_path,
            s3_output_path=s3_output_path,
            other_trials=other_trials_s3_input_paths or (),
            rule_parameters={**base.rule_parameters, **(rule_parameters or {})},
            collections_to_save=collections_to_save,
            actions=as_list(actions),
        )

    builtin = sagemaker

    @classmethod
    def custom(
        cls,
        name: str,
        image_uri: str | None = None,
        instance_type: str | None = None,
        volume_size_in_gb: int | None = None,
        source: str | os.PathLike[str] | None = None,
        rule_to_invoke: str | None = None,
        container_local_output_path: str | None = None,
        s3_output_path: str | None = None,
        other_trials_s3_input_paths: Sequence[str] | None = None,
        rule_parameters: Mapping[str, Any] | None = None,
        collections_to_save: Sequence[CollectionConfig] | None = None,
        actions: Actions | None = None,
    ) -> "Rule":
        """A custom rule: a class or function in the file `source`, or without one the name under
        which an installed package provides it. It needs no image and no instance.
        """
        return cls(
            name=name,
            image_uri=image_uri or EVALUATOR_IMAGE,
            instance_type=instance_type,
            volume_size_in_gb=volume_size_in_gb,
            source=_source(name, source, rule_to_invoke),
            container_local_output_path=container_local_output_path,
            s3_output_path=s3_output_path,
            other_trials=other_trials_s3_input_paths or (),
            rule_parameters=_invoking(rule_to_invoke, rule_parameters),
            collections_to_save=collections_to_save,
            actions=as_list(actions),
        )

    def parameters_for(self, job: JobKeys) -> dict[str, str]:
        parameters = texts(self.rule_parameters)
        for number, trial in enumerate(self.other_trials):
            parameters[f"other_trial_{number}"] = location(trial)
        if self.actions is not None:
            parameters["action_json"] = action_json(self.actions, job.name)
        return parameters


@dataclass(frozen=True, kw_only=True)
class ProfilerRule(AnyRule):
    """Watches the machine: `ProfilerRule.sagemaker(rule_configs.LowGPUUtilization())`."""

    @classmethod
    def sagemaker(
        cls,
        base_config: "ProfilerRule",
        name: str | None = None,
        container_local_output_path: str | None = None,
        s3_output_path: str | None = None,
        instance_type: str | None = None,
        volume_size_in_gb: int | None = None,
    ) -> "ProfilerRule":
        if not isinstance(base_config, ProfilerRule):
            raise TypeError(f"{base_config!r} is no profiler rule. Use Rule.sagemaker for it.")
        return replace(
            base_config,
            name=name or base_config.name,
            container_local_output_path=container_local_output_path,
            s3_output_path=s3_output_path,
            instance_type=instance_type,
            volume_size_in_gb=volume_size_in_gb,
        )

    builtin = sagemaker

    @classmethod
    def custom(
        cls,
        name: str,
        image_uri: str | None = None,
        instance_type: str | None = None,
        volume_size_in_gb: int | None = None,
        source: str | os.PathLike[str] | None = None,
        rule_to_invoke: str | None = None,
        container_local_output_path: str | None = None,
        s3_output_path: str | None = None,
        rule_parameters: Mapping[str, Any] | None = None,
    ) -> "ProfilerRule":
        return cls(
            name=name,
            image_uri=image_uri or EVALUATOR_IMAGE,
            instance_type=instance_type,
            volume_size_in_gb=volume_size_in_gb,
            source=_source(name, source, rule_to_invoke),
            container_local_output_path=container_local_output_path,
            s3_output_path=s3_output_path,
            rule_parameters=_invoking(rule_to_invoke, rule_parameters),
        )

    def parameters_for(self, job: JobKeys) -> dict[str, str]:
        return texts(self.rule_parameters)


def built_in(rule: str, /, **parameters: Any) -> Rule:
    """A tensor rule by the name that `trackside rules` shows."""
    return Rule(name=rule, rule_parameters={"rule_to_invoke": rule, **parameters})


def built_in_profiler(rule: str, /, **parameters: Any) -> ProfilerRule:
    return ProfilerRule(name=rule, rule_parameters={"rule_to_invoke": rule, **parameters})


def _source(name: str, source: str | os.PathLike[str] | None, invokes: str | None) -> str | None:
    if source is not None and not invokes:
        raise ValueError(
            f"Rule {name!r} has a source and no rule_to_invoke. Name a class or function of "
            f"{os.fspath(source)!r}."
        )
    return None if source is None else os.fspath(source)


def _invoking(invokes: str | None, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    named = {"rule_to_invoke": invokes} if invokes else {}
    return {**named, **(parameters or {})}
