"""The environment variables that direct AWS clients to a Trackside server, and how to undo them.

This module only computes them: `cli/env` prints them for a shell, `cli/notebook` sets them in a
kernel.
"""

import json
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

SITE = Path(__file__).parent / "site"
"""On PYTHONPATH it makes Python clients send requests for Amazon to the server."""
BEFORE = "_TRACKSIDE_BEFORE"
"""The variable with the previous values of changed variables, for `restored`. All programs can
read it, so it records only that the user had keys; the shell stores their values."""

_FOREIGN = ("AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE")
"""Variables that belong to the user's own keys."""
_SECRET = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN")
_ENDPOINT = "AWS_ENDPOINT_URL"
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


@dataclass(frozen=True, slots=True)
class Set:
    name: str
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Unset:
    name: str


@dataclass(frozen=True, slots=True)
class Keep:
    """Save its value in a shell variable that is not exported."""

    name: str


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Restore the saved value; without one, as in a subshell, unset the variable."""

    name: str


Change = Set | Unset | Keep | GiveBack


@dataclass(frozen=True, slots=True)
class Access:
    """A server and an access key for it."""

    url: str
    key_id: str
    secret: str = field(repr=False)
    region: str
    sdk_config: Path
    """The configuration file for SageMaker's SDKs."""


def changes(access: Access, environ: Mapping[str, str]) -> list[Change]:
    """The changes that direct AWS clients to the server, and that `restored` can undo."""
    values = _values(access, environ)
    known = _before(environ)
    before = {name: _previous(name, environ) for name in values} | known
    kept = [name for name, value in before.items() if value is True and name not in known]
    values[BEFORE] = json.dumps(before, sort_keys=True)
    return [*map(Keep, kept), *(_change(name, value) for name, value in values.items())]


def restored(environ: Mapping[str, str]) -> list[Change]:
    """The changes that undo `changes`; none if those were not made."""
    before = _before(environ)
    if not before:
        return []
    # Entries that were added since then belong to the user.
    before["PYTHONPATH"] = _joined(*_others(environ)) or None
    return [*(_change(name, value) for name, value in before.items()), Unset(BEFORE)]


def _values(access: Access, environ: Mapping[str, str]) -> dict[str, str | None]:
    """Values by variable; None unsets it."""
    found: dict[str, str | None] = {
        **dict.fromkeys(name for name in environ if name.startswith(f"{_ENDPOINT}_")),
        **dict.fromkeys(name for name in _FOREIGN if name in environ),
        _ENDPOINT: access.url,
        "AWS_ACCESS_KEY_ID": access.key_id,
        "AWS_SECRET_ACCESS_KEY": access.secret,
        "AWS_REGION": access.region,
        "AWS_DEFAULT_REGION": access.region,
        # With other values in the user's AWS_CONFIG_FILE, clients would ignore the endpoint or
        # query the metadata service, which only Amazon's machines have.
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "false",
        "AWS_USE_FIPS_ENDPOINT": "false",
        "AWS_USE_DUALSTACK_ENDPOINT": "false",
        "AWS_EC2_METADATA_DISABLED": "true",
        "SAGEMAKER_USER_CONFIG_OVERRIDE": str(access.sdk_config),
        "PYTHONPATH": _joined(str(SITE), *_others(environ)),
    }
    if any(environ.get(name) for name in _PROXIES):
        host = urlsplit(access.url).hostname or ""
        for name in ("no_proxy", "NO_PROXY"):
            listed = [each for each in environ.get(name, "").split(",") if each and each != host]
            found[name] = ",".join([*listed, host])
    return found


def _change(name: str, value: str | bool | None) -> Change:
    match value:
        case str():
            return Set(name, value)
        case True:
            return GiveBack(name)
        case _:
            return Unset(name)


def _previous(name: str, environ: Mapping[str, str]) -> str | bool | None:
    """The entry of a variable in `BEFORE`: its value, True if saved in the shell, or None."""
    return True if name in _SECRET and name in environ else environ.get(name)


def sdk_config(bucket: str, prefix: str, role: str) -> str:
    """A configuration file for versions 2 and 3 of SageMaker's SDK.

    With a prefix, the SDK puts it before the keys in its default bucket.
    """
    escaped = prefix.replace("'", "''")
    below = f"\n        DefaultS3ObjectKeyPrefix: '{escaped}'" if prefix else ""
    return f"""\
SchemaVersion: '1.0'
SageMaker:
  PythonSDK:
    Modules:
      TelemetryOptOut: true
      Session:
        DefaultS3Bucket: '{bucket}'{below}
  TrainingJob:
    RoleArn: '{role}'
"""


def _before(environ: Mapping[str, str]) -> dict[str, str | bool | None]:
    try:
        known = json.loads(environ.get(BEFORE) or "{}")
    except ValueError:
        return {}
    return known if isinstance(known, dict) else {}


def _others(environ: Mapping[str, str]) -> list[str]:
    entries = environ.get("PYTHONPATH") or str(SITE)
    return [entry for entry in entries.split(os.pathsep) if entry != str(SITE)]


def _joined(*entries: str) -> str:
    return os.pathsep.join(entries)


_KEPT = "_trackside_"


def posix(changes: Iterable[Change]) -> str:
    """For bash, zsh, ksh and dash."""
    return "".join(f"{_posix(change)}\n" for change in changes)


def fish(changes: Iterable[Change]) -> str:
    return "".join(f"{_fish(change)}\n" for change in changes)


SHELLS: dict[str, Callable[[Iterable[Change]], str]] = {"posix": posix, "fish": fish}


def _posix(change: Change) -> str:
    match change:
        case Set(name, value):
            return f"export {name}={shlex.quote(value)}"
        case Unset(name):
            return f"unset {name}"
        case Keep(name):
            kept = _KEPT + name
            keep = f"unset {kept}; {kept}=${name}"
            # Under `set -a` every assigned variable would be exported.
            return f"case $- in *a*) set +a; {keep}; set -a;; *) {keep};; esac"
        case GiveBack(name):
            kept = _KEPT + name
            back = f'export {name}="${kept}"; unset {kept}'
            return f'if [ -n "${{{kept}+x}}" ]; then {back}; else unset {name}; fi'


def _fish(change: Change) -> str:
    match change:
        case Set(name, value):
            return f"set -gx {name} {_fish_quoted(value)}"
        case Unset(name):
            return f"set -e {name}"
        case Keep(name):
            return f"set -e {_KEPT}{name}; set -gu {_KEPT}{name} ${name}"
        case GiveBack(name):
            kept = _KEPT + name
            back = f"set -gx {name} ${kept}; set -e {kept}"
            return f"if set -q {kept}; {back}; else; set -e {name}; end"


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
