"""Addresses that a submitter may write, and those that mean something else on the server."""

import socket

import pytest

from trackside.rules.action.action_errors import Refused
from trackside.rules.action.callback_addresses import Callbacks

HERE = [
    "127.0.0.1",
    "127.9.9.9",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "0.0.0.0",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "any.localhost",
    "169.254.169.254",
    "169.254.170.2",
    "100.100.100.200",
    "168.63.129.16",
    "224.0.0.1",
    "[::1]",
    "[::]",
    "[fe80::1]",
    "[fd00:ec2::254]",
    "[::ffff:127.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[2002:7f00:1::]",
    "[64:ff9b::a9fe:a9fe]",
    "10.0.0.7",
    "172.16.3.4",
    "192.168.1.9",
    "100.64.0.1",
    "[fd12:3456::1]",
    "[::ffff:10.0.0.7]",
]


@pytest.mark.parametrize("host", HERE)
@pytest.mark.parametrize("form", ["http://{}", "https://{}:8443/path", "http://me:word@{}/"])
def test_the_server_s_own_machine_is_not_called(host: str, form: str):
    assert "the server's own machine" in Callbacks().problem(form.format(host))


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com/x",
        "http://1.1.1.1:8080/",
        "https://[2606:2800:220:1::1]/",
        "http://localhost.example.com/",
    ],
)
def test_others_are(url: str):
    assert Callbacks().problem(url) == ""


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/y", "gopher://x", "http://", "x"])
def test_other_schemes_are_not_called_at_all(url: str):
    assert "is not an http:// or https:// address" in Callbacks().problem(url)


def test_an_address_that_cannot_be_read_is_reported():
    assert "cannot be read" in Callbacks().problem("http://[::1/")


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:9/"),
        ("10.0.0.0/8", "http://10.0.0.7:8080/"),
        ("10.0.0.0/8, 169.254.0.0/16", "http://169.254.1.1/"),
        ("LOCALHOST", "http://localhost/"),
        ("::1/128", "http://[::1]/"),
        ("127.0.0.0/8", "http://[::ffff:127.0.0.1]/"),
    ],
)
def test_the_operator_may_allow_them(allowed: str, url: str):
    assert Callbacks.allowed_by(allowed).problem(url) == ""
    assert Callbacks.allowed_by("192.0.2.1").problem(url) != ""


def test_no_connection_is_made_to_a_name_that_leads_here():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(Refused, match="'localhost' is "):
            Callbacks().connect(("localhost", port), 5)
        with pytest.raises(Refused):
            Callbacks().connect(("127.0.0.1", port), 5)
        with pytest.raises(Refused):
            Callbacks().check("localhost")
        Callbacks.allowed_by("127.0.0.1").connect(("127.0.0.1", port), 5).close()
        Callbacks.allowed_by("localhost").connect(("localhost", port), 5).close()


def test_an_address_that_does_not_respond_is_an_ordinary_failure():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        Callbacks.allowed_by("127.0.0.1").connect(("127.0.0.1", port), 5)
