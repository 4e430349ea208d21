"""Reads `debughookconfig.json` into the hook's arguments: keys, precedence, merged duplicates."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trackside.capture.environment import CaptureEnvironment
from trackside.capture.exceptions import SMDebugValueError
from trackside.capture.modes import ModeKeys
from trackside.capture.selection.collection import Collection
from trackside.capture.selection.reduction_config import ReductionConfig, parse_flag
from trackside.capture.selection.save_config import SAVE_KEYS, SaveConfig, SaveConfigMode

DEFAULT_OUT_DIR = "/opt/ml/output/tensors"
VitalsChoice = Literal["on", "off", "only"]
"""`only`: vitals, and no other tensor."""
REDUCTION_KEYS = ("reductions", "save_raw_tensor", "save_shape")
_FLAGS = ("save_raw_tensor", "save_shape", "save_histogram")


@dataclass(frozen=True, slots=True)
class HookConfiguration:
    """What one configuration file requests. `collections` are those it names, ready to add."""

    out_dir: str = DEFAULT_OUT_DIR
    save_config: SaveConfig = field(default_factory=SaveConfig)
    reduction_config: ReductionConfig | None = None
    include_regex: tuple[str, ...] = ()
    save_all: bool = False
    include_workers: str = "one"
    export_tensorboard: bool = False
    tensorboard_dir: str | None = None
    dry_run: bool = False
    ring: int = 0
    """Steps the flight recorder keeps in memory; 0 writes every saved step."""
    literal_names: bool = False
    vitals: VitalsChoice = "on"
    collections: tuple[Collection, ...] = ()


def read_configuration(path: Path, environment: CaptureEnvironment) -> HookConfiguration:
    """`FileNotFoundError` when there is none; every other problem names the file and the value."""
    parsed = _read_json(path)
    try:
        configuration = parse_configuration(parsed)
    except SMDebugValueError as error:
        raise SMDebugValueError(f"In {str(path)!r}: {error}") from None
    if not environment.job_name:
        return configuration
    return _with_platform_tensorboard(configuration, environment.tensorboard_config)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SMDebugValueError(f"{str(path)!r} is not JSON: {error}.") from None


def parse_configuration(given: Any) -> HookConfiguration:
    if not isinstance(given, Mapping):
        raise SMDebugValueError(f"{given!r} is not a JSON object with HookParameters.")
    hook = _mapping("HookParameters", given.get("HookParameters"))
    merged: dict[str, dict[str, Any]] = {}
    for entry in given.get("CollectionConfigurations") or ():
        if not isinstance(entry, Mapping) or not isinstance(entry.get("CollectionName"), str):
            raise SMDebugValueError(f"{entry!r} in CollectionConfigurations has no CollectionName.")
        parameters = _mapping("CollectionParameters", entry.get("CollectionParameters"))
        name = entry["CollectionName"]
        merged[name] = _merge(merged[name], parameters) if name in merged else dict(parameters)
    return HookConfiguration(
        out_dir=given.get("LocalPath") or DEFAULT_OUT_DIR,
        save_config=_save_config(hook),
        reduction_config=_reduction_config(hook),
        include_regex=tuple(_split(hook.get("include_regex", ""))),
        save_all=parse_flag("save_all", hook.get("save_all", False)),
        include_workers=str(hook.get("include_workers", "one")),
        export_tensorboard=parse_flag("export_tensorboard", hook.get("export_tensorboard", False)),
        tensorboard_dir=hook.get("tensorboard_dir"),
        dry_run=parse_flag("dry_run", hook.get("dry_run", False)),
        ring=_integer("ring", hook.get("ring", 0)),
        literal_names=parse_flag("literal_names", hook.get("literal_names", False)),
        vitals=_vitals(hook.get("vitals", "on")),
        collections=tuple(_collection(name, merged[name], hook) for name in merged),
    )


def _vitals(value: Any) -> VitalsChoice:
    choices: dict[str, VitalsChoice] = {"on": "on", "off": "off", "only": "only"}
    choices |= {"true": "on", "false": "off"}
    try:
        return choices[str(value).strip().lower()]
    except KeyError:
        raise SMDebugValueError(
            f"vitals = {value!r} is not one of 'on', 'off' and 'only'."
        ) from None


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SMDebugValueError(f"{name} = {value!r} is not a map of names to values.")
    return value


def _collection(name: str, own: Mapping[str, Any], hook: Mapping[str, Any]) -> Collection:
    return Collection(
        name,
        include_regex=_split(own.get("include_regex", "")),
        reduction_config=_reduction_config(own),
        save_config=_save_config(own, hook) if _has_save_keys(own) else None,
        save_histogram=parse_flag("save_histogram", own.get("save_histogram", True)),
        exclude_regex=_split(own.get("exclude_regex", "")),
    )


def _has_save_keys(parameters: Mapping[str, Any]) -> bool:
    return any(key.rpartition(".")[2] in SAVE_KEYS for key in parameters)


def _save_config(*layers: Mapping[str, Any]) -> SaveConfig:
    """The first layer with a setting wins; within one, the mode's own key wins."""
    return SaveConfig(
        mode_save_configs={
            mode: SaveConfigMode(**{key: _lookup(key, mode, layers) for key in SAVE_KEYS})
            for mode in ModeKeys
        }
    )


