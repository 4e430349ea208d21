"""Which addresses count as one, and what settings become."""

import math

import pytest

from trackside.api.limits import LOOPBACK, Limits, address_group
from trackside.settings import Settings


@pytest.mark.parametrize(
    ("host", "group"),
    [
        ("127.0.0.1", LOOPBACK),
        ("127.8.9.1", LOOPBACK),
        ("::1", LOOPBACK),
        ("::ffff:127.0.0.1", LOOPBACK),
        ("", LOOPBACK),
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_the_addresses_of_one_machine_count_as_one(host: str, group: str):
    assert address_group(host) == group


def test_nothing_set_is_the_defaults():
    assert Limits.of(Settings.load({})) == Limits()


def test_none_is_no_limit():
    names = (
        "TRACKSIDE_CONNECTIONS",
        "TRACKSIDE_CONNECTIONS_PER_ADDRESS",
        "TRACKSIDE_HEADER_SECONDS",
        "TRACKSIDE_BODY_SECONDS",
        "TRACKSIDE_ANSWER_SECONDS",
        "TRACKSIDE_BODY_MEMORY_MB",
    )
    limits = Limits.of(Settings.load(dict.fromkeys(names, "0")))
    assert limits.connections == limits.per_address == limits.body_memory == math.inf
    assert limits.header_seconds == limits.body_seconds == limits.answer_seconds == math.inf
    assert limits.of_address(LOOPBACK) == math.inf
