"""Tests of what the Docker engine is asked for."""

from pathlib import Path
from typing import Any

import pytest

from trackside.supervisor.container_request import OF_ENGINE, ContainerPlan, container_request
from trackside.supervisor.sandbox import SandboxPlan
from trackside.system.run_as import find_user


def host_config(**fields: Any) -> dict[str, Any]:
    plan = SandboxPlan(folder=Path("/f"), ml=Path("/m"), log=Path("/l"), host="algo-1")
    container = ContainerPlan(**{"image": "i", "engine": "unix:///s", **fields})
    return dict(container_request(plan, container, "mark", "/f/pipe")["HostConfig"])


@pytest.mark.parametrize(
    ("gpus", "which"), [(["all"], {"Count": -1}), (["0", "GPU-ab"], {"DeviceIDs": ["0", "GPU-ab"]})]
)
def test_gpus_are_asked_of_the_driver(gpus: list[str], which: dict[str, Any]) -> None:
    asked = host_config(gpus=gpus)["DeviceRequests"]
    assert asked == [{**which, "Capabilities": [["gpu"]]}]


def test_nothing_asked_for_is_no_limit() -> None:
    limits = {"NanoCpus", "Memory", "MemorySwap", "ShmSize", "DeviceRequests", "NetworkMode"}
    assert limits & set(host_config()) == set()


def test_names_are_in_etc_hosts_where_no_network_resolves_them() -> None:
    plan = SandboxPlan(
        folder=Path("/f"), ml=Path("/m"), log=Path("/l"), addresses={"algo-2": "127.1.2.3"}
    )
    for network, hosts in (("none", ["algo-2:127.1.2.3"]), ("job", [])):
        container = ContainerPlan(image="i", engine="unix:///s", network=network)
        request = container_request(plan, container, "mark", "/f/pipe")
        assert request["HostConfig"].get("ExtraHosts") == hosts


def test_the_user_of_the_job_comes_before_the_images() -> None:
    user = find_user("65533")
    plan = SandboxPlan(folder=Path("/f"), ml=Path("/m"), log=Path("/l"), user=user)
    container = ContainerPlan(image="i", engine="unix:///s", user="app")
    request = container_request(plan, container, "mark", "/f/pipe")
    assert request["User"] == f"65533:{user.gid}"
    assert request["HostConfig"]["CapAdd"] == []


def test_this_machine_has_a_name_if_the_engine_knows_its_address() -> None:
    plan = SandboxPlan(folder=Path("/f"), ml=Path("/m"), log=Path("/l"))
    for network in ("", "job"):
        container = ContainerPlan(
            image="i", engine="unix:///s", network=network, host_address=OF_ENGINE
        )
        request = container_request(plan, container, "mark", "/f/pipe")
        assert request["HostConfig"]["ExtraHosts"] == ["host.docker.internal:host-gateway"]
