"""A port of loopback that is a test's own while nobody listens there."""

import socket


def kept_port() -> socket.socket:
    """Bound, and not listening: whoever connects is refused, and the kernel gives the port to
    nobody else. A server that may reuse addresses listens there as often as it likes."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


def port_of(holder: socket.socket) -> int:
    return int(holder.getsockname()[1])
