"""Which addresses a server may call for a job: none on the server's machine or in a private
network.

A submitter names the address and the server calls it. Addresses with a special meaning inside the
server's network are refused, at submission and again after name resolution.
"""

import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

from trackside.quick_dataclass import dataclass
from trackside.rules.action.action_errors import Refused

Address = IPv4Address | IPv6Address

_METADATA = frozenset(
    map(ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"))
)
"""Cloud metadata addresses that are not link-local."""
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""The NAT64 prefix: the last four bytes are the actual IPv4 address."""
_WAY_OUT = "Name another, or have the operator allow it in TRACKSIDE_ALLOW_CALLBACKS."


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Addresses that the operator allows although they would be refused."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def allowed_by(cls, text: str) -> "Callbacks":
        """TRACKSIDE_ALLOW_CALLBACKS: names, addresses and networks, separated by commas."""
        hosts, networks = set(), []
        for part in filter(None, map(str.strip, text.split(","))):
            try:
                networks.append(ip_network(part, strict=False))
            except ValueError:
                hosts.add(part.lower())
        return cls(frozenset(hosts), tuple(networks))

    def problem(self, url: str) -> str:
        """What is wrong with an address as written; "" if only name resolution can tell."""
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").rstrip(".")
        except ValueError:
            return f"The url {url!r} cannot be read."
        if parts.scheme not in ("http", "https") or not host:
            return f"The url {url!r} is not an http:// or https:// address."
        if host in self.hosts:
            return ""
        is_named_so = host == "localhost" or host.endswith(".localhost")
        address = _literal(host)
        if is_named_so or (address is not None and self._is_refused(address)):
            return f"The url {url!r} leads to the server's own machine or network. {_WAY_OUT}"
        return ""

    def check(self, host: str) -> None:
        """`Refused` if the name resolves to a forbidden address, `OSError` if to none."""
        list(self._found(host, None))

    def connect(
        self, place: tuple[str, int], timeout: float | None = None, *_: Any
    ) -> socket.socket:
        """Like `socket.create_connection`, to the address that was checked: a name resolved a
        second time may yield another.
        """
        failure: OSError | None = None
        for family, kind, protocol, address in self._found(*place):
            connection = socket.socket(family, kind, protocol)
            try:
                connection.settimeout(timeout)
                connection.connect(address)
            except OSError as error:
                connection.close()
                failure = error
            else:
                return connection
        raise failure or OSError(f"{place[0]!r} has no address")

    def _found(self, host: str, port: int | None) -> Iterator[tuple[Any, Any, int, Any]]:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        if host.lower().rstrip(".") not in self.hosts:
            for *_, address in found:
                if self._is_refused(ip_address(address[0])):
                    raise Refused(
                        f"{host!r} is {address[0]}, an address of the server's own machine or "
                        f"network. {_WAY_OUT}"
                    )
        return ((family, kind, protocol, address) for family, kind, protocol, _, address in found)

    def _is_refused(self, address: Address) -> bool:
        meant = _meant(address)
        if any(each in network for network in self.networks for each in (address, meant)):
            return False
        return not meant.is_global or meant.is_multicast or meant in _METADATA


def _literal(host: str) -> Address | None:
    """Every spelling that the system accepts: `127.1` and `0x7f000001` are loopback."""
    try:
        return ip_address(host)
    except ValueError:
        pass
    try:
        return ip_address(socket.inet_aton(host))
    except OSError:
        return None


def _meant(address: Address) -> Address:
    """An IPv4 address may be embedded in an IPv6 one."""
    if isinstance(address, IPv4Address):
        return address
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
