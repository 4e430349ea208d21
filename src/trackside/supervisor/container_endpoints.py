"""Servers that listen on this machine, as a container reaches them.

A container has a loopback interface of its own. So an endpoint at 127.0.0.1, such as that of
`trackside server`, is given to it with a name for this machine instead.
"""

import ipaddress
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from trackside.supervisor.container_request import HOST_NAME

_PROBE_SECONDS = 0.5
_ENDPOINTS = ("AWS_ENDPOINT_URL", "S3_ENDPOINT_URL")
"""The first also with the name of a service after it."""


def loopback_endpoints(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables and URLs."""
    named = {name: url for name, url in environ.items() if name.startswith(_ENDPOINTS)}
    return {name: url for name, url in named.items() if _is_loopback(urlsplit(url).hostname or "")}


def seen_from_inside(environ: Mapping[str, str]) -> dict[str, str]:
    """With this machine's name for containers instead of loopback, in every endpoint."""
    changed = {
        name: url.replace(urlsplit(url).netloc, f"{HOST_NAME}:{_port(url)}", 1)
        for name, url in loopback_endpoints(environ).items()
    }
    return {**environ, **changed}


def unreachable_endpoint(
    environ: Mapping[str, str], *, has_network: bool = True, gateway: str = ""
) -> str:
    """A sentence for the job's log about an endpoint that its container cannot reach; else empty.

    `gateway` is this machine's address on the container's network, if it is known.
    """
    for url in loopback_endpoints(environ).values():
        if not has_network:
            return _sentence(url, "the engine gives it no network")
        if gateway and _is_address_of_ours(gateway) and not _accepts(gateway, _port(url)):
            return _sentence(url, f"nothing listens at {gateway}:{_port(url)}")
    return ""


def _sentence(url: str, why: str) -> str:
    return (
        f"AWS clients in this container do not reach {url}: {why}. Channels, checkpoints and "
        "results work; for the clients see 'AWS clients in a container' in docs/containers.md."
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _port(url: str) -> int:
    split = urlsplit(url)
    return split.port or (443 if split.scheme == "https" else 80)


def _is_address_of_ours(address: str) -> bool:
    """Not if the engine runs in a virtual machine or without root: then it forwards to loopback."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as trial:
        try:
            trial.bind((address, 0))
        except OSError:
            return False
    return True


def _accepts(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), _PROBE_SECONDS).close()
    except OSError:
        return False
    return True
