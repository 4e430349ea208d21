"""Whether a request comes from this machine, and on Linux from which user of it."""

import ipaddress
import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
_MOST_NAME = 64
_TABLES = ("tcp", "tcp6")
_NETWORK = Path("/proc/net")

Address = tuple[str, int]


def is_local(headers: Mapping[str, str], peer: str) -> bool:
    """Whether the client is on this machine, not behind a proxy on it: a proxy passes on the Host
    header of its client, as signatures would be wrong otherwise."""
    is_forwarded = any(header in headers for header in _FORWARDED)
    return is_loopback(peer) and has_loopback_host(headers) and not is_forwarded


def signs_of_proxy(headers: Mapping[str, str]) -> list[str]:
    """Names of headers that a proxy adds."""
    names = {name.lower()[:_MOST_NAME] for name in headers}
    return sorted(name for name in names if name in _FORWARDED or name.startswith("x-forwarded-"))


def has_loopback_host(headers: Mapping[str, str]) -> bool:
    """A page of another site that has pointed its own name at this machine has that name here."""
    host = headers.get("host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return is_loopback(name.strip("[]"))


def is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def is_of_user(peer: Address, own: Address, uid: int) -> bool:
    """Whether the client's end of a connection on this machine belongs to this user, or to root.

    Elsewhere than on Linux that cannot be known, and any user counts.
    """
    if not sys.platform.startswith("linux"):
        return True
    return uid_of(peer, own) in (uid, 0)


def uid_of(peer: Address, own: Address, network: Path = _NETWORK) -> int | None:
    """Of the socket that is bound to `peer` and connected to `own`; None when there is none."""
    wanted = _plain(peer), _plain(own)
    for table in _TABLES:
        try:
            text = (network / table).read_text("ascii", "replace")
        except OSError:
            continue
        for ends, uid in _rows(text, f":{peer[1]:04X} "):
            if ends == wanted:
                return uid
    return None


def _rows(text: str, part: str) -> Iterator[tuple[tuple[Address, Address], int]]:
    """Lines that contain `part`, below the heading: number, local, remote, state, queues, timer,
    retransmissions, uid."""
    for line in text.splitlines()[1:]:
        if part not in line:
            continue
        fields = line.split()
        try:
            yield (_parsed(fields[1]), _parsed(fields[2])), int(fields[7])
        except (IndexError, ValueError):
            continue


def _parsed(text: str) -> Address:
    """Words of the machine's byte order in hexadecimal digits, then the port."""
    digits, _, port = text.partition(":")
    words = struct.unpack(f">{len(digits) // 8}I", bytes.fromhex(digits))
    packed = struct.pack(f"={len(words)}I", *words)
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    return _plain((socket.inet_ntop(family, packed), int(port, 16)))


def _plain(address: Address) -> Address:
    """One form for the ways to write an address."""
    try:
        found = ipaddress.ip_address(address[0].partition("%")[0])
    except ValueError:
        return address[0], address[1]
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found), address[1]
