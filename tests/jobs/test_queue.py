"""Whose turn it is, and why the others wait: a table needs no machine."""

import pytest

from tests.jobs.conftest import make_spec
from trackside.errors import InvalidSetting, InvalidSpec
from trackside.jobs.machine_resources import MachineResources, capacity, gpu_names, machine
from trackside.jobs.owner_limit import Limit
from trackside.jobs.queue import (
    Entry,
    ForLimit,
    ForResources,
    ForShare,
    ForTurn,
    LimitOf,
    Queue,
    no_limit,
)
from trackside.jobs.resource_request import (
    asking_by_type,
    needs_of,
    priority_of,
    violations,
)
from trackside.records.spec import Options

MACHINE = MachineResources(cores=4, memory_gb=16, gpus=1)


def entry(name: str, cores: int = 1, *, since: float = 0, **changes: object) -> Entry:
    return Entry(name=name, needs=MachineResources(cores), since=since, **changes)  # type: ignore[arg-type]


def queue_of(*waiting: Entry, running: tuple[Entry, ...] = ()) -> Queue:
    queue = Queue(MACHINE)
    for each in waiting:
        queue.wait(each)
    for each in running:
        queue.hold(each)
    return queue


def startable(queue: Queue, limit_of: LimitOf = no_limit) -> list[str]:
    return [each.name for each, wait in queue.turns(limit_of) if wait is None]


def waits(queue: Queue, limit_of: LimitOf = no_limit) -> dict[str, object]:
    return {each.name: wait for each, wait in queue.turns(limit_of) if wait is not None}


def limited(**limits: Limit) -> LimitOf:
    return lambda who: limits.get(who, Limit())


def test_who_comes_first_is_served_first():
    queue = queue_of(entry("c", since=3), entry("a", since=1), entry("b", since=2))
    assert startable(queue) == ["a", "b", "c"]


def test_a_higher_priority_goes_before_and_keeps_the_order_within():
    queue = queue_of(
        entry("late", since=3, priority=5),
        entry("early", since=1),
        entry("middle", since=2, priority=5),
        entry("last", since=0, priority=-1),
    )
    assert startable(queue) == ["middle", "late", "early", "last"]


def test_nobody_passes_a_large_job_that_waits_for_room():
    queue = queue_of(
        entry("large", 4, since=1), entry("small", since=2), running=(entry("at work"),)
    )
    assert startable(queue) == []
    assert waits(queue) == {"large": ForResources("cores", 4, 3, 4), "small": ForTurn("large")}
    assert str(waits(queue)["large"]) == "Waiting for 4 cores: 3 of 4 free"
    assert str(waits(queue)["small"]) == "Waiting for its turn, behind 'large'"


def test_what_is_started_now_is_no_longer_free_for_those_behind():
    queue = queue_of(entry("a", 3, since=1), entry("b", 2, since=2), entry("c", 1, since=3))
    assert startable(queue) == ["a"]
    assert waits(queue)["b"] == ForResources("cores", 2, 1, 4)


def test_a_key_at_its_limit_is_passed_over():
    limits = limited(ci=Limit(jobs=2))
    queue = queue_of(
        entry("ci-2", since=1, who="ci"),
        entry("ci-3", since=2, who="ci"),
        entry("team-1", since=3, who="team"),
        running=(entry("ci-1", who="ci"),),
    )
    assert startable(queue, limits) == ["ci-2", "team-1"]
    assert waits(queue, limits) == {"ci-3": ForLimit("ci", 2)}
    assert "the limit is 2 at a time" in str(waits(queue, limits)["ci-3"])


def test_a_job_at_its_limit_holds_nobody_up_even_when_it_is_large():
    queue = queue_of(
        entry("large", 4, since=1, who="ci"),
        entry("small", since=2),
        running=(entry("ci-1", who="ci"),),
    )
    assert startable(queue, limited(ci=Limit(jobs=1))) == ["small"]


def test_an_owner_at_the_limit_of_cores_waits_and_others_pass():
    limits = limited(ci=Limit(cores=2))
    queue = queue_of(
        entry("ci-2", 1, since=1, owner="ci"),
        entry("ci-3", 1, since=2, owner="ci"),
        entry("other", 1, since=3, owner="team"),
        running=(entry("ci-1", 1, owner="ci"),),
    )
    assert startable(queue, limits) == ["ci-2", "other"]
    assert waits(queue, limits) == {"ci-3": ForShare("ci", "cores", 2)}
    reported = "Waiting for a job of 'ci' to end: owner's limit of 2 cores reached"
    assert str(waits(queue, limits)["ci-3"]) == reported
    queue.drop("ci-1")
    assert startable(queue, limits) == ["ci-2", "ci-3", "other"]


