"""GPUs that wait, on made-up figures."""

import pytest

from tests.rules.profiling import Profiling, judge
from trackside.rules.profiler.bottlenecks import CPUBottleneck, IOBottleneck
from trackside.rules.profiler.profiler_rule import NO_GPU


@pytest.fixture
def profiling(tmp_path):
    return Profiling(tmp_path)


Look = dict[str, list[float]]


def mixed(bad: Look, good: Look, looks: tuple[int, int]) -> dict[str, list[list[float]]]:
    """`looks` times: as many bad looks as given, then as many good ones."""
    return {kind: ([bad[kind]] * looks[0]) + ([good[kind]] * looks[1]) for kind in bad}


WAITING: Look = {"cpu": [20, 95], "gpu": [90, 5]}
WORKING: Look = {"cpu": [20, 95], "gpu": [90, 90]}


def test_gpus_that_idle_behind_a_busy_core_are_reported(profiling):
    profiling.samples(mixed(WAITING, WORKING, (61, 59)))
    rule = CPUBottleneck()
    [finding] = judge(rule, profiling.end())
    assert finding.worker == "algo-1"
    assert finding.value is not None
    assert finding.value > 50
    assert (rule.violations, rule.datapoints) == (61, 120)


def test_half_of_the_checks_is_not_more_than_half(profiling):
    profiling.samples(mixed(WORKING, WAITING, (60, 60)))
    assert judge(CPUBottleneck(), profiling.end()) == []


@pytest.mark.parametrize(
    "look",
    [{"cpu": [20, 90], "gpu": [90, 5]}, {"cpu": [20, 95], "gpu": [90, 10]}],
    ids=["the core", "the GPU"],
)
def test_a_figure_at_its_threshold_is_no_bottleneck(profiling, look):
    profiling.samples({kind: [values] * 120 for kind, values in look.items()})
    assert judge(CPUBottleneck(), profiling.end()) == []


@pytest.mark.parametrize(("looks", "expected"), [(100, 0), (101, 1)])
def test_it_needs_more_checks_than_its_patience(profiling, looks, expected):
    profiling.samples({kind: [values] * looks for kind, values in WAITING.items()})
    assert len(judge(CPUBottleneck(), profiling.end())) == expected


def test_gpus_that_idle_while_a_disk_is_waited_for_are_reported(profiling):
    profiling.samples({"io": [[0, 80]] * 60, "gpu": [[30]] * 60, "cpu": [[5, 5]] * 60})
    [finding] = judge(IOBottleneck(patience=50), profiling.end())
    assert "waiting for a disk" in finding.message
    assert finding.value == 100


def test_waiting_for_disks_is_not_the_processors_fault(profiling):
    profiling.samples({"io": [[0, 80]] * 120, "gpu": [[5]] * 120, "cpu": [[5, 5]] * 120})
    assert judge(CPUBottleneck(), profiling.end()) == []


def test_without_gpus_there_is_nothing_to_watch(profiling):
    profiling.samples({"cpu": [[99]] * 120, "io": [[99]] * 120})
    profile = profiling.end()
    for rule in (CPUBottleneck(patience=0), IOBottleneck(patience=0)):
        assert judge(rule, Profiling(profiling.folder).end()) == []
        profile.advance()
        assert rule.missing(profile) == NO_GPU
