"""A small client of the Docker Engine API, over a Unix socket.

One HTTP/1.0 request per connection: so a response ends where its connection ends. Runs inside the
sandbox's init, so it imports nothing slow: http.client takes five times as long to load as the
socket alone, and the package `docker` fourteen times.
"""

import json
import os
import socket
import time

TYPE_CHECKING = False  # importing typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from typing import Any, BinaryIO

ANSWER_SECONDS = 60.0
"""Timeout of one call. Creating or starting a container is slow on a busy machine."""
_UNIX = "unix://"
_PIECE_BYTES = 1 << 16
_NO_CONTENT = (204, 304)
_NUM_REMOVALS, _REMOVAL_SECONDS = 8, 0.05
_UNESCAPED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")


class EngineError(Exception):
    """The message is one sentence, or two: what is wrong, and what to type."""


class EngineUnreachable(EngineError):
    """No response. The engine may be restarting, while the containers stay alive."""


class EngineRefused(EngineError):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def find_engine(environ: "Mapping[str, str]") -> str:
    """The address of this user's engine: DOCKER_HOST, the one that `docker context use` chose, or
    the first socket that exists."""
    if named := environ.get("DOCKER_HOST") or _of_context(environ):
        return named
    home, runtime = environ.get("HOME", "/"), environ.get("XDG_RUNTIME_DIR", "/run")
    places = (
        "/var/run/docker.sock",
        f"{runtime}/docker.sock",  # without root
        f"{home}/.docker/run/docker.sock",  # Docker Desktop
        f"{runtime}/podman/podman.sock",
        "/run/podman/podman.sock",
    )
    return _UNIX + next((place for place in places if os.path.exists(place)), places[0])


