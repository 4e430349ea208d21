"""Credentials of image registries, as `docker login` and `podman login` have stored them.

They go to the engine with a request, and never to a file or a log.
"""

import base64
import binascii
import json
import logging
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trackside.containers.image_names import DOCKER_HUB
from trackside.files.damaged_files import read_object

logger = logging.getLogger(__name__)

HELPER_SECONDS = 30.0
_HUB_KEY = "https://index.docker.io/v1/"
_HUB_HOSTS = (DOCKER_HUB, "index.docker.io", "registry-1.docker.io")
_TOKEN_USER = "<token>"

Login = dict[str, str]


def header_for(registry: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The header of a pull; empty without credentials: many images need none."""
    login = find_login(registry, environ)
    return {} if login is None else {"X-Registry-Auth": _encoded(login)}


def header_for_all(environ: Mapping[str, str]) -> dict[str, str]:
    """The header of a build, whose base images may come from any registry."""
    names = {host for config in _configs(environ) for host in _hosts(config)}
    logins = {
        _HUB_KEY if host == DOCKER_HUB else host: login
        for host in sorted(names)
        if (login := find_login(host, environ)) is not None
    }
    return {"X-Registry-Config": _encoded(logins)} if logins else {}


def find_login(registry: str, environ: Mapping[str, str]) -> Login | None:
    for config in _configs(environ):
        helpers = _section(config, "credHelpers")
        if helper := helpers.get(registry) or config.get("credsStore"):
            login = _from_helper(str(helper), registry, environ)
            if login is not None:
                return login
        for key, entry in _section(config, "auths").items():
            if _host(key) == registry and isinstance(entry, Mapping):
                login = _from_entry(entry, registry)
                if login is not None:
                    return login
    return None


def _configs(environ: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    home = environ.get("HOME", "/")
    places = [
        Path(environ.get("DOCKER_CONFIG") or f"{home}/.docker", "config.json"),
        Path(environ.get("REGISTRY_AUTH_FILE") or _podman_file(environ)),
    ]
    for path in places:
        try:
            config = read_object(path)
        except OSError as error:  # of another user, as after `sudo docker login`
            logger.warning("%s cannot be read: %s", path, error.strerror)
            continue
        if config:
            yield config


def _podman_file(environ: Mapping[str, str]) -> str:
    return f"{environ.get('XDG_RUNTIME_DIR', '/run')}/containers/auth.json"


def _hosts(config: Mapping[str, Any]) -> set[str]:
    return {_host(key) for name in ("auths", "credHelpers") for key in _section(config, name)}


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = config.get(name)
    return found if isinstance(found, Mapping) else {}


def _host(key: str) -> str:
    """`https://index.docker.io/v1/` and `ghcr.io` are both keys."""
    host = key.partition("://")[2] or key
    host = host.partition("/")[0]
    return DOCKER_HUB if host in _HUB_HOSTS else host


def _from_entry(entry: Mapping[str, Any], registry: str) -> Login | None:
    if token := entry.get("identitytoken"):
        return _login(registry, identitytoken=str(token))
    user, password = entry.get("username"), entry.get("password")
    if packed := entry.get("auth"):
        try:
            user, _, password = base64.b64decode(str(packed), validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            logger.warning("the credentials of %s are damaged: log in again", registry)
            return None
    if not user:
        return None
    return _login(registry, username=str(user), password=str(password or "").strip("\0"))


def _from_helper(helper: str, registry: str, environ: Mapping[str, str]) -> Login | None:
    """None if the helper has none; a helper that is not installed is no reason to fail: the image
    may be public."""
    program = f"docker-credential-{helper}"
    path = shutil.which(program, path=environ.get("PATH"))
    if path is None:
        logger.warning("Docker's configuration names %s, which is not installed", program)
        return None
    server = _HUB_KEY if registry == DOCKER_HUB else registry
    try:
        done = subprocess.run(
            [path, "get"],
            input=server.encode(),
            capture_output=True,
            timeout=HELPER_SECONDS,
            env=dict(environ),
            check=False,
        )
        answer = json.loads(done.stdout) if done.returncode == 0 else {}
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        logger.warning("%s failed: %s", program, type(error).__name__)
        return None
    user, secret = answer.get("Username"), answer.get("Secret")
    if not secret:
        return None
    if user == _TOKEN_USER:
        return _login(registry, identitytoken=str(secret))
    return _login(registry, username=str(user), password=str(secret))


def _login(registry: str, **values: str) -> Login:
    address = _HUB_KEY if registry == DOCKER_HUB else registry
    return {**values, "serveraddress": address}


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()
