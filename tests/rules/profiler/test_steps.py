"""Step times and starts, on made-up events."""

import pytest

from tests.rules.profiling import START, Profiling, judge
from trackside.rules.profiler.steps import (
    NO_STEPS,
    Dataloader,
    MaxInitializationTime,
    OverallFrameworkMetrics,
    StepOutlier,
)


@pytest.fixture
def profiling(tmp_path):
    return Profiling(tmp_path)


def test_steps_far_longer_than_the_others_are_counted(profiling):
    durations = [0.5 if step % 18 == 7 else 0.01 for step in range(200)]
    profiling.steps(durations)
    rule = StepOutlier()
    [finding] = judge(rule, profiling.end())
    assert (finding.mode, finding.worker) == ("TRAIN", "0-algo-1")
    assert (finding.value, finding.threshold) == (11, 10)
    assert "11 of 200 TRAIN steps" in finding.message
    assert "500 ms" in finding.message
    assert rule.violations == 11


def test_as_many_outliers_as_allowed_are_silent(profiling):
    profiling.steps([0.5 if step % 20 == 7 else 0.01 for step in range(200)])
    assert judge(StepOutlier(), profiling.end()) == []


def test_a_first_step_that_compiles_does_not_hide_the_others(profiling):
    profiling.steps([60.0] + [0.5 if step % 30 == 7 else 0.01 for step in range(400)])
    [finding] = judge(StepOutlier(), profiling.end())
    assert finding.value == 15
    assert "The longest is step 0 with 60.00 s" in finding.message


@pytest.mark.parametrize(("steps", "expected"), [(100, 0), (101, 1)])
def test_a_hundred_steps_are_not_enough(profiling, steps, expected):
    profiling.steps([0.5 if step % 50 == 7 else 0.01 for step in range(steps)])
    assert len(judge(StepOutlier(n_outliers=1), profiling.end())) == expected


def test_only_the_configured_mode_is_watched(profiling):
    profiling.steps([0.5 if step % 18 == 7 else 0.01 for step in range(200)])
    assert judge(StepOutlier(mode="EVAL"), profiling.end()) == []


def test_the_finding_states_whether_the_processors_worked_or_waited(profiling):
    durations = [5.0 if step % 18 == 7 else 0.5 for step in range(200)]
    profiling.steps(durations)
    moments, busy = START, []
    for duration in durations:
        busy += [[5.0 if duration > 1 else 90.0]] * round(2 * duration)
        moments += duration
    profiling.samples({"cpu": busy}, start=START + 0.25)
    [finding] = judge(StepOutlier(), profiling.end())
    assert "the processors were busy 5 %, else 90 %" in finding.message


def test_without_steps_there_is_nothing_to_watch(profiling):
    profiling.samples({"cpu": [[1]] * 3})
    profile = profiling.end()
    assert judge(StepOutlier(), profile) == []
    assert StepOutlier().missing(profile) == NO_STEPS


def test_a_start_that_takes_too_long_is_reported_with_its_minutes(profiling):
    profiling.samples({"cpu": [[1]] * 100}, interval=1.0)
    profiling.steps([0.1], start=START + 90)
    [finding] = judge(MaxInitializationTime(threshold=1), profiling.end())
    assert finding.value == pytest.approx(1.5)
    assert "1.5 minutes" in finding.message


def test_a_first_step_just_in_time_is_silent(profiling):
    profiling.samples({"cpu": [[1]] * 100}, interval=1.0)
    profiling.steps([0.1], start=START + 60)
    assert judge(MaxInitializationTime(threshold=1), profiling.end()) == []


def test_a_start_that_does_not_end_is_reported_while_it_lasts(profiling):
    profiling.samples({"cpu": [[1]] * 100}, interval=1.0)
    profile = type(profiling.end())(profiling.folder)
    for name in ("system", "framework"):
        (profiling.folder / name / "training_job_end.ts").unlink()
    profile.advance()
    rule = MaxInitializationTime(threshold=1, scan_interval_us=10_000_000)
    [finding] = rule.check(profile)
    assert finding.value == pytest.approx(70 / 60)


def test_too_few_and_too_many_loading_processes_are_reported(profiling):
    profiling.samples({"cpu": [[1] * 4] * 40})
    seconds = [(START + second, 0.5) for second in range(12)]
    profiling.events(seconds, phase="DataLoaderWorker", threads=[1] * 12)
    [finding] = judge(Dataloader(), profiling.end())
    assert (finding.value, finding.threshold) == (25, 70)
    many = [(START + 0.01 * place / 10, 11.5) for place in range(9)]
    profiling.events(many, phase="DataLoaderWorker", threads=range(2, 11))
    [finding] = judge(Dataloader(), profiling.end())
    assert (finding.value, finding.threshold) == (250, 200)


def test_as_many_loading_processes_as_cores_are_fine(profiling):
    profiling.samples({"cpu": [[1] * 4] * 40})
    several = [(START, 11.5)] * 4
    profiling.events(several, phase="DataLoaderWorker", threads=range(4))
    assert judge(Dataloader(), profiling.end()) == []


def test_the_time_of_each_phase_is_reported(profiling):
    profiling.steps([0.1, 0.3])
    profile = profiling.end()
    rule = OverallFrameworkMetrics()
    assert judge(rule, profile) == []
    reported = rule.report(profile)["Details"]["0-algo-1"]["Step:ModeKeys.TRAIN"]
    assert (reported["count"], reported["seconds"], reported["max"]) == (2, 0.4, 0.3)