def test_a_small_job_of_an_owner_passes_a_large_one_that_the_limit_holds_back():
    limits = limited(ci=Limit(cores=3))
    queue = queue_of(
        entry("large", 2, since=1, owner="ci"),
        entry("small", 1, since=2, owner="ci"),
        running=(entry("ci-1", 2, owner="ci"),),
    )
    assert startable(queue, limits) == ["small"]


def test_a_limit_of_gpus_holds_back_only_who_needs_one():
    limits = limited(ci=Limit(gpus=1))
    queue = Queue(MachineResources(cores=8, gpus=4))
    queue.hold(Entry(name="ci-1", needs=MachineResources(1, 0, 1), owner="ci"))
    queue.wait(Entry(name="ci-2", needs=MachineResources(1, 0, 1), owner="ci", since=1))
    queue.wait(Entry(name="ci-3", needs=MachineResources(4), owner="ci", since=2))
    assert startable(queue, limits) == ["ci-3"]
    reported = "Waiting for a job of 'ci' to end: owner's limit of 1 GPU reached"
    assert str(waits(queue, limits)["ci-2"]) == reported


def test_an_instance_type_beyond_the_limit_counts_for_all_of_it_and_runs_alone():
    limits = limited(ci=Limit(cores=2))
    queue = queue_of(entry("ci-1", 4, since=1, owner="ci"), entry("ci-2", 1, since=2, owner="ci"))
    assert startable(queue, limits) == ["ci-1"]
    assert waits(queue, limits) == {"ci-2": ForShare("ci", "cores", 2)}


def test_own_words_beyond_a_limit_that_was_lowered_wait_and_say_so():
    limits = limited(ci=Limit(cores=2))
    queue = queue_of(entry("ci-1", 4, owner="ci", asked=MachineResources(4)))
    reported = "Waiting for ever: it needs more than its owner's limit of 2 cores"
    assert str(waits(queue, limits)["ci-1"]) == reported


def test_memory_and_gpus_are_counted_too():
    queue = Queue(MACHINE)
    queue.hold(Entry(name="a", needs=MachineResources(1, 10, 1)))
    queue.wait(Entry(name="b", needs=MachineResources(1, 8)))
    assert str(waits(queue)["b"]) == "Waiting for 8 GB of memory: 6 of 16 free"
    queue.drop("b")
    queue.wait(Entry(name="b", needs=MachineResources(1, 0, 1)))
    assert str(waits(queue)["b"]) == "Waiting for 1 GPU: 0 of 1 free"


def test_jobs_that_never_asked_may_hold_more_than_there_is():
    queue = queue_of(entry("b"), running=tuple(entry(f"run-{number}") for number in range(6)))
    assert str(waits(queue)["b"]) == "Waiting for 1 core: 0 of 4 free"


def test_an_entry_that_waits_again_has_its_new_place():
    queue = queue_of(entry("a", since=1), entry("b", since=2))
    queue.wait(entry("b", since=2, priority=1))
    assert [each.name for each in queue.waiting] == ["b", "a"]
    queue.hold(entry("b", since=2, priority=1))
    assert [each.name for each in queue.waiting] == ["a"]
    queue.drop("a")
    queue.drop("a")
    assert "a" not in queue
    assert "b" in queue


def test_needs_are_those_of_all_hosts_and_own_words_come_first():
    resources = {"InstanceType": "ml.g5.xlarge", "InstanceCount": 3}
    spec = make_spec(ResourceConfig=resources, Trackside={"Cores": 2, "GPUs": 0})
    assert needs_of(spec) == MachineResources(6, 48, 0)


def test_groups_of_instances_are_added_up():
    groups = [
        {"InstanceGroupName": "a", "InstanceType": "ml.c5.large", "InstanceCount": 2},
        {"InstanceGroupName": "b", "InstanceType": "ml.m5.xlarge", "InstanceCount": 1},
    ]
    assert needs_of(make_spec(ResourceConfig={"InstanceGroups": groups})) == MachineResources(8, 24)


