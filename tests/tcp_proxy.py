"""Stands between a client and a server, and can stop passing anything on: a half-dead network."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class TcpProxy:
    """Listens while in its `with` block, on loopback unless told otherwise."""

    def __init__(self, upstream_port: int, address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self._upstream = ("127.0.0.1", upstream_port)
        self._passing = threading.Event()
        self._passing.set()
        self._listener = socket.create_server(address)
        self._sockets: list[socket.socket] = []
        self.num_connections = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def hang(self) -> None:
        """Connections stay open and are accepted; no byte goes through any more."""
        self._passing.clear()

    def resume(self) -> None:
        self._passing.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._passing.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._thread.join(60)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.num_connections += 1
                self._sockets.append(client)
                try:
                    server = socket.create_connection(self._upstream)
                except OSError:
                    client.close()
                    continue
                self._sockets.append(server)
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._passing.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
