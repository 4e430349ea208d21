"""What a job may ask of Ray, and what follows from what Ray says."""

import json
from dataclasses import replace

import pytest

from trackside.placement.placement import (
    EndCause,
    Ended,
    Exited,
    Gone,
    Group,
    HostRequest,
    Lost,
    Pending,
    Running,
    Unknown,
)
from trackside.placement.ray import RayPlacement
from trackside.placement.ray_options import (
    can_ever_fit,
    node_lines,
    option_words,
    refusal,
    resources_of,
    strategy_of,
    wrong_options,
)
from trackside.placement.ray_states import (
    MEMORY_MONITOR,
    GroupFacts,
    HostFacts,
    autoscaler_words,
    has_autoscaler,
    poll_of,
)

GIB = 1 << 30
HOST = HostRequest(name="algo-1", nonce="n", cores=4, memory_gb=2.0, gpus=1)


def test_a_hosts_needs_become_a_bundle_in_rays_names():
    options = {"accelerator": "A100", "resources.disk": "0.5", "strategy": "PACK"}
    assert resources_of(HOST, options) == {
        "CPU": 4.0,
        "GPU": 1.0,
        "memory": 2.0 * GIB,
        "accelerator_type:A100": 0.001,
        "disk": 0.5,
    }


def test_hosts_are_on_nodes_of_their_own_unless_a_job_asks_otherwise():
    group = Group(job="job", attempt=1, epoch=1, hosts=(HOST,), command=("python3",))
    assert strategy_of(group) == "STRICT_SPREAD"
    assert strategy_of(replace(group, options={"strategy": "PACK"})) == "PACK"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("strategy", "pack", "is not known; known: STRICT_SPREAD, SPREAD, PACK, STRICT_PACK"),
        ("accelerator", "two words", "is no name"),
        ("partition", "gpu", "is no option of ray; there are strategy, accelerator and"),
        ("resources.", "1", "is no option of ray"),
        ("resources.GPU", "1", "use --gpus"),
        ("resources.disk", "some", "is no amount"),
        ("resources.disk", "0", "is no amount"),
        ("resources.disk", "nan", "is no amount"),
    ],
)
def test_options_that_a_job_cannot_give(name: str, value: str, why: str):
    [(wrong, said)] = wrong_options({name: value})
    assert wrong == name
    assert why in said
    assert [*RayPlacement.wrong_options({name: value})] == [(wrong, said)]


def test_options_are_written_as_name_and_value():
    assert option_words("strategy=PACK") == ("strategy", "PACK")
    assert option_words("resources.a=1=2") == ("resources.a", "1=2")
    for text in ("PACK", "=PACK"):
        with pytest.raises(ValueError, match="write it as NAME=VALUE"):
            option_words(text)


SMALL, LARGE = {"CPU": 2.0}, {"CPU": 8.0}


@pytest.mark.parametrize(
    ("count", "nodes", "strategy", "fits"),
    [
        (2, [LARGE, LARGE], "STRICT_SPREAD", True),
        (2, [LARGE, SMALL], "STRICT_SPREAD", False),
        (2, [LARGE, SMALL], "PACK", True),
        (3, [LARGE, SMALL], "SPREAD", False),
        (3, [LARGE, LARGE], "STRICT_PACK", False),
        (2, [LARGE, SMALL], "STRICT_PACK", True),
        (1, [], "PACK", False),
    ],
)
def test_what_empty_nodes_could_take(
    count: int, nodes: list[dict[str, float]], strategy: str, fits: bool
):
    bundles = [{"CPU": 4.0}] * count
    assert can_ever_fit(bundles, nodes, strategy) is fits


def test_a_refusal_says_what_is_asked_for_and_what_there_is():
    nodes = [{"CPU": 8.0, "memory": 30.0 * GIB, "node:10.0.0.1": 1.0}] * 2
    assert refusal([{"CPU": 4.0, "GPU": 1.0}], [*nodes, {"CPU": 2.0}], "PACK") == (
        "1 hosts are asked for, each with 4 CPU, 1 GPU (PACK); the Ray cluster has 1 node with "
        "2 CPU; 2 nodes, each with 8 CPU, 30 GB, and no autoscaler"
    )
    assert node_lines([]) == []


FREE = {"CPU": 1.0}
UP = HostFacts(node="10.0.0.1", is_seen=True)
CREATED = GroupFacts(state="CREATED", free=FREE, hosts={"algo-1": UP})
WAITS = GroupFacts(
    state="PENDING",
    scheduling="NO_RESOURCES",
    strategy="STRICT_SPREAD",
    bundles=({"CPU": 4.0}, {"CPU": 4.0}),
    free=FREE,
    hosts={},
)


