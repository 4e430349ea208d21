"""The profiler's files read as they grow."""

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.rules.profiling import START, Profiling
from trackside.rules.saved import profile_tables
from trackside.rules.saved.profile import Profile
from trackside.rules.saved.profile_records import Timeline
from trackside.rules.saved.profile_tables import Samples
from trackside.storage.locate import locate


@pytest.fixture
def profiling(tmp_path):
    return Profiling(tmp_path / "profiler-output")


def lines(
    *values: float,
    name: str = "cpu0",
    start: float = START,
    form: Callable[[Any], str] = json.dumps,
) -> str:
    return "".join(
        form(
            {
                "Type": "cpu",
                "Name": name,
                "Dimension": "CPUUtilization",
                "Value": value,
                "NodeId": "algo-1",
                "Timestamp": start + place / 2,
            }
        )
        + "\n"
        for place, value in enumerate(values)
    )


def system_file(profiling: Profiling, name: str = "1591160640.algo-1.json") -> Path:
    path = profiling.folder / "system/incremental/2020060305" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def cpu(profile: Profile, node: str = "algo-1") -> Samples:
    return profile.nodes[node].samples("CPUUtilization")


def test_figures_are_arrays_by_node_and_dimension(profiling):
    profiling.samples({"cpu": [[1, 2], [3, 4]], "gpu": [[50], [60]]})
    profiling.samples({"cpu": [[9]]}, node="algo-2")
    profile = profiling.end()
    assert profile.advance()
    assert cpu(profile).names == ("cpu0", "cpu1")
    assert cpu(profile).values.tolist() == [[1, 2], [3, 4]]
    assert cpu(profile).times.tolist() == [START, START + 0.5]
    assert profile.columns("GPUUtilization") == [("algo-1", "gpu0")]
    assert cpu(profile, "algo-2").values.tolist() == [[9]]
    assert (profile.first_time, profile.last_time) == (START, START + 0.5)


def test_cores_are_in_the_order_of_their_numbers(profiling):
    profiling.samples({"cpu": [list(range(12))]})
    profile = profiling.end()
    profile.advance()
    assert cpu(profile).values.tolist() == [list(range(12))]


def test_nothing_yet_is_nothing_to_check_at(tmp_path):
    profile = Profile(tmp_path / "not there yet")
    assert not profile.advance()
    assert not profile.is_all
    assert list(profile.windows(None, 60)) == []


def test_the_end_is_reported_once(profiling):
    profile = profiling.end()
    assert profile.advance()
    assert profile.is_all
    assert not profile.advance()


def test_who_knows_that_the_job_has_ended_needs_no_marker(profiling):
    profiling.samples({"cpu": [[1]]})
    profile = Profile(profiling.folder)
    profile.end()
    assert profile.advance()
    assert profile.is_all
    assert len(cpu(profile)) == 1


def test_a_growing_file_is_read_on_from_where_it_was_and_a_torn_line_waits(profiling):
    path = system_file(profiling)
    text = lines(1, 2, 3)
    torn = len(text) - 20
    path.write_text(text[:torn])
    profile = Profile(profiling.folder)
    assert profile.advance()
    assert cpu(profile).values.ravel().tolist() == [1, 2]
    assert not profile.advance()
    # What was read is not read again: were it, these other values would show.
    path.write_text(lines(8, 9) + text[len(lines(1, 2)) :] + lines(4, start=START + 1.5))
    assert profile.advance()
    assert cpu(profile).values.ravel().tolist() == [1, 2, 3, 4]


def test_lines_of_other_writers_and_damaged_ones_are_understood_or_left_out(profiling):
    compact = lines(1, 2, form=lambda record: json.dumps(record, separators=(",", ":")))
    system_file(profiling).write_text(compact + "no json\n[1]\n{}\n" + lines(3, start=START + 1))
    profile = profiling.end()
    profile.advance()
    assert cpu(profile).values.ravel().tolist() == [1, 2, 3]


def test_figures_within_20_ms_are_one_check(profiling):
    system_file(profiling).write_text(
        lines(1) + lines(2, name="cpu1", start=START + 0.019) + lines(3, start=START + 0.1)
    )
    profile = profiling.end()
    profile.advance()
    assert np.array_equal(cpu(profile).values, np.array([[1, 2], [3, np.nan]]), equal_nan=True)


