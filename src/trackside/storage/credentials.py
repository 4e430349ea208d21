"""Credentials and endpoint of S3: the usual AWS variables and profile files, and TRACKSIDE_S3.

The only storage module that reads the environment. Connects to nothing.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trackside.errors import InvalidSetting
from trackside.profiles import Server, chosen_server, no_key
from trackside.quick_dataclass import dataclass
from trackside.texts.storage_schemes import S3

if TYPE_CHECKING:
    from configparser import ConfigParser

ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "S3_ENDPOINT_URL")
"""In this order; the first that is not empty counts."""

_ELSEWHERE = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""Variables with which the object-store library fetches credentials itself."""

_NEEDS_AWS_CLI = ("sso_session", "sso_start_url", "role_arn", "credential_process")

# The object-store client ends the process on an invalid port.
_ADDRESS = re.compile(r"https?://([^/:\s]+|\[[^\]]+\])(:\d{1,5})?(/.*)?")


@dataclass(frozen=True, slots=True)
class S3Access:
    """How to reach S3. Hashable, so that equal ones share a client."""

    endpoint: str | None
    """None is AWS itself."""
    region: str
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    source: Literal["keys", "surroundings", "instance", "none"] = "keys"
    """Source of the credentials: here; behind variables of ECS or EKS; on EC2, if this is one."""
    advice: str = ""
    """Why there are no keys and what to do about it; empty when there are."""


_known: ContextVar[dict[Path | None, S3Access | None] | None] = ContextVar("known", default=None)
"""What was looked up in `looked_up_once`, by home."""


def s3_access(
    environ: Mapping[str, str] | None = None, home: Path | None = None
) -> S3Access | None:
    """None when `s3://` means the embedded buckets: no endpoint is set, nor AWS requested.

    With a home, its profiles may name a server: then it is that one's S3.
    """
    known = _known.get() if environ is None else None
    if known is None:
        return _s3_access(os.environ if environ is None else environ, home)
    if home not in known:
        known[home] = _s3_access(os.environ, home)
    return known[home]


@contextmanager
def looked_up_once() -> Iterator[None]:
    """In the block, and its thread, settings of this process are read once. For who reads many
    files in a moment."""
    token = _known.set({})
    try:
        yield
    finally:
        _known.reset(token)


def _s3_access(environ: Mapping[str, str], home: Path | None) -> S3Access | None:
    choice = environ.get("TRACKSIDE_S3", "")
    if choice not in ("", "aws", "embedded"):
        raise InvalidSetting(
            f"TRACKSIDE_S3 = {choice!r} is not known. Use 'aws' for Amazon S3, 'embedded' for the "
            "buckets under TRACKSIDE_HOME, or unset it to follow the configured endpoint."
        )
    if choice == "embedded":
        return None
    server = chosen_server(environ, home) if home is not None and choice != "aws" else None
    if server is not None:
        return _access_to(server, environ)
    profile = _read_profile(environ)
    endpoint = _endpoint(environ, profile)
    if endpoint is None and choice != "aws":
        return None
    return _access(environ, profile, endpoint)


def surroundings() -> Mapping[str, str]:
    """The variables in which EKS, ECS and EC2 name their providers of credentials."""
    return os.environ


def store_access(environ: Mapping[str, str]) -> S3Access:
    """To the store that a server forwards requests to: AWS if no endpoint is set."""
    access = s3_access({**environ, "TRACKSIDE_S3": environ.get("TRACKSIDE_S3") or "aws"})
    if access is None:
        raise InvalidSetting(
            "TRACKSIDE_S3 = 'embedded' and a store that requests are passed on to exclude each "
            "other. Unset one of them."
        )
    return access


def keep_to_embedded_buckets(*own_urls: str) -> None:
    """For a server that serves S3 itself: `s3://` must not lead it, or its jobs, back to it.

    Another store that the environment names stays the meaning of `s3://`.
    """
    named = next((url for name in ENDPOINT_VARIABLES if (url := os.environ.get(name))), "")
    is_own = not named or named.rstrip("/") in own_urls
    if not os.environ.get("TRACKSIDE_S3") and is_own:
        os.environ["TRACKSIDE_S3"] = "embedded"


def _access_to(server: Server, environ: Mapping[str, str]) -> S3Access:
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    if server.key is None:
        return S3Access(server.url, region, source="none", advice=no_key(server.url))
    return S3Access(server.url, region, server.key.id, server.key.secret)


def keep_to_configured_store(*own_urls: str) -> None:
    """For a server with a store behind it: `s3://` is that store, for the server and its jobs.

    The one that the environment names, or AWS itself.
    """
    endpoint = store_access(os.environ).endpoint
    if endpoint in own_urls:
        raise InvalidSetting(
            f"The S3 endpoint {endpoint!r} is this server itself. Start it in a shell without what "
            "`trackside env` sets, and with AWS_ENDPOINT_URL_S3 for the store behind it."
        )
    os.environ["TRACKSIDE_S3"] = "aws"  # which means the endpoint, where there is one


