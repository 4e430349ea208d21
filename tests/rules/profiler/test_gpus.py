"""Rules about GPUs, on made-up figures: what fires, what does not, and where the border is."""

from typing import Any

import numpy as np
import pytest

from tests.rules.profiling import Profiling, judge
from trackside.records.finding import Finding
from trackside.rules.profiler.gpus import (
    BatchSize,
    GPUMemoryIncrease,
    LoadBalancing,
    LowGPUUtilization,
    jensen_shannon,
)
from trackside.rules.profiler.profiler_rule import NO_GPU


@pytest.fixture
def profiling(tmp_path):
    return Profiling(tmp_path)


def constant(value: float, looks: int) -> list[list[float]]:
    return [[value]] * looks


class TestLowGPUUtilization:
    def test_an_under_used_gpu_is_named_with_its_figure(self, profiling):
        profiling.samples({"gpu": [[95, 30]] * 60})
        [finding] = judge(LowGPUUtilization(patience=50, window=20), profiling.end())
        assert (finding.worker, finding.tensor) == ("algo-1", "gpu1")
        assert (finding.value, finding.threshold) == (30, 70)
        assert "under-used" in finding.message
        assert finding.advice

    def test_the_threshold_itself_is_neither_below_nor_above(self, profiling):
        profiling.samples({"gpu": [[70]] * 54 + [[0]] * 6})
        assert judge(LowGPUUtilization(patience=50, window=60), profiling.end()) == []

    def test_a_busy_gpu_that_often_idles_fluctuates(self, profiling):
        profiling.samples({"gpu": [[100], [100], [0], [100]] * 15})
        [finding] = judge(LowGPUUtilization(patience=50, window=40), profiling.end())
        assert "fluctuating" in finding.message
        assert (finding.value, finding.threshold) == (0, 10)

    @pytest.mark.parametrize(("looks", "expected"), [(50, 0), (51, 1)])
    def test_it_needs_more_figures_than_its_patience(self, profiling, looks, expected):
        profiling.samples({"gpu": constant(5, looks)})
        found = judge(LowGPUUtilization(patience=50, window=10), profiling.end())
        assert len(found) == expected

    def test_only_the_last_figures_count(self, profiling):
        profiling.samples({"gpu": constant(5, 40) + constant(95, 30)})
        assert judge(LowGPUUtilization(patience=50, window=30), profiling.end()) == []

    def test_a_gpu_is_reported_once_however_many_windows_there_are(self, profiling):
        profiling.samples({"gpu": constant(5, 100)})
        rule = LowGPUUtilization(patience=10, window=10, scan_interval_us=5_000_000)
        assert len(judge(rule, profiling.end())) == 1
        assert rule.triggered == 9

    def test_live_and_afterwards_it_finds_the_same(self, profiling):
        profiling.samples({"gpu": constant(95, 500) + constant(5, 300)})
        live = LowGPUUtilization(patience=50, window=20)
        profile = profiling.end()
        once = judge(LowGPUUtilization(patience=50, window=20), profile)
        (profiling.folder / "system" / "training_job_end.ts").unlink()
        (profiling.folder / "framework" / "training_job_end.ts").unlink()
        growing = type(profile)(profiling.folder)
        found: list[Finding] = []
        for is_over in (False, False, True):
            if is_over:
                profiling.end()
            growing.advance()
            found += live.check(growing)
        assert found == once

    def test_a_machine_without_a_gpu_gives_it_nothing_to_watch(self, profiling):
        profiling.samples({"cpu": constant(5, 60)})
        profile = profiling.end()
        rule = LowGPUUtilization(patience=0)
        assert judge(rule, profile) == []
        assert rule.missing(profile) == NO_GPU


