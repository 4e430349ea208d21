"""Which server this process speaks to, and as whom: what the environment says, else what
`trackside login` stored. Connects to nothing.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, field
from pathlib import Path
from urllib.parse import urlsplit

from trackside.errors import InvalidSetting
from trackside.files import damaged_files, durable
from trackside.files.permissions import make_folder
from trackside.quick_dataclass import dataclass
from trackside.records.layout import Home
from trackside.settings import EMBEDDED

DEFAULT_PROFILE = "default"

_URL = re.compile(r"https?://([^/:@\s?#]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Key:
    id: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    """Without a path or a slash at its end."""
    key: Key | None
    """None when none was given."""


def chosen_server(environ: Mapping[str, str], home: Path) -> Server | None:
    """None to run embedded. `InvalidSetting` for an address or a profile that is none."""
    given = environ.get("TRACKSIDE_URL", "")
    if given == EMBEDDED:
        return None
    known = read_profiles(home)
    name = environ.get("TRACKSIDE_PROFILE", "")
    if name and name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise InvalidSetting(
            f"TRACKSIDE_PROFILE = {name!r} is no profile. Known: {names}. "
            f"`trackside --profile {name} login URL` makes it."
        )
    profile = known.get(name or DEFAULT_PROFILE)
    if not given:
        if profile is None:
            return None
        return Server(profile.url, _given_key(environ) or profile.key)
    url = checked_url(given, "TRACKSIDE_URL")
    return Server(url, _key(environ, url, profile, home))


def checked_url(text: str, source: str) -> str:
    url = text.rstrip("/")
    if not _URL.fullmatch(url):
        raise InvalidSetting(
            f"{source} = {text!r} is no address of a server. Write it as http://HOST:PORT or "
            f"https://HOST; {EMBEDDED!r} is for no server."
        )
    return url


def read_profiles(home: Path) -> dict[str, Server]:
    path = Home(home).profiles
    try:
        records = durable.read_json(path)
        if records is None:
            return {}
        return {
            name: Server(record["url"], Key(**record["key"]) if record["key"] else None)
            for name, record in records.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidSetting(
            f"{str(path)!r} holds no profiles: {error!r}. Remove it, and `trackside login` again."
        ) from error


def write_profiles(home: Path, profiles: Mapping[str, Server]) -> None:
    """Only their owner can read them: there are secrets in it."""
    make_folder(home)
    records = {name: asdict(server) for name, server in profiles.items()}
    durable.write_json(Home(home).profiles, records)


def no_key(url: str) -> str:
    """What to do about a server without a key to it."""
    return (
        f"There is no access key for the server at {url}. Set TRACKSIDE_ACCESS_KEY_ID and "
        f"TRACKSIDE_SECRET_ACCESS_KEY, or `trackside login {url}`; `trackside keys create LABEL` "
        "on the server's machine makes a key."
    )


def own_key(home: Path, url: str) -> Key | None:
    """That of this machine's own server, if it is the one at this address."""
    folder = Home(home).server
    address = damaged_files.read_object(folder.address) or {}
    if _place(str(address.get("url", ""))) != _place(url):
        return None
    return damaged_files.read(Key, folder.own_key)


def _key(environ: Mapping[str, str], url: str, profile: Server | None, home: Path) -> Key | None:
    """The most particular first: AWS's variables may be meant for AWS."""
    stored = profile.key if profile is not None and profile.url == url else None
    return _given_key(environ) or stored or own_key(home, url) or _given_key(environ, "AWS")


def _given_key(environ: Mapping[str, str], prefix: str = "TRACKSIDE") -> Key | None:
    names = f"{prefix}_ACCESS_KEY_ID", f"{prefix}_SECRET_ACCESS_KEY"
    key, secret = (environ.get(name, "") for name in names)
    if bool(key) != bool(secret) and prefix == "TRACKSIDE":
        there, missing = names if key else reversed(names)
        raise InvalidSetting(f"{there} is set and {missing} is not. Set both, or neither.")
    return Key(key, secret) if key and secret else None


def _place(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    host = _LOOPBACK[0] if parts.hostname in _LOOPBACK else parts.hostname
    return parts.scheme, host, parts.port