def _of_context(environ: "Mapping[str, str]") -> str:
    """Empty without one, or if it cannot be read."""
    folder = environ.get("DOCKER_CONFIG") or f"{environ.get('HOME', '/')}/.docker"
    try:
        name = (
            environ.get("DOCKER_CONTEXT") or _read_json(f"{folder}/config.json")["currentContext"]
        )
        if name == "default":
            return ""
        from hashlib import sha256  # slow to import, and most users have no context

        kept = f"{folder}/contexts/meta/{sha256(name.encode()).hexdigest()}/meta.json"
        return str(_read_json(kept)["Endpoints"]["docker"]["Host"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def _read_json(path: str) -> "Any":
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Engine:
    """Keeps no connection and no state: the engine may be restarted between two calls."""

    def __init__(self, address: str) -> None:
        self.address = address

    def call(
        self,
        method: str,
        path: str,
        query: "Mapping[str, object] | None" = None,
        body: object = None,
    ) -> "Any":
        """The response's JSON; None if it has none."""
        connection = self.send(method, path, query, body)
        try:
            pieces = list(iter(lambda: connection.recv(_PIECE_BYTES), b""))
        except OSError as error:
            raise EngineUnreachable(self._silence(error)) from error
        finally:
            connection.close()
        return self._read(b"".join(pieces), has_body=method != "HEAD")

    def send(
        self,
        method: str,
        path: str,
        query: "Mapping[str, object] | None" = None,
        body: object = None,
    ) -> socket.socket:
        """A connection on which the response will arrive; the engine closes it at the end."""
        data = b"" if body is None else json.dumps(body).encode()
        head = _head(method, path, query, {"Content-Type": "application/json"}, len(data))
        connection = self._connect()
        try:
            connection.sendall(head + data)
        except OSError as error:
            connection.close()
            raise EngineUnreachable(self._silence(error)) from error
        return connection

    def stream(
        self,
        path: str,
        query: "Mapping[str, object]",
        headers: "Mapping[str, str]",
        archive: "BinaryIO | None" = None,
    ) -> "Generator[Any, None, None]":
        """POST, and the response's JSON lines as they arrive, however long that takes. `archive` is
        a tar file to send.

        Closing the iterator closes the connection, and so ends what the engine does.
        """
        size = 0 if archive is None else os.fstat(archive.fileno()).st_size
        connection = self._connect()
        try:
            connection.settimeout(None)
            try:
                connection.sendall(_head("POST", path, query, headers, size))
                if archive is not None:
                    connection.sendfile(archive)
            except (BrokenPipeError, ConnectionResetError):
                pass  # rejected before all of it was read: the response says why
            with connection.makefile("rb") as answer:
                yield from self._read_lines(answer)
        except OSError as error:
            # An engine that closes with some of the archive unread has sent its whole response.
            if archive is None or not isinstance(error, ConnectionResetError):
                raise EngineUnreachable(self._silence(error)) from error
        finally:
            connection.close()

    def _read_lines(self, answer: "BinaryIO") -> "Generator[Any, None, None]":
        words = answer.readline().split(b" ", 2)
        if len(words) < 2 or not words[1].isdigit():
            raise EngineUnreachable(self._broken_off)
        while answer.readline().strip():
            pass  # headers
        if int(words[1]) >= 400:
            raise EngineRefused(int(words[1]), _message(answer.read()))
        for line in answer:
            try:
                yield json.loads(line)
            except ValueError as error:
                raise EngineUnreachable(self._broken_off) from error

    def _connect(self) -> socket.socket:
        path = self._socket_path()
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(ANSWER_SECONDS)
        try:
            connection.connect(path)
        except OSError as error:
            connection.close()
            raise EngineUnreachable(self._silence(error)) from error
        return connection

    def image(self, name: str) -> "Any":
        try:
            return self.call("GET", f"/images/{name}/json")
        except EngineRefused as error:
            if error.status != 404:
                raise
            raise EngineRefused(
                404,
                f"There is no image {name!r} on this machine. Get it by `docker pull {name}`, or "
                f"make it by `docker build -t {name} .`",
            ) from error

    def find(self, label: str) -> str | None:
        """The container with this label, running or not."""
        filters = json.dumps({"label": [label]})
        found = self.call("GET", "/containers/json", {"all": 1, "filters": filters})
        return found[0]["Id"] if found else None

    def inspect(self, container: str) -> "Any":
        """None when there is no such container."""
        return _unless_gone(lambda: self.call("GET", f"/containers/{container}/json"))

    def kill(self, container: str, number: int) -> None:
        """Signal the container's first process. Success if it has ended or does not exist."""
        _unless_gone(
            lambda: self.call("POST", f"/containers/{container}/kill", {"signal": number}), 409
        )

    def remove(self, container: str) -> None:
        """Killed if it runs, with its anonymous volumes. Success if it is already being removed."""
        _unless_gone(
            lambda: self.call("DELETE", f"/containers/{container}", {"force": 1, "v": 1}), 409
        )

    def has_file(self, container: str, path: str) -> bool:
        try:
            self.call("HEAD", f"/containers/{container}/archive", {"path": path})
        except EngineRefused as error:
            return error.status != 404
        return True

    def make_network(
        self, name: str, labels: "Mapping[str, str]", *, is_internal: bool = False
    ) -> None:
        """A bridge on which containers find each other by name, unless one exists.

        Engines accept several networks of one name, and would put each host on another: so callers
        that may run at the same time hold a lock.
        """
        if not self._networks(name):
            body = {"Name": name, "Labels": dict(labels), "Internal": is_internal}
            self.call("POST", "/networks/create", body=body)

    def has_network(self, name: str) -> bool:
        return bool(self._networks(name))

    def gateway(self, network: str) -> str:
        """This machine's address on it; empty if the engine does not say."""
        found = self.call("GET", f"/networks/{network}")
        configs = (found.get("IPAM") or {}).get("Config") or []
        return next((str(each["Gateway"]) for each in configs if each.get("Gateway")), "")

    def remove_network(self, name: str) -> None:
        """Unless a container is still on it.

        Two removals at the same time may both be refused: so an empty network is tried again.
        """
        for attempt in range(_NUM_REMOVALS):
            try:
                self.call("DELETE", f"/networks/{name}")
                return
            except EngineRefused as error:
                if error.status == 404:
                    return
                found = _unless_gone(lambda: self.call("GET", f"/networks/{name}"))
                if found is None or found.get("Containers"):
                    return
                if attempt == _NUM_REMOVALS - 1:
                    raise
            time.sleep(_REMOVAL_SECONDS * (attempt + 1))

    def _networks(self, name: str) -> list[str]:
        filters = json.dumps({"name": [name]})  # the filter also matches longer names
        found = self.call("GET", "/networks", {"filters": filters})
        return sorted(each["Id"] for each in found if each["Name"] == name)

    def _socket_path(self) -> str:
        if not self.address.startswith(_UNIX):
            raise EngineUnreachable(
                f"The Docker engine {self.address!r} is not on this machine, whose folders its "
                "containers are to see. Let DOCKER_HOST begin with unix://, or unset it."
            )
        return self.address.removeprefix(_UNIX)

    def _silence(self, error: OSError) -> str:
        if isinstance(error, PermissionError):
            return (
                f"You may not use the Docker engine at {self.address}. Become a member of its "
                "group by `sudo usermod -aG docker $USER`, and log in again."
            )
        why = error.strerror or "it does not answer"
        return (
            f"No Docker engine at {self.address}: {why}. Start one by `sudo systemctl start docker`"
            " (`sudo apt install docker.io` brings it; for Podman, `systemctl --user start "
            "podman.socket`), or name its socket by DOCKER_HOST. Jobs without an image need none."
        )

    def _read(self, answer: bytes, *, has_body: bool) -> "Any":
        """A response may be cut off anywhere: that must not look like `nothing found`."""
        head, end, body = answer.partition(b"\r\n\r\n")
        words = head.split(b" ", 2)
        if not end or len(words) < 2 or not words[1].isdigit():
            raise EngineUnreachable(self._broken_off)
        status = int(words[1])
        if status >= 400:
            raise EngineRefused(status, _message(body))
        if status in _NO_CONTENT or not has_body:
            return None
        try:
            return json.loads(body)
        except ValueError as error:
            raise EngineUnreachable(self._broken_off) from error

    @property
    def _broken_off(self) -> str:
        return f"The Docker engine at {self.address} broke off its answer."


def _head(
    method: str,
    path: str,
    query: "Mapping[str, object] | None",
    headers: "Mapping[str, str]",
    size: int,
) -> bytes:
    lines = [f"{method} {_target(path, query)} HTTP/1.0", "Host: docker"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, f"Content-Length: {size}", "", ""]).encode()


def _target(path: str, query: "Mapping[str, object] | None") -> str:
    words = "&".join(f"{key}={_escaped(str(value))}" for key, value in (query or {}).items())
    return _escaped(path) + (f"?{words}" if words else "")


def _escaped(text: str) -> str:
    """Like urllib.parse.quote, whose import takes milliseconds."""
    return "".join(
        chr(byte) if chr(byte) in _UNESCAPED else f"%{byte:02X}" for byte in text.encode()
    )


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, LookupError, TypeError):
        return body.decode(errors="replace").strip() or "The Docker engine gave no reason."


def _unless_gone(call: "Any", *others: int) -> "Any":
    try:
        return call()
    except EngineRefused as error:
        if error.status not in (404, *others):
            raise
        return None