class TestBatchSize:
    def small(self, looks: int = 60, **changed: Any) -> dict[str, Any]:
        figures = {
            "cpu": [[10, 30]] * looks,
            "gpu": [[90, 40]] * looks,
            "memory": [[90, 20]] * looks,
        }
        return {**figures, **changed}

    def test_a_machine_with_room_for_more_is_reported(self, profiling):
        profiling.samples(self.small())
        [finding] = judge(BatchSize(patience=10, window=50), profiling.end())
        assert (finding.worker, finding.tensor, finding.value) == ("algo-1", "gpu1", 40)

    @pytest.mark.parametrize(
        "changed",
        [{"cpu": [[70, 70]] * 60}, {"gpu": [[90, 70]] * 60}, {"memory": [[90, 70]] * 60}],
        ids=["processors", "gpu", "memory"],
    )
    def test_one_resource_at_its_threshold_is_enough_for_silence(self, profiling, changed):
        profiling.samples(self.small(**changed))
        assert judge(BatchSize(patience=10, window=50), profiling.end()) == []

    @pytest.mark.parametrize(("looks", "expected"), [(50, 0), (51, 1)])
    def test_it_needs_more_figures_than_its_window(self, profiling, looks, expected):
        profiling.samples(self.small(looks))
        assert len(judge(BatchSize(patience=10, window=50), profiling.end())) == expected


class TestGPUMemoryIncrease:
    def test_memory_that_rises_from_one_window_to_the_next_is_reported(self, profiling):
        profiling.samples({"memory": constant(30, 40) + constant(41, 20)})
        [finding] = judge(GPUMemoryIncrease(patience=20, window=20), profiling.end())
        assert finding.tensor == "gpu0"
        assert finding.value is not None
        assert 10 < finding.value <= 11
        assert finding.threshold == 10

    def test_a_rise_of_just_the_threshold_is_none(self, profiling):
        profiling.samples({"memory": constant(30, 40) + constant(40, 40)})
        assert judge(GPUMemoryIncrease(patience=20, window=20), profiling.end()) == []

    def test_filling_up_at_the_start_is_within_the_patience(self, profiling):
        profiling.samples({"memory": constant(0, 20) + constant(80, 100)})
        assert judge(GPUMemoryIncrease(patience=60, window=20), profiling.end()) == []

    def test_a_leak_is_reported_however_the_windows_cut_it(self, profiling):
        profiling.samples({"memory": [[0.4 * look] for look in range(200)]})
        for microseconds in (1_000_000, 7_000_000, 60_000_000):
            rule = GPUMemoryIncrease(patience=0, window=30, scan_interval_us=microseconds)
            [finding] = judge(rule, profiling.end())
            assert finding.value is not None
            assert abs(finding.value - 12) < 1e-3
            assert rule.violations == 141


class TestLoadBalancing:
    def test_gpus_with_nothing_in_common_are_a_pair(self, profiling):
        profiling.samples({"gpu": [[95, 5, 95]] * 30})
        found = judge(LoadBalancing(patience=20), profiling.end())
        assert [each.tensor for each in found] == ["gpu0, gpu1", "gpu1, gpu2"]
        assert found[0].value is not None
        assert abs(found[0].value - np.sqrt(np.log(2))) < 1e-6
        assert "95 % and 5 %" in found[0].message

    def test_gpus_used_alike_are_silent(self, profiling):
        profiling.samples({"gpu": [[look % 100, (look + 1) % 100] for look in range(200)]})
        assert judge(LoadBalancing(patience=20), profiling.end()) == []

    def test_a_lone_gpu_has_none_to_be_compared_with(self, profiling):
        profiling.samples({"gpu": constant(5, 30)})
        profile = profiling.end()
        rule = LoadBalancing(patience=0)
        assert judge(rule, profile) == []
        assert "two GPUs" in rule.missing(profile)

    def test_the_distance_is_jensen_and_shannon_s(self):
        # Of (1/2, 1/2) and (1, 0), by hand: the middle is (3/4, 1/4).
        expected = np.sqrt((0.5 * np.log(2 / 3) + 0.5 * np.log(2) + np.log(4 / 3)) / 2)
        assert abs(jensen_shannon(np.array([2, 2]), np.array([7, 0])) - expected) < 1e-12