@dataclass(frozen=True, slots=True)
class _Profile:
    name: str
    is_named: bool
    """The user chose it, rather than getting the default one."""
    values: Mapping[str, str]
    services: Mapping[str, str]
    """The S3 part of its `services` section."""


def _read_profile(environ: Mapping[str, str]) -> _Profile:
    config = _read_ini(environ, "AWS_CONFIG_FILE", "~/.aws/config")
    credentials = _read_ini(environ, "AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
    chosen = environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE") or ""
    name = chosen or "default"
    values: dict[str, str] = {}
    for file, section in ((config, name), (config, f"profile {name}"), (credentials, name)):
        if file.has_section(section):
            values |= dict(file[section])
    services = f"services {values.get('services', '')}"
    lines = config.get(services, "s3", fallback="").splitlines()
    pairs = (line.partition("=") for line in lines)
    return _Profile(
        name, bool(chosen), values, {key.strip(): text.strip() for key, _, text in pairs}
    )


def _read_ini(environ: Mapping[str, str], variable: str, default: str) -> "ConfigParser":
    given = environ.get(variable) or default
    home = environ.get("HOME")
    path = Path(home, given[2:]) if home and given.startswith("~/") else Path(given).expanduser()
    try:
        found = os.stat(path)
    except OSError:
        return _parsed(path)
    return _parsed(path, (found.st_ino, found.st_size, found.st_mtime_ns))


@lru_cache(maxsize=8)
def _parsed(path: Path, version: tuple[int, ...] = ()) -> "ConfigParser":
    """Never changed by who uses it. Cached, because each location of a job asks for it."""
    # No section has this name: AWS's [default] is an ordinary one, not inherited by others.
    from configparser import ConfigParser, Error  # not for the embedded store

    parser = ConfigParser(interpolation=None, default_section="\0", strict=False)
    try:
        parser.read(path, encoding="utf-8")
    except (Error, UnicodeDecodeError) as error:
        raise InvalidSetting(
            f"{str(path)!r} is not a readable AWS profile file: {' '.join(str(error).split())}"
        ) from error
    return parser


def _endpoint(environ: Mapping[str, str], profile: _Profile) -> str | None:
    for variable in ENDPOINT_VARIABLES:
        if url := environ.get(variable):
            return _checked_endpoint(url, variable)
    if environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true":
        return None
    for values in (profile.services, profile.values):
        if url := values.get("endpoint_url"):
            return _checked_endpoint(url, f"endpoint_url of profile {profile.name!r}")
    return None


def _checked_endpoint(url: str, source: str) -> str:
    if not _ADDRESS.fullmatch(url):
        raise InvalidSetting(
            f"{source} = {url!r} is not a web address. Write it as http://HOST:PORT or https://HOST."
        )
    return url.rstrip("/")


def _access(environ: Mapping[str, str], profile: _Profile, endpoint: str | None) -> S3Access:
    region = (
        environ.get("AWS_REGION")
        or environ.get("AWS_DEFAULT_REGION")
        or profile.values.get("region")
        or "us-east-1"
    )
    # As in AWS's own tools: a profile chosen by name does not override keys in the environment, and
    # the keys of a profile with a role are not the wanted identity.
    lowered = {name.lower(): value for name, value in environ.items()}
    for values in (lowered, {} if profile.values.get("role_arn") else profile.values):
        key, secret = values.get("aws_access_key_id"), values.get("aws_secret_access_key")
        if key and secret:
            token = values.get("aws_session_token") or None
            return S3Access(endpoint, region, key, secret, token)
    return S3Access(endpoint, region, source=_source(environ, endpoint), advice=_advice(profile))


def _source(
    environ: Mapping[str, str], endpoint: str | None
) -> Literal["surroundings", "instance", "none"]:
    if any(environ.get(variable) for variable in _ELSEWHERE):
        return "surroundings"
    disabled = environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
    return "none" if endpoint is not None or disabled else "instance"


def _advice(profile: _Profile) -> str:
    for setting in _NEEDS_AWS_CLI:
        if profile.values.get(setting):
            return (
                f"Profile {profile.name!r} gets its keys through {setting!r}, which Trackside "
                "leaves to the AWS CLI. Run "
                f'`eval "$(aws configure export-credentials --profile {profile.name} '
                '--format env)"` first.'
            )
    if profile.is_named:
        return (
            f"No credentials: profile {profile.name!r} has no aws_access_key_id and "
            "aws_secret_access_key. Check AWS_PROFILE and ~/.aws/credentials."
        )
    return S3.missing_credentials
