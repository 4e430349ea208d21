"""What the environment decides, read once into one frozen object. docs/settings.md lists it all."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from trackside.errors import InvalidSetting
from trackside.layout import Home

INTERNAL = frozenset(
    {
        "TRACKSIDE_ARGUMENT_ORDER",
        "TRACKSIDE_CAPTURE",
        "TRACKSIDE_EXIT_RECORD",
        "TRACKSIDE_HOSTS_SHARED_MACHINE",
        "TRACKSIDE_HOST_WAIT_SECONDS",
        "TRACKSIDE_KEEP_BAKED_CODE",
        "TRACKSIDE_NONCE",
        "TRACKSIDE_OVERLAYS",
        "TRACKSIDE_REQUIRE",
        "TRACKSIDE_S3",
        "TRACKSIDE_SOURCE_IN_PLACE",
    }
)
"""Set by Trackside for the processes it starts, by the tests, or read by the storage module."""


def _setting(variable: str, default: Any) -> Any:
    return field(default=default, metadata={"variable": variable})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    home: Path = _setting("TRACKSIDE_HOME", Path("~/.trackside"))
    """Job folders, the index, the embedded buckets, cached overlays."""
    output: str = _setting("TRACKSIDE_OUTPUT", "s3://trackside")
    """Where a job's output goes when none is named."""
    upload_deadline_seconds: float = _setting("TRACKSIDE_UPLOAD_DEADLINE", 900.0)
    """How long the end of a job waits for an object store that does not answer."""
    isolation: str = _setting("TRACKSIDE_ISOLATION", "auto")
    """auto, root, user or none: how the process sandbox makes its own /opt/ml."""
    python: str = _setting("TRACKSIDE_PYTHON", "")
    """The interpreter that runs scripts; the one Trackside runs in when empty."""

    @property
    def layout(self) -> Home:
        return Home(self.home)

    @property
    def variables(self) -> dict[str, str]:
        """The environment from which another process loads these same settings."""
        return {f.metadata["variable"]: str(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> "Settings":
        environ = os.environ if environ is None else environ
        known = {f.metadata["variable"]: f for f in fields(cls)}
        given = {key: value for key, value in environ.items() if key.startswith("TRACKSIDE_")}
        unknown = sorted(set(given) - set(known) - INTERNAL)
        if unknown:
            raise InvalidSetting(
                f"Unknown setting {unknown[0]!r} = {given[unknown[0]]!r} in the environment. "
                f"Known: {', '.join(sorted(known))}. Unset it or correct its name."
            )
        values = {
            f.name: _convert(variable, given[variable], f.default)
            for variable, f in known.items()
            if given.get(variable)
        }
        settings = cls(**values)
        home = Path(os.path.abspath(settings.home.expanduser()))
        object.__setattr__(settings, "home", home)
        return settings


def _convert(variable: str, text: str, default: Any) -> Any:
    try:
        value = type(default)(text)
    except ValueError:
        raise InvalidSetting(f"{variable} = {text!r} is not a number. Give seconds.") from None
    if isinstance(value, float) and not value >= 0:  # also what is no number
        raise InvalidSetting(f"{variable} = {text!r} is no length of time. Give seconds from 0 on.")
    if variable == "TRACKSIDE_ISOLATION" and text not in ("auto", "root", "user", "none"):
        raise InvalidSetting(f"{variable} = {text!r} is not one of auto, root, user, none.")
    return Path(text) if isinstance(default, Path) else value


def environment() -> dict[str, str]:
    """This process's own environment, for the supervisors it starts."""
    return dict(os.environ)
