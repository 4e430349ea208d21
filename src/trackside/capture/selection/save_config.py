"""At which steps a collection is saved: per mode an interval, bounds and single steps.

Constructors, defaults, errors and JSON are smdebug's; scripts and stored trials rely on them.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from trackside.capture.exceptions import SMDebugTypeError, SMDebugValueError
from trackside.capture.modes import ModeKeys

DEFAULT_SAVE_INTERVAL = 500
SAVE_KEYS = ("save_interval", "start_step", "end_step", "save_steps")


class SaveConfigMode:
    """The steps of one mode: `start_step <= step < end_step` every `save_interval`, or listed."""

    def __init__(
        self,
        save_interval: int | str | None = None,
        start_step: int | str | None = None,
        end_step: int | str | None = None,
        save_steps: Sequence[int] | None = None,
    ) -> None:
        self.save_interval = _integer("save_interval", save_interval, DEFAULT_SAVE_INTERVAL)
        self.start_step = _integer("start_step", start_step, 0)
        self.end_step = None if end_step is None else _integer("end_step", end_step, 0)
        self.save_steps = _step_list(save_steps)
        if self.save_interval < 1:
            raise SMDebugValueError(
                f"save_interval={save_interval!r} is not a positive number of steps. "
                "To save nothing by interval give end_step=0."
            )

    def should_save_step(self, step_num: int) -> bool:
        if step_num in self.save_steps:
            return True
        return (
            step_num % self.save_interval == 0
            and step_num >= self.start_step
            and (self.end_step is None or step_num < self.end_step)
        )

    def to_json_dict(self) -> dict[str, Any]:
        return {
            "save_interval": self.save_interval,
            "save_steps": list(self.save_steps),
            "start_step": self.start_step,
            "end_step": self.end_step,
        }

    @classmethod
    def from_dict(
        cls, params: Mapping[str, Any] | None, default_values: Mapping[str, Any] | None = None
    ) -> "SaveConfigMode | None":
        if params is None:
            return None
        for given in (params, default_values or {}):
            if not isinstance(given, Mapping):
                raise SMDebugTypeError(f"{given!r} is not a dict of {', '.join(SAVE_KEYS)}.")
        merged = {**(default_values or {}), **params}
        return cls(**{key: merged.get(key) for key in SAVE_KEYS})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SaveConfigMode):
            return NotImplemented
        return self.to_json_dict() == other.to_json_dict()

    __hash__ = None  # type: ignore[assignment]  # mutable, as smdebug's

    def __repr__(self) -> str:
        fields = ", ".join(f"{key}={getattr(self, key)!r}" for key in SAVE_KEYS)
        return f"SaveConfigMode({fields})"


class SaveConfig:
    """One `SaveConfigMode` per mode. A mode left None is filled from the hook's configuration."""

    def __init__(
        self,
        mode_save_configs: "Mapping[ModeKeys, SaveConfigMode | None] | None" = None,
        save_interval: int | str | None = None,
        start_step: int | str | None = None,
        end_step: int | str | None = None,
        save_steps: Sequence[int] | None = None,
    ) -> None:
        if mode_save_configs is None:
            self.mode_save_configs: dict[ModeKeys, SaveConfigMode | None] = {
                mode: SaveConfigMode(save_interval, start_step, end_step, save_steps)
                for mode in ModeKeys
            }
            return
        if any(given is not None for given in (save_interval, start_step, end_step, save_steps)):
            raise SMDebugValueError(
                "mode_save_configs and the four step settings exclude each other. "
                "Put the settings into the SaveConfigMode of each mode."
            )
        self.mode_save_configs = dict.fromkeys(ModeKeys)
        for mode, config in mode_save_configs.items():
            self.set_save_config(mode, config)

    def get_save_config(self, mode: ModeKeys) -> SaveConfigMode:
        config = self.mode_save_configs[_mode(mode)]
        return config if config is not None else SaveConfigMode()

    def set_save_config(self, mode: ModeKeys, save_config_mode: SaveConfigMode | None) -> None:
        if save_config_mode is not None and not isinstance(save_config_mode, SaveConfigMode):
            raise SMDebugValueError(
                f"{save_config_mode!r} is not a SaveConfigMode. Wrap the settings in one."
            )
        self.mode_save_configs[_mode(mode)] = save_config_mode

    def should_save_step(self, mode: ModeKeys, step_num: int) -> bool:
        return self.get_save_config(mode).should_save_step(step_num)

    def merge_default_save_config(self, default_save_config: "SaveConfig") -> None:
        """Fill the modes that are not configured."""
        for mode, config in self.mode_save_configs.items():
            if config is None:
                self.mode_save_configs[mode] = default_save_config.get_save_config(mode)

    def to_json_dict(self) -> dict[str, Any]:
        return {
            mode.name: config.to_json_dict() if config else None
            for mode, config in self.mode_save_configs.items()
        }

    def to_json(self) -> str:
        return json.dumps(self.to_json_dict())

    @classmethod
    def from_dict(
        cls,
        params: "Mapping[Any, Any] | None",
        default_values: Mapping[str, Any] | None = None,
    ) -> "SaveConfig | None":
        """Keys are modes or their names, values `SaveConfigMode` or dicts of its settings."""
        if params is None:
            return None
        configs: dict[ModeKeys, SaveConfigMode | None] = {}
        for key, value in params.items():
            if isinstance(value, SaveConfigMode):
                configs[_mode(key)] = value
            else:
                configs[_mode(key)] = SaveConfigMode.from_dict(value, default_values)
        return cls(mode_save_configs=configs)

    @classmethod
    def from_json(cls, json_str: str) -> "SaveConfig | None":
        return cls.from_dict(json.loads(json_str))

    @classmethod
    def from_save_config_mode(cls, save_config_mode: SaveConfigMode) -> "SaveConfig":
        return cls(mode_save_configs=dict.fromkeys(ModeKeys, save_config_mode))

    @classmethod
    def parse(cls, obj: object) -> "SaveConfig":
        """Any of the four forms the hook's `save_config` argument takes."""
        match obj:
            case None:
                return cls()
            case SaveConfig():
                return obj
            case SaveConfigMode():
                return cls.from_save_config_mode(obj)
            case Mapping():
                parsed = cls.from_dict(obj)
                assert parsed is not None
                return parsed
        raise SMDebugTypeError(
            f"{obj!r} is not a save configuration. Give a SaveConfig, a SaveConfigMode, "
            "or a dict from modes to SaveConfigMode."
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SaveConfig):
            return NotImplemented
        return self.mode_save_configs == other.mode_save_configs

    __hash__ = None  # type: ignore[assignment]  # mutable, as smdebug's

    def __repr__(self) -> str:
        shown = {mode.name: config for mode, config in self.mode_save_configs.items()}
        return f"SaveConfig({shown})"


def _integer(name: str, value: int | str | None, default: int) -> int:
    if value is None:
        return default
    if isinstance(value, int | str) and not isinstance(value, bool):
        try:
            return int(value)
        except ValueError:
            pass
    raise SMDebugValueError(f"{name}={value!r} is not a whole number.")


def _step_list(value: Sequence[int] | None) -> list[int]:
    if value is None:
        return []
    if isinstance(value, list) and all(type(step) is int for step in value):
        return value
    raise SMDebugValueError(f"save_steps={value!r} is not a list of whole numbers.")


def _mode(key: Any) -> ModeKeys:
    if isinstance(key, ModeKeys):
        return key
    if isinstance(key, str) and key in ModeKeys.__members__:
        return ModeKeys[key]
    raise SMDebugValueError(f"{key!r} is not a mode. Modes: {', '.join(ModeKeys.__members__)}.")
