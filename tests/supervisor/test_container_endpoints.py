"""Endpoints on this machine, as a container is given them."""

import socket

import pytest

from trackside.supervisor.container_endpoints import seen_from_inside, unreachable_endpoint

SERVER = {"AWS_ENDPOINT_URL": "http://127.0.0.1:7007"}


@pytest.mark.parametrize(
    ("url", "inside"),
    [
        ("http://127.0.0.1:7007", "http://host.docker.internal:7007"),
        ("http://localhost:9000/prefix", "http://host.docker.internal:9000/prefix"),
        ("https://[::1]", "https://host.docker.internal:443"),
        ("http://10.0.0.5:7007", "http://10.0.0.5:7007"),
        ("https://s3.example.com", "https://s3.example.com"),
    ],
)
def test_loopback_becomes_the_name_of_this_machine(url: str, inside: str) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "S3_ENDPOINT_URL"):
        assert seen_from_inside({name: url, "OTHER": url}) == {name: inside, "OTHER": url}


def test_an_endpoint_elsewhere_needs_no_words() -> None:
    elsewhere = {"AWS_ENDPOINT_URL": "https://s3.example.com"}
    assert unreachable_endpoint(elsewhere, has_network=False) == ""


def test_a_server_that_listens_at_loopback_only_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        environ = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
        told = unreachable_endpoint(environ, gateway="127.0.0.2")
        assert f"nothing listens at 127.0.0.2:{port}" in told
        assert unreachable_endpoint(environ, gateway="127.0.0.1") == ""


def test_nothing_is_said_of_an_address_that_is_not_known() -> None:
    assert unreachable_endpoint(SERVER, gateway="192.0.2.1") == ""
    assert unreachable_endpoint(SERVER) == ""
    assert "no network" in unreachable_endpoint(SERVER, has_network=False)
