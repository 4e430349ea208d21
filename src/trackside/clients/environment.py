"""What AWS clients need in their environment to find a server of ours, and how it is taken back.

Only computed here: `cli/env` prints it for a shell, `cli/notebook` sets it in a kernel.
"""

import json
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

SITE = Path(__file__).parent / "site"
"""On PYTHONPATH it makes clients written in Python ask the server where they would ask Amazon."""
BEFORE = "_TRACKSIDE_BEFORE"
"""The variable with what the changed ones were, for `restored`. All programs find it, so of the
user's own keys it says only that there were some: the shell itself keeps them."""

_FOREIGN = ("AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE")
"""They belong to other keys than ours."""
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
    """Remember its present value where no program started from here finds it."""

    name: str


@dataclass(frozen=True, slots=True)
class GiveBack:
    """The value that was kept; it is unset where none was, as in a shell started from the first."""

    name: str


Change = Set | Unset | Keep | GiveBack


@dataclass(frozen=True, slots=True)
class Access:
    """A server, and who one is there."""

    url: str
    key_id: str
    secret: str = field(repr=False)
    region: str
    sdk_config: Path
    """What SageMaker's SDKs are to read."""


def changes(access: Access, environ: Mapping[str, str]) -> list[Change]:
    """All that leads an AWS client to the server and away from Amazon; with the way back."""
    values = _values(access, environ)
    known = _before(environ)
    before = {name: _previous(name, environ) for name in values} | known
    kept = [name for name, value in before.items() if value is True and name not in known]
    values[BEFORE] = json.dumps(before, sort_keys=True)
    return [*map(Keep, kept), *(_change(name, value) for name, value in values.items())]


def restored(environ: Mapping[str, str]) -> list[Change]:
    """What undoes `changes` there; nothing where they were never made."""
    before = _before(environ)
    if not before:
        return []
    # Entries that were added since are the user's.
    before["PYTHONPATH"] = _joined(*_others(environ)) or None
    return [*(_change(name, value) for name, value in before.items()), Unset(BEFORE)]


def _values(access: Access, environ: Mapping[str, str]) -> dict[str, str | None]:
    """By variable; None unsets it."""
    found: dict[str, str | None] = {
        **dict.fromkeys(name for name in environ if name.startswith(f"{_ENDPOINT}_")),
        **dict.fromkeys(name for name in _FOREIGN if name in environ),
        _ENDPOINT: access.url,
        "AWS_ACCESS_KEY_ID": access.key_id,
        "AWS_SECRET_ACCESS_KEY": access.secret,
        "AWS_REGION": access.region,
        "AWS_DEFAULT_REGION": access.region,
        # Each would otherwise make clients pass over the endpoint, if the user's AWS_CONFIG_FILE
        # says so, or ask a host that is only on machines of Amazon's.
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
    """What `BEFORE` says of a variable: its value, that it is kept, or that there was none."""
    return True if name in _SECRET and name in environ else environ.get(name)


def sdk_config(bucket: str, prefix: str, role: str) -> str:
    """A file in the form that versions 2 and 3 of SageMaker's SDK read.

    What they put into their default bucket has the prefix before it, where there is one.
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
            # Under `set -a` all that is assigned would be exported.
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
