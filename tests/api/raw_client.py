"""Clients that speak HTTP by hand: slowly, too much, or not at all."""

import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

REGION = "eu-central-1"
TIMEOUT_SECONDS = 60.0
_TARGETS = {"sagemaker": "SageMaker", "logs": "Logs_20140328", "sts": ""}


class RawClient:
    """One connection."""

    def __init__(self, address: str) -> None:
        """`HOST:PORT`, or the URL of a server."""
        host, _, port = address.removeprefix("http://").rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS)
        self._left = b""

    def send(self, data: bytes) -> "RawClient":
        self.socket.sendall(data)
        return self

    def pour(self, pieces: Iterator[bytes], most_bytes: int) -> int:
        """As long as the server takes it in; how much it took."""
        num_sent = 0
        for piece in pieces:
            if num_sent >= most_bytes:
                break
            try:
                self.socket.sendall(piece)
            except OSError:
                break
            num_sent += len(piece)
        return num_sent

    def response(self) -> tuple[int, bytes]:
        """The next one: its status and its body; 0 when the connection ends without one."""
        head, _, body = self._until(b"\r\n\r\n").partition(b"\r\n\r\n")
        if not head:
            return 0, b""
        length = next(
            int(line.partition(b":")[2])
            for line in head.splitlines()
            if line.lower().startswith(b"content-length:")
        )
        while len(body) < length and (more := self._more()):
            body += more
        self._left = body[length:]
        return int(head.split(b" ", 2)[1]), body[:length]

    def response_starts(self) -> bool:
        """Whether a response has started; waits for it, and leaves it unread."""
        return bool(self.socket.recv(1, socket.MSG_PEEK))

    def is_ended(self) -> bool:
        """Whether the server has ended the connection; waits for it."""
        while self._more():
            pass
        return True

    def close(self) -> None:
        self.socket.close()

    def _until(self, end: bytes) -> bytes:
        data, self._left = self._left, b""
        while end not in data and (more := self._more()):
            data += more
        return data if end in data else b""

    def _more(self) -> bytes:
        try:
            return self.socket.recv(1 << 16)
        except ConnectionError:
            return b""


def signed(
    url: str,
    key: tuple[str, str],
    operation: str,
    given: Mapping[str, Any],
    *,
    service: str = "sagemaker",
    padding: int = 0,
) -> tuple[bytes, bytes]:
    """Head and body of a call in JSON, as boto3 signs it, padded by so many bytes."""
    body = json.dumps(given).encode() + b" " * padding
    headers = {
        "Content-Type": "application/x-amz-json-1.1",
        "X-Amz-Target": f"{_TARGETS[service]}.{operation}",
    }
    request = AWSRequest("POST", f"{url}/", headers=headers, data=body)
    SigV4Auth(Credentials(*key), service, REGION).add_auth(request)
    lines = [f"{name}: {value}" for name, value in request.headers.items()]
    host = f"Host: {url.removeprefix('http://')}"
    head = ["POST / HTTP/1.1", host, *lines, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(head).encode(), body