def test_a_check_that_comes_in_two_pieces_is_one_row(profiling):
    path = system_file(profiling)
    path.write_text(lines(1))
    profile = Profile(profiling.folder)
    profile.advance()
    path.write_text(lines(1) + lines(2, name="cpu1"))
    profile.advance()
    assert cpu(profile).values.tolist() == [[1, 2]]


def test_a_file_that_comes_late_is_put_in_its_place(profiling):
    system_file(profiling, "1591160700.algo-1.json").write_text(lines(3, start=START + 60))
    profile = Profile(profiling.folder)
    profile.advance()
    system_file(profiling).write_text(lines(1, 2))
    profile.advance()
    assert cpu(profile).values.ravel().tolist() == [1, 2, 3]


def test_steps_are_read_by_worker_and_phase(profiling):
    profiling.steps([0.1, 0.2])
    profile = profiling.end()
    profile.advance()
    steps = profile.events["0-algo-1"]["Step:ModeKeys.TRAIN"]
    assert np.allclose(steps.starts, [START, START + 0.1])
    assert np.allclose(steps.durations, [0.1, 0.2])
    assert steps.steps.tolist() == [0, 1]


def test_a_torn_timeline_is_read_up_to_its_last_whole_line_and_then_on(profiling):
    path = profiling.steps([0.1, 0.2, 0.3])
    whole = path.read_text()
    path.write_text(whole[: whole.rindex("{", 0, whole.rindex("{"))])
    profile = Profile(profiling.folder)
    profile.advance()
    steps = profile.events["0-algo-1"]["Step:ModeKeys.TRAIN"]
    assert steps.steps.tolist() == [0, 1]
    path.write_text(whole)
    profile.advance()
    steps = profile.events["0-algo-1"]["Step:ModeKeys.TRAIN"]
    assert steps.steps.tolist() == [0, 1, 2]
    assert np.allclose(steps.starts, START + np.array([0, 0.1, 0.3]))


def test_files_being_written_are_not_checked(profiling):
    path = profiling.steps([0.1])
    path.rename(path.with_suffix(".json.tmp"))
    profile = profiling.end()
    profile.advance()
    assert profile.events == {}


def test_windows_are_complete_stretches_and_the_last_has_the_rest(profiling):
    profiling.samples({"cpu": [[look] for look in range(25)]}, interval=1.0)
    profile = Profile(profiling.folder)
    profile.advance()
    assert [(w.start - START, w.end - START) for w in profile.windows(None, 10)] == [
        (0, 10),
        (10, 20),
    ]
    profiling.end()
    profile.advance()
    [last] = profile.windows(START + 20, 10)
    assert last.is_last
    assert last.samples("algo-1", "CPUUtilization").values.ravel().tolist() == [20, 21, 22, 23, 24]
    latest = last.latest("algo-1", "CPUUtilization", 3)
    assert latest.values.ravel().tolist() == [22, 23, 24]


def test_a_window_waits_for_a_slow_node_but_not_for_a_silent_one(profiling):
    profiling.samples({"cpu": [[1]] * 30}, interval=1.0)
    profiling.samples({"cpu": [[1]] * 12}, interval=1.0, node="algo-2")
    profile = Profile(profiling.folder)
    profile.advance()
    assert len(list(profile.windows(None, 10))) == 1
    profiling.samples({"cpu": [[1]] * 2}, start=START + 400)
    profile.advance()
    assert len(list(profile.windows(None, 10))) == 40


def test_a_clock_that_jumps_by_decades_is_not_gone_through_minute_by_minute(profiling):
    system_file(profiling).write_text(lines(1, 1, 1, start=5.0) + lines(2, 2, 2, *[2] * 60))
    profile = Profile(profiling.folder)
    profile.advance()
    windows = list(islice(profile.windows(None, 10), 100))
    assert len(windows) < 10
    figures = [window.samples("algo-1", "CPUUtilization").values for window in windows]
    assert {float(value) for each in figures for value in each.ravel()} == {1.0, 2.0}


