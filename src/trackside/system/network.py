"""Which network interface of this machine has an address."""

import fcntl
import socket
import struct

_SIOCGIFADDR = 0x8915
_NAME_BYTES = 15


def interface_of(address: str) -> str:
    """Empty when none has it, and where that cannot be found out: Linux, IPv4."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:_NAME_BYTES])
            try:
                found = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:  # it has no address, or this is not Linux
                continue
            if socket.inet_ntoa(found[20:24]) == address:
                return name
    return ""
