"""Which locations a job from a client may name: object stores, and folders of the server's machine
that the operator shares. A key that may `admin` may name any folder.

`validation` checks the rest of a request; `storage/locate` reads locations.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trackside.api.keys import AccessKey, Rights
from trackside.errors import InvalidSetting, StorageError, Violation
from trackside.records.spec import Channel, JobSpec, RuleConfiguration
from trackside.rules.parameters import trial_locations
from trackside.settings import Settings
from trackside.storage.locate import local_path
from trackside.texts.storage_schemes import OBJECT_STORES

_URI = r"(https|s3)://([^/]+)/?(.*)"
_PATTERN = f"Member must satisfy regular expression pattern: {_URI}"
_SHARED = (
    f"{_PATTERN}; a folder of the server must be below one of TRACKSIDE_SHARED_FOLDERS, unless the "
    f"key may {Rights.ADMIN}"
)

Named = tuple[str, str | None]
"""A member of the request, and the location in it."""


@dataclass(frozen=True, slots=True)
class Locations:
    shared: tuple[Path, ...] = ()
    """Folders below which every job may read and write."""

    @classmethod
    def of(cls, settings: Settings) -> "Locations":
        """`InvalidSetting` for folders that are none, or would give away the server's own."""
        given = [text for text in settings.shared_folders.split(os.pathsep) if text]
        return cls(tuple(_shared(text, settings.home) for text in given))

    def violations(self, spec: JobSpec, caller: AccessKey) -> Iterator[Violation]:
        is_admin = caller.rights.allow(Rights.ADMIN)
        for member, uri in named_by(spec):
            if uri is not None and (constraint := self._problem(uri, is_admin=is_admin)):
                yield Violation(member, uri, "is no s3:// location", constraint=constraint)
        if not is_admin:
            yield from _manifests(spec)

    def _problem(self, uri: str, *, is_admin: bool) -> str:
        """The violated constraint; empty if it may be named."""
        if uri.startswith(OBJECT_STORES):
            return ""
        if not uri.startswith(("/", "file://")):
            return _PATTERN  # a relative path, or an unknown scheme
        try:
            path = local_path(uri)
        except StorageError:
            return _PATTERN
        return "" if is_admin or (path is not None and self._is_shared(path)) else _SHARED

    def _is_shared(self, path: Path) -> bool:
        """By its real path, with `..` and links resolved."""
        real = Path(os.path.realpath(path))
        return any(real.is_relative_to(os.path.realpath(folder)) for folder in self.shared)


def named_by(spec: JobSpec) -> Iterator[Named]:
    """Every location in a request, by its member."""
    yield "OutputDataConfig.S3OutputPath", spec.output.uri
    yield "HyperParameters.sagemaker_submit_directory", spec.source
    for index, channel in enumerate(spec.inputs):
        yield _channel(index), channel.uri
    if spec.checkpoints:
        yield "CheckpointConfig.S3Uri", spec.checkpoints.uri
    if spec.debug_hook:
        yield "DebugHookConfig.S3OutputPath", spec.debug_hook.uri
    if spec.tensorboard:
        yield "TensorBoardOutputConfig.S3OutputPath", spec.tensorboard.uri
    if spec.profiler:
        yield "ProfilerConfig.S3OutputPath", spec.profiler.uri
    for member, rule in _rules(spec):
        yield f"{member}.S3OutputPath", rule.uri
        source = rule.parameters.get("source_s3_uri")
        yield f"{member}.RuleParameters.source_s3_uri", source
        for name, uri in trial_locations(rule.parameters):
            yield f"{member}.RuleParameters.{name}", uri


def _rules(spec: JobSpec) -> Iterator[tuple[str, RuleConfiguration]]:
    for member, rules in (
        ("DebugRuleConfigurations", spec.debug_rules),
        ("ProfilerRuleConfigurations", spec.profiler_rules),
    ):
        for index, rule in enumerate(rules):
            yield f"{member}[{index}]", rule


def _manifests(spec: JobSpec) -> Iterator[Violation]:
    """One in a folder may name any file of the machine; one in a store only objects."""
    for index, channel in enumerate(spec.inputs):
        if _is_manifest(channel) and not channel.uri.startswith(OBJECT_STORES):
            advice = "must be in an object store: this is a manifest, and could name any file"
            yield Violation(_channel(index), channel.uri, advice)


def _is_manifest(channel: Channel) -> bool:
    return channel.data_type != "S3Prefix"


def _channel(index: int) -> str:
    return f"InputDataConfig[{index}].DataSource.S3DataSource.S3Uri"


def _shared(text: str, home: Path) -> Path:
    folder, own = Path(text), Path(os.path.realpath(home))
    real = Path(os.path.realpath(folder))
    if not folder.is_absolute():
        raise InvalidSetting(
            f"TRACKSIDE_SHARED_FOLDERS has {text!r}, which is not an absolute path. "
            f"Give folders such as /mnt/data, with {os.pathsep!r} between them."
        )
    if own.is_relative_to(real) or real.is_relative_to(own):
        raise InvalidSetting(
            f"TRACKSIDE_SHARED_FOLDERS has {text!r}, and TRACKSIDE_HOME is {str(home)!r}: jobs "
            "could read the server's keys. Share a folder that neither holds it nor is in it."
        )
    return folder
