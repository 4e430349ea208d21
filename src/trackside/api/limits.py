"""How much one connection, one address and all of them together may use. Pure numbers.

`admission` counts connections, `http_protocol` limits each of them, `request_body` reads bodies.
docs/operations.md lists what clients see of each limit.
"""

import ipaddress
import math
import resource
from dataclasses import dataclass

from trackside.settings import Settings

MOST_DESCRIPTORS = 65_536
"""Used where the hard limit is higher, as in many containers: child processes inherit it, and some
programs still loop over every possible descriptor."""
_LOOPBACK_SHARE = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Infinite where there is none."""

    connections: float = 1024
    per_address: float = 256
    """Of another machine. Clients on this one share an address, and may use three quarters of
    all."""
    header_bytes: int = 32 << 10
    """The request line and all headers together; AWS's own clients send about 1 KiB."""
    header_lines: int = 100
    header_seconds: float = 20.0
    body_seconds: float = 30.0
    """In as much waiting for the client, `body_rate` bytes a second must arrive on average."""
    body_rate: int = 500
    answer_seconds: float = 300.0
    body_memory: float = 64 << 20

    @classmethod
    def of(cls, settings: Settings) -> "Limits":
        """0 in the settings is no limit."""
        return cls(
            connections=settings.connections or math.inf,
            per_address=settings.connections_per_address or math.inf,
            header_seconds=settings.header_seconds or math.inf,
            body_seconds=settings.body_seconds or math.inf,
            answer_seconds=settings.answer_seconds or math.inf,
            body_memory=(settings.body_memory_mb << 20) or math.inf,
        )

    def of_address(self, group: str) -> float:
        """How many connections a group of addresses may have, as `address_group` names it."""
        return self.connections * _LOOPBACK_SHARE if group == LOOPBACK else self.per_address


LOOPBACK = "loopback"


def address_group(host: str) -> str:
    """Those that belong to one machine: IPv6 gives each 2^64 addresses to choose from."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:  # a Unix socket has none
        return LOOPBACK
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None and not address.is_loopback:
            return str(ipaddress.IPv6Network((address, 64), strict=False))
        address = address.ipv4_mapped or address
    return LOOPBACK if address.is_loopback else str(address)


def raise_descriptor_limit() -> int:
    """How many descriptors this process may have from now on: what its hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        wanted = max(soft, MOST_DESCRIPTORS)
    else:
        wanted = max(soft, min(hard, MOST_DESCRIPTORS))
    if wanted != soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
