"""What the child process that speaks with Ray does before it does."""

import socket

import pytest

from tests.kept_port import kept_port, port_of
from trackside.placement.ray_engine import check_listens


@pytest.mark.parametrize("form", ["ray://127.0.0.1:{}", "127.0.0.1:{}"])
def test_a_head_that_is_gone_is_not_waited_for(form: str):
    with kept_port() as holder:
        address = form.format(port_of(holder))
        with pytest.raises(ConnectionError, match="nobody answers at 127.0.0.1:.*refused"):
            check_listens(address)
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_listens(form.format(server.getsockname()[1]))


@pytest.mark.parametrize("address", ["auto", "local", "ray://head", "head:port"])
def test_what_names_no_port_is_left_to_ray(address: str):
    check_listens(address)
