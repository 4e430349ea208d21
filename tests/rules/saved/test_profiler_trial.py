"""Profiler output through smdebug's interface."""

from threading import Timer

import pytest

from tests.rules.profiling import START, Profiling
from trackside.capture.exceptions import NoMoreProfilerData
from trackside.rules.saved import profiler_trial
from trackside.rules.saved.profiler_trial import ProfilerTrial

START_US = round(START * 1e6)
SECOND_US = 1_000_000


@pytest.fixture
def profiling(tmp_path, monkeypatch):
    monkeypatch.setattr(profiler_trial, "POLL_SECONDS", 0.01)
    return Profiling(tmp_path / "profiler-output")


def test_figures_between_two_moments(profiling):
    profiling.samples({"cpu": [[1, 2], [3, 4], [5, 6]]})
    trial = ProfilerTrial(profiling.folder)
    found = trial.get_system_metrics(START_US + SECOND_US // 2, START_US + SECOND_US)
    assert [(each.name, each.value) for each in found] == [("cpu0", 3), ("cpu1", 4)]
    assert found[0].dimension == "CPUUtilization"
    assert found[0].node_id == "algo-1"
    assert found[0].timestamp == START + 0.5
    assert trial.first_timestamp == START_US


def test_events_between_two_moments(profiling):
    profiling.steps([1.0, 2.0, 3.0])
    [event] = ProfilerTrial(profiling.folder).get_framework_metrics(
        START_US + SECOND_US, START_US + 3 * SECOND_US
    )
    assert event.event_phase == "Step:ModeKeys.TRAIN"
    assert (event.step, event.start_time - START_US) == (1, SECOND_US)
    assert event.end_time == START_US + 3 * SECOND_US


def test_waiting_ends_when_the_data_is_there(profiling):
    trial = ProfilerTrial(profiling.folder)
    assert trial.first_timestamp == 0
    writer = Timer(0.1, lambda: profiling.samples({"cpu": [[1]] * 5}))
    writer.start()
    trial.wait_for_data(START_US + 2 * SECOND_US)
    writer.join()
    assert trial.last_timestamp == START_US + 2 * SECOND_US


def test_waiting_for_what_will_never_come_is_reported(profiling):
    profiling.samples({"cpu": [[1]] * 5})
    profiling.end()
    trial = ProfilerTrial(profiling.folder)
    trial.wait_for_data(START_US + 60 * SECOND_US, START_US)  # there is some
    with pytest.raises(NoMoreProfilerData) as raised:
        trial.wait_for_data(START_US + 60 * SECOND_US, START_US + 30 * SECOND_US)
    assert raised.value.timestamp == START_US + 30 * SECOND_US
