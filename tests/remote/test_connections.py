"""The way to a server: through proxies, and with certificates."""

import datetime
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from trackside.errors import ServerUnreachable
from trackside.profiles import Key, Server
from trackside.remote.api_client import ApiClient
from trackside.remote.connections import Connections


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


class Forwarding(Answering):
    """A proxy that notes who came through, and by which word."""

    seen: ClassVar[list[tuple[str, str, str | None]]]

    def do_POST(self) -> None:
        self.seen.append((self.command, self.path, self.headers.get("Proxy-Authorization")))
        body = self.rfile.read(int(self.headers["Content-Length"]))
        target = urlsplit(self.path)
        line = HTTPConnection(target.netloc)
        line.request("POST", target.path, body)
        content = line.getresponse().read()
        line.close()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_CONNECT(self) -> None:
        self.seen.append((self.command, self.path, self.headers.get("Proxy-Authorization")))
        host, _, port = self.path.partition(":")
        with socket.create_connection((host, int(port))) as far:
            self.send_response(200)
            self.end_headers()
            ends = [self.connection, far]
            while True:
                for end in select.select(ends, [], [])[0]:
                    data = end.recv(1 << 16)
                    if not data:
                        self.close_connection = True
                        return
                    (far if end is self.connection else self.connection).sendall(data)


Serving = Callable[..., str]


@pytest.fixture
def serving() -> Iterator[Serving]:
    servers: list[ThreadingHTTPServer] = []

    def start(handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def proxy(serving) -> tuple[str, list[tuple[str, str, str | None]]]:
    class Handler(Forwarding):
        seen: ClassVar[list[tuple[str, str, str | None]]] = []

    return serving(Handler), Handler.seen


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Signed by itself, for 127.0.0.1; certificate and key in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = tmp_path / "server.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


def secured(certificate: Path) -> ssl.SSLContext:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    return tls


def test_a_certificate_nobody_vouches_for_is_refused_at_once(serving, certificate: Path):
    url = f"https://{serving(Answering, secured(certificate))}"
    client = ApiClient(Server(url, Key("TSKEY", "secret")))
    with pytest.raises(ServerUnreachable, match="its certificate is refused"):
        client.call("SageMaker.ListTrainingJobs", {})


def test_a_certificate_that_the_environment_names_is_taken(serving, certificate: Path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    url = f"https://{serving(Answering, secured(certificate))}"
    assert Connections(url).send("POST", "/", {}, b"hello").body == b"hello"


def test_a_proxy_is_gone_through_unless_it_is_bypassed(serving, proxy, monkeypatch):
    host, seen = proxy
    server = serving(Answering)
    monkeypatch.setenv("http_proxy", f"http://user:pass%20word@{host}")
    connections = Connections(f"http://{server}")
    for _ in range(2):
        assert connections.send("POST", "/", {}, b"hello").body == b"hello"
    assert seen == [("POST", f"http://{server}/", "Basic dXNlcjpwYXNzIHdvcmQ=")] * 2
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert Connections(f"http://{server}").send("POST", "/", {}, b"hello").body == b"hello"
    assert len(seen) == 2


def test_a_tunnel_leads_to_a_server_with_a_certificate(
    serving, proxy, certificate: Path, monkeypatch
):
    host, seen = proxy
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setenv("https_proxy", host)
    server = serving(Answering, secured(certificate))
    assert Connections(f"https://{server}").send("POST", "/", {}, b"hello").body == b"hello"
    assert seen == [("CONNECT", server, None)]