@pytest.mark.parametrize(
    ("group", "host", "poll"),
    [
        (CREATED, UP, Running()),
        (CREATED, replace(UP, code=0), Exited(0)),
        (WAITS, HostFacts(), Pending("2 × {4 CPU} STRICT_SPREAD is NO_RESOURCES; free: 1 CPU")),
        (CREATED, HostFacts(is_node_alive=False), Pending("its actor starts")),
        (
            CREATED,
            HostFacts(is_gone=True, problem="no worker"),
            Exited(None, "its actor ended before it began: no worker"),
        ),
        (
            CREATED,
            HostFacts(is_gone=True, problem="the node running low on memory"),
            Exited(
                None,
                "its actor ended before it began: the node running low on memory",
                Gone.MEMORY,
            ),
        ),
        (
            CREATED,
            HostFacts(error="OSError: full"),
            Exited(None, "it could not be started on its node: OSError: full"),
        ),
        (
            CREATED,
            replace(UP, is_node_alive=False, is_seen=False),
            Lost("Ray lost its node 10.0.0.1"),
        ),
        (
            CREATED,
            replace(UP, is_node_alive=False, is_node_taken=True, is_seen=False),
            Lost("its node 10.0.0.1 was taken from Ray", Gone.TAKEN),
        ),
        (
            replace(CREATED, is_same_cluster=False),
            UP,
            Lost(
                "the Ray cluster that it was on is no more: its head was started anew", Gone.ENGINE
            ),
        ),
        (
            replace(CREATED, state=""),
            UP,
            Ended(EndCause.CANCELLED, "its placement group was removed from Ray"),
        ),
        (
            replace(CREATED, state=""),
            replace(UP, code=0, is_withdrawn=True),
            Ended(EndCause.CANCELLED, "its placement group was removed from Ray"),
        ),
        (replace(CREATED, state=""), replace(UP, code=0), Exited(0)),
        (
            replace(CREATED, state=""),
            HostFacts(),
            Exited(None, "Ray does not know it any more", Gone.ENGINE),
        ),
        (
            CREATED,
            replace(UP, is_seen=False, problem="no answer in 4 s"),
            Unknown("its actor does not answer: no answer in 4 s"),
        ),
        (
            CREATED,
            replace(UP, is_seen=False, is_gone=True, problem="worker died"),
            Unknown("its actor is gone, and another one looks after it: worker died"),
        ),
    ],
)
def test_what_follows_from_what_ray_says(group: GroupFacts, host: HostFacts, poll: object):
    assert poll_of(group, host) == poll


def test_a_kill_of_the_memory_monitor_is_told_apart_and_is_no_failure():
    killed = replace(
        UP, is_seen=False, is_gone=True, problem="killed due to the node running low on memory"
    )
    poll = poll_of(CREATED, killed)
    assert isinstance(poll, Unknown)
    assert poll.reason.startswith(MEMORY_MONITOR)


def status(**report: object) -> str:
    return json.dumps({"autoscaler_report": report})


def test_an_autoscaler_is_there_where_nodes_have_kinds():
    nodes = {f"node_{number:056x}": 1 for number in range(2)}
    assert not has_autoscaler(status(active_nodes=nodes), False)
    assert has_autoscaler(status(active_nodes={**nodes, "gpu": 1}), False)
    assert has_autoscaler("", True)
    for text in ("", "[]", "no JSON", '{"autoscaler_report": 1}'):
        assert not has_autoscaler(text, False)


def test_what_the_autoscaler_does_is_part_of_the_reason_to_wait():
    text = status(pending_launches={"gpu": 2}, pending_nodes=[["10.0.0.5", "gpu", "setting-up"]])
    assert autoscaler_words(text) == "autoscaler: 2 × gpu asked for, 10.0.0.5 gpu setting-up"
    assert autoscaler_words(status(failed_nodes=[["10.0.0.5", "gpu"]])).endswith("failed: 1")
    waits = poll_of(replace(WAITS, autoscaler=text), HostFacts())
    assert isinstance(waits, Pending)
    assert waits.why.endswith("2 × gpu asked for, 10.0.0.5 gpu setting-up")


def test_a_handle_of_another_kind_is_unknown():
    placement = RayPlacement("nowhere:1")
    for handle in ({}, {"job": "12", "hosts": ["algo-1"]}, {"group": "g", "hosts": {}}):
        assert placement.poll(handle) == {}
        assert placement.addresses(handle) == {}
        placement.stop(handle, force=True)