def _lookup(key: str, mode: ModeKeys, layers: tuple[Mapping[str, Any], ...]) -> Any:
    for layer in layers:
        for spelled in (f"{mode.name.lower()}.{key}", key):
            if layer.get(spelled) is not None:
                value = layer[spelled]
                return _steps(value) if key == "save_steps" else _integer(key, value)
    return None


def _steps(value: Any) -> list[int]:
    words = value if isinstance(value, list) else str(value).split(",")
    return [_integer("save_steps", word) for word in words]


def _integer(key: str, value: Any) -> int:
    try:
        return int(str(value).strip())
    except ValueError:
        raise SMDebugValueError(f"{key} = {value!r} is not a whole number.") from None


def _split(value: Any) -> list[str]:
    words = value if isinstance(value, list) else str(value).split(",")
    return [word.strip() for word in words if word.strip()]


def _reduction_config(parameters: Mapping[str, Any]) -> ReductionConfig | None:
    """Naming reductions switches raw values off; the two flags also count without them."""
    if not any(key in parameters for key in REDUCTION_KEYS):
        return None
    raw = {"save_raw_tensor": not parameters.get("reductions")}
    return ReductionConfig.from_dict({**raw, **parameters})


def _merge(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """A collection listed twice: the union, whatever the order (the SDK sends a set)."""
    merged = {**one, **other}
    if "exclude_regex" not in one.keys() & other.keys():
        merged.pop("exclude_regex", None)
    for key in one.keys() & other.keys():
        first, second, kind = one[key], other[key], key.rpartition(".")[2]
        if kind == "save_steps":
            merged[key] = sorted({*_steps(first), *_steps(second)})
        elif kind in ("save_interval", "start_step"):
            merged[key] = min(_integer(key, first), _integer(key, second))
        elif kind == "end_step":
            merged[key] = max(_integer(key, first), _integer(key, second))
        elif kind == "reductions":
            merged[key] = ",".join(sorted({*_split(first), *_split(second)}))
        elif kind == "include_regex":
            merged[key] = sorted({*_split(first), *_split(second)})
        elif kind == "exclude_regex":
            merged[key] = sorted({*_split(first)} & {*_split(second)})
        elif kind in _FLAGS:
            merged[key] = parse_flag(key, first) or parse_flag(key, second)
    return merged


def _with_platform_tensorboard(given: HookConfiguration, path: Path) -> HookConfiguration:
    """On the platform only its own file decides about TensorBoard."""
    folder = None
    if path.is_file():
        folder = _mapping(str(path), _read_json(path)).get("LocalPath")
    values = {name: getattr(given, name) for name in HookConfiguration.__slots__}
    return HookConfiguration(
        **{**values, "export_tensorboard": False, "tensorboard_dir": folder or None}
    )