@pytest.mark.parametrize(
    "line",
    [
        '{"Type": "cpu", "Name": "cpu0", "Dimension": "D", "Value": 1.2.3, "NodeId": "algo-1", '
        '"Timestamp": 1591160640.5}',
        '{"Type": "cpu", "Name": "cpu0", "Dimension": "D", "Value": 1, "NodeId": "algo-1", '
        '"Timestamp": 9999999999999999}',
        '{"Name": ["cpu0"], "Dimension": "D", "Value": 1, "NodeId": "algo-1", "Timestamp": 5}',
        '{"Name": "cpu0", "Dimension": "D", "Value": 1e999, "NodeId": "algo-1", "Timestamp": NaN}',
        f'{{"Name": "c", "Dimension": "D", "Value": {10**400}, "NodeId": "n", "Timestamp": 5}}',
        "[" * 100_000,
        "[1]",
    ],
    ids=["number", "year", "name", "time", "huge", "deep", "list"],
)
def test_a_damaged_line_of_figures_costs_itself(profiling, caplog, line: str):
    file = system_file(profiling)
    file.write_text(f"{line}\n{lines(3, 3, 3, 3)}")
    profile = Profile(profiling.folder)
    profile.advance()
    assert cpu(profile).values.ravel().tolist() == [3, 3, 3, 3]
    assert f"{file.name} of {profiling.folder} is damaged: 1 damaged record was" in caplog.text


@pytest.mark.parametrize(
    "record",
    [
        '{"ph": "M", "name": "process_name", "args": 5}',
        '{"ph": "M", "name": "process_name", "args": {"start_time_since_epoch_in_micros": "x"}}',
        '{"ph": "M", "name": "process_name", "pid": [], "args": {"name": "a"}}',
        '{"ph": "X", "name": "a", "pid": {}, "ts": 5}',
        '{"ph": "X", "name": "a", "ts": 1e400}',
        '{"ph": "X", "name": "a", "ts": 5, "args": {"step_num": 1e300}}',
        '{"ph": "X", "name": "a", "ts": 5, "args": [1]}',
        "[" * 100_000 + "{",
    ],
)
def test_a_damaged_record_of_a_timeline_costs_itself(record: str):
    good = '{"ph": "X", "name": "b", "ts": 7000000, "dur": 5, "args": {"step_num": 3}}'
    timeline = Timeline()
    found = timeline.parse(f"[\n{record},\n{good}\n".encode())
    assert found == {"b": [(7.0, 5e-06, 3, 0)]}
    assert timeline.num_damaged == 1


def test_a_figure_with_a_name_of_its_own_on_each_line_takes_no_room_for_all_pairs(profiling):
    made = [lines(1, name=f"cpu{number}", start=START + number) for number in range(5000)]
    system_file(profiling).write_text("".join(made))
    profile = Profile(profiling.folder)
    profile.advance()
    assert len(profile.nodes["algo-1"].names("CPUUtilization")) == profile_tables.MOST_COLUMNS


def test_old_rows_are_thinned_when_there_are_too_many(profiling, monkeypatch):
    monkeypatch.setattr(profile_tables, "MOST_ROWS", 8)
    profiling.samples({"cpu": [[look] for look in range(12)]})
    profile = profiling.end()
    profile.advance()
    assert cpu(profile).values.ravel().tolist() == [0, 2, 4, 6, 7, 8, 9, 10, 11]


def test_a_profile_in_object_storage_is_read_the_same(profiling, s3_server, bucket, monkeypatch):
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    profiling.samples({"cpu": [[1], [2]]})
    profiling.steps([0.1])
    profiling.end()
    place = locate(f"s3://{bucket}/job/profiler-output", home=profiling.folder)
    for path in profiling.folder.rglob("*.*"):
        if path.is_file():
            place.store.put(place.child(str(path.relative_to(profiling.folder))).key, path)
    profile = Profile(place)
    assert profile.advance()
    assert profile.is_all
    assert cpu(profile).values.ravel().tolist() == [1, 2]
    assert len(profile.events["0-algo-1"]["Step:ModeKeys.TRAIN"]) == 1


def test_an_hour_of_checks_is_read_whole(profiling):
    profiling.samples({"cpu": [[1.25, 2.5]] * 7200, "io": [[0, 0]] * 7200})
    profile = profiling.end()
    profile.advance()
    assert len(cpu(profile)) == 7200