def test_what_the_machine_never_has_is_refused_only_when_asked_for_in_so_many_words():
    large = make_spec(ResourceConfig={"InstanceType": "ml.m5.24xlarge"})
    assert list(violations(large, MACHINE)) == []
    asked = make_spec(ResourceConfig={"InstanceCount": 3}, Trackside={"Cores": 2, "MemoryGB": 4})
    [violation] = violations(asked, MACHINE)
    assert violation.field == "Trackside.Cores"
    assert violation.advice == "is more than the server's machine has for 3 hosts: 4"


@pytest.mark.parametrize(
    ("options", "tags", "priority"),
    [
        (Options(), {}, 0),
        (Options(), {"trackside:priority": "7"}, 7),
        (Options(priority=-3), {"trackside:priority": "7"}, -3),
        (Options(), {"trackside:priority": "soon"}, 0),
        (Options(), {"trackside:priority": "99999"}, 1000),
    ],
)
def test_a_priority_is_an_option_or_a_tag(options: Options, tags: dict[str, str], priority: int):
    assert priority_of(options, tags) == priority


@pytest.mark.parametrize("value", ["high", "", "1001", "1.5", "007"])
def test_a_priority_that_is_no_number_is_refused(value: str):
    with pytest.raises(InvalidSpec, match="trackside:priority"):
        make_spec(Tags=[{"Key": "trackside:priority", "Value": value}])


def test_a_capacity_is_the_machine_s_but_for_what_is_set():
    assert capacity("", {}) == machine({})
    assert machine({}).cores >= 1
    assert machine({}).memory_gb > 0
    assert capacity("cores=3, gpus=2", {}) == MachineResources(3, machine({}).memory_gb, 2)
    assert capacity("memory_gb=1.5", {}).memory_gb == 1.5


def test_gpus_are_those_that_the_server_sees():
    visible = {"CUDA_VISIBLE_DEVICES": "2, 5"}
    assert machine(visible).gpus == 2
    assert gpu_names(2, visible) == ("2", "5")
    assert gpu_names(1, visible) == ("2",)
    assert gpu_names(3, {}) == ("0", "1", "2")
    assert machine({"CUDA_VISIBLE_DEVICES": ""}).gpus == 0


@pytest.mark.parametrize("text", ["4", "cores", "cores=0", "memory=4", "gpus=-1", "cores=many"])
def test_a_capacity_that_says_nothing_is_refused(text: str):
    with pytest.raises(InvalidSetting, match="TRACKSIDE_CAPACITY"):
        capacity(text, {})


@pytest.mark.parametrize(
    ("resources", "own", "most", "asked"),
    [
        ({"InstanceType": "ml.m5.large"}, {}, MACHINE, (2, 8)),
        ({"InstanceType": "ml.m5.24xlarge"}, {}, MACHINE, (4, 16)),
        ({"InstanceType": "ml.m5.24xlarge"}, {}, Limit(cores=2).of(MACHINE), (2, 16)),
        ({"InstanceType": "ml.m5.24xlarge", "InstanceCount": 2}, {}, MACHINE, (2, 8)),
        ({"InstanceType": "local"}, {}, MACHINE, (1, None)),
        ({"InstanceType": "local"}, {"Cores": 3, "MemoryGB": 5}, MACHINE, (3, 5)),
    ],
)
def test_an_instance_type_becomes_words_of_the_job_s_own(
    resources: dict[str, object],
    own: dict[str, int],
    most: MachineResources,
    asked: tuple[int, int | None],
):
    whole = {"InstanceCount": 1, "VolumeSizeInGB": 1, **resources}
    spec = make_spec(ResourceConfig=whole, Trackside=own)
    options = asking_by_type(spec, most).options
    assert (options.cores, options.memory_gb) == asked


def test_a_job_of_another_scheduler_neither_takes_nor_waits_for_this_machine():
    elsewhere = entry("elsewhere", 64, since=3, is_counted=False)
    queue = queue_of(
        entry("large", 4, since=1),
        entry("small", 1, since=2),
        elsewhere,
        running=(entry("here", 1), entry("cluster", 99, is_counted=False)),
    )
    assert queue.free == MachineResources(cores=3, memory_gb=16, gpus=1)
    assert startable(queue) == ["elsewhere"]
    assert queue.has_uncounted
    queue.drop("elsewhere")
    assert not queue.has_uncounted


def test_the_owner_s_limits_hold_wherever_a_job_runs():
    queue = queue_of(
        entry("more", 2, owner="alice", is_counted=False),
        running=(entry("cluster", 2, owner="alice", is_counted=False),),
    )
    assert startable(queue, limited(alice=Limit(cores=3))) == []
