"""The machines that tests are played on: what they share, and what they do not."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.machines import INSIDE, Network, machines
from tests.wait import until

REACHES = "import socket, sys; socket.create_connection((sys.argv[1], 7007), timeout=3)"


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with machines("first", "second") as network:
        yield network


def said(network: Network, name: str, code: str) -> str:
    done = network[name].run("python", "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_each_is_a_machine_of_its_own(network: Network):
    code = (
        "import os, socket; print(socket.gethostname(), "
        "open('/proc/sys/kernel/random/boot_id').read(), "
        "*[p for p in os.listdir('/proc') if p.isdigit()])"
    )
    first, second = (said(network, name, code).split() for name in ("first", "second"))
    assert (first[0], second[0]) == ("first", "second")
    ours = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert len({first[1], second[1], ours}) == 3
    assert len(first[2:]) == 2  # the first process, and the one that looks


def test_nobody_sees_the_files_of_another(network: Network):
    for machine in network:
        (machine.outside(INSIDE) / "own").write_text(machine.name)
    for machine in network:
        assert said(network, machine.name, "print(open('/tmp/own').read())") == machine.name
        places = [*network.folder.iterdir(), os.environ["HOME"]]
        look = f"import os; print(*filter(os.path.exists, {[str(place) for place in places]}))"
        assert said(network, machine.name, look) == ""


def test_objects_reach_everybody(network: Network):
    bucket = network.make_bucket()
    code = (
        "import boto3; s3 = boto3.client('s3'); "
        f"s3.put_object(Bucket={bucket!r}, Key='from/' + __import__('socket').gethostname())"
    )
    for machine in network:
        said(network, machine.name, code)
    found = network.client.list_objects_v2(Bucket=bucket)["Contents"]
    assert [each["Key"] for each in found] == ["from/first", "from/second"]


def test_a_link_that_is_cut_and_restored(network: Network):
    first = network["first"]
    assert first.run("python", "-c", REACHES, network.address).returncode == 0
    first.cut()
    try:
        assert first.run("python", "-c", REACHES, network.address).returncode != 0
        assert network["second"].run("python", "-c", REACHES, network.address).returncode == 0
    finally:
        first.restore()
    until(lambda: first.run("python", "-c", REACHES, network.address).returncode == 0)


def test_a_machine_that_is_killed_keeps_its_disk_alone(network: Network):
    first = network["first"]
    code = "import pathlib, time; pathlib.Path('/tmp/kept').write_text('x'); time.sleep(600)"
    process = first.start("python", "-c", code)
    until(lambda: (first.disk / "kept").exists())
    before = said(network, "first", "print(open('/proc/sys/kernel/random/boot_id').read())")
    first.kill()
    process.wait(60)
    first.boot()
    assert said(network, "first", "print(open('/tmp/kept').read())") == "x"
    assert said(network, "first", "print(open('/proc/sys/kernel/random/boot_id').read())") != before
    until(lambda: first.run("python", "-c", REACHES, network.address).returncode == 0)


def test_nothing_of_them_is_left():
    links = Path("/sys/class/net")
    before = set(os.listdir(links))
    with suppress(RuntimeError), machines("only") as network:
        process = network["only"].start("sleep", "600")
        raise RuntimeError("a test that fails")
    assert process.wait(60) != 0
    until(lambda: set(os.listdir(links)) <= before)
    assert not network.folder.exists()
