"""Metrics found in a log, as curves and as totals."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from trackside.curves.log_metrics import LogMetrics, MetricsKeeper, reported_points
from trackside.files import durable
from trackside.files.json_record import DamagedRecord
from trackside.records.metric_totals import MetricTotal, from_json, merged
from trackside.records.spec import MetricDefinition

LOSS = MetricDefinition(name="loss", regex=r"loss=([-+.\w]+)")


class Host:
    sources: ClassVar[list[LogMetrics]] = []

    def __init__(self, root: Path, *definitions: MetricDefinition) -> None:
        self.root = root
        self.definitions = definitions
        self.log, self.times, self.reported = root / "log", root / "log.times", root / "reported"
        self.log.touch()
        self.reported.mkdir(exist_ok=True)
        self.keeper = self.new_keeper()

    def new_keeper(self) -> MetricsKeeper:
        source = LogMetrics(self.definitions, self.log, self.times, self.reported)
        self.sources.append(source)
        return MetricsKeeper(source, self.root / "curves", self.root / "totals.json")

    def write(self, data: bytes, time: float) -> None:
        with self.log.open("ab") as log:
            log.write(data)
        with self.times.open("a") as times:
            times.write(f"{self.log.stat().st_size} {time:.3f}\n")

    def points(self, name: str = "loss") -> list[tuple[int, float, float]]:
        if not (self.root / "curves").exists():
            return []
        events = EventAccumulator(str(self.root / "curves"), size_guidance={"scalars": 0})
        events.Reload()
        if name not in events.Tags()["scalars"]:
            return []
        return [(point.step, point.wall_time, point.value) for point in events.Scalars(name)]

    def totals(self) -> dict[str, MetricTotal]:
        return from_json(json.loads((self.root / "totals.json").read_bytes())).metrics


@pytest.fixture(autouse=True)
def searches_end() -> Iterator[None]:
    yield
    for source in Host.sources:
        source.close()
    Host.sources.clear()


def test_every_match_becomes_a_point_with_the_time_of_its_line(tmp_path):
    host = Host(tmp_path, LOSS)
    host.write(b"loss=1.5 then loss=1.25\n", 100.0)
    host.write(b"nothing\n 10%| loss=1\r 20%| loss=0.5\r\n", 101.0)
    host.keeper.tick()
    assert host.points() == [(0, 100.0, 1.5), (1, 100.0, 1.25), (2, 101.0, 1.0), (3, 101.0, 0.5)]
    total = host.totals()["loss"]
    assert (total.count, total.value, total.least, total.most) == (4, 0.5, 0.5, 1.5)


def test_what_is_no_number_does_not_count_and_nan_does(tmp_path):
    host = Host(tmp_path, LOSS)
    host.write(b"loss=unknown\nloss=1.2.3\nloss=2e-3\nloss=nan\nloss=-inf\n", 100.0)
    host.keeper.tick()
    values = [str(round(value, 6)) for _, _, value in host.points()]
    assert values == ["0.002", "nan", "-inf"]


def test_a_line_waits_until_it_is_whole_and_the_last_one_needs_no_end(tmp_path):
    host = Host(tmp_path, LOSS)
    host.write(b"loss=1", 100.0)
    host.keeper.tick()
    assert host.points() == []
    host.write(b"2\nloss=7", 101.0)
    host.keeper.tick()
    assert host.points() == [(0, 100.0, 12.0)]
    host.keeper.tick(last=True)
    assert [value for _, _, value in host.points()] == [12.0, 7.0]


def test_bytes_that_are_no_text_and_lines_without_end_are_survived(tmp_path):
    host = Host(tmp_path, LOSS)
    host.write(b"\xff\x00loss=3\n" + b"x" * (3 << 20) + b"\nloss=4\n", 100.0)
    host.keeper.tick()
    assert [value for _, _, value in host.points()] == [3.0, 4.0]


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_process_that_takes_over_repeats_and_misses_nothing(tmp_path, is_kept: bool):
    host = Host(tmp_path, LOSS)
    for number in range(5):
        saved = (tmp_path / "totals.json").read_bytes() if number else None
        host.write(f"loss={number}\n".encode(), 100.0 + number)
        host.keeper.tick()
        if not is_kept and saved is not None:
            # Killed after the event file was written, before the totals were.
            durable.write_bytes(tmp_path / "totals.json", saved)
        host.keeper = host.new_keeper()
    host.keeper.tick(last=True)
    assert host.points() == [(number, 100.0 + number, float(number)) for number in range(5)]
    assert len(list((tmp_path / "curves").iterdir())) == 1


def test_an_invalid_expression_is_reported_and_the_others_work(tmp_path, caplog):
    host = Host(tmp_path, MetricDefinition(name="bad", regex="("), LOSS)
    host.write(b"loss=1\n", 100.0)
    host.keeper.tick()
    assert len(host.points()) == 1
    assert "'bad' is not collected any more: its pattern '(' is not a regular" in caplog.text


HOSTILE = MetricDefinition(name="hostile", regex=r"^(\d+\.?\d*)*$")
ENDLESS = b"1" * 60 + b"!\n"


def test_a_pattern_that_searches_for_ever_is_switched_off_and_the_others_go_on(tmp_path, caplog):
    host = Host(tmp_path, HOSTILE, LOSS)
    host.write(b"5\n" + ENDLESS + b"loss=1\n", 100.0)
    host.keeper.tick()
    assert [value for _, _, value in host.points()] == [1.0]
    assert [value for _, _, value in host.points("hostile")] == [5.0]
    assert caplog.text.count("'hostile' is not collected any more") == 1
    state = json.loads((tmp_path / "totals.json").read_bytes())
    assert state["switched_off"].keys() == {HOSTILE.regex}
    # A process that takes over does not retry it.
    host.keeper = host.new_keeper()
    host.write(ENDLESS + b"loss=2\n", 101.0)
    host.keeper.tick(last=True)
    assert caplog.text.count("'hostile' is not collected any more") == 1
    assert [value for _, _, value in host.points()] == [1.0, 2.0]


def test_a_killed_search_is_done_again(tmp_path):
    host = Host(tmp_path, LOSS)
    host.write(b"loss=1\n", 100.0)
    host.keeper.tick()
    [child] = searches()
    os.kill(child, signal.SIGKILL)
    host.write(b"loss=2\n", 101.0)
    host.keeper.tick()
    assert [value for _, _, value in host.points()] == [1.0, 2.0]
    assert searches() != [child]


def test_no_process_is_left_when_the_log_has_ended(tmp_path):
    host = Host(tmp_path, LOSS)
    host.write(b"loss=1\n", 100.0)
    host.keeper.tick()
    assert len(searches()) == 1
    host.keeper.tick(last=True)
    assert searches() == []


def searches() -> list[int]:
    return [
        child.pid for child in psutil.Process().children() if "pattern_worker" in command_of(child)
    ]


def command_of(child: psutil.Process) -> str:
    with suppress(psutil.Error):  # another test's, which has just ended
        return " ".join(child.cmdline())
    return ""


def test_lines_of_the_metrics_folder_are_metrics_too(tmp_path):
    host = Host(tmp_path)
    line = {"MetricName": "ce_TRAIN", "Value": 1.5, "Timestamp": 5000, "IterationNumber": 40}
    (host.reported / "17.json").write_text(json.dumps(line) + "\n{rubbish\n[]\n")
    host.keeper.tick()
    host.keeper.tick(last=True)
    assert host.points("ce_TRAIN") == [(40, 5.0, 1.5)]


def test_the_last_value_of_several_hosts_is_the_newest(tmp_path):
    hosts = []
    for name, (value, moment) in {"a": (1, 101.0), "b": (2, 100.0)}.items():
        (tmp_path / name).mkdir()
        host = Host(tmp_path / name, LOSS)
        host.write(f"loss={value}\n".encode(), moment)
        host.keeper.tick()
        hosts.append(host.totals())
    total = merged(hosts)["loss"]
    assert (total.value, total.count, total.least, total.most) == (1.0, 2, 1.0, 2.0)


@pytest.mark.parametrize(
    "line",
    [
        b"[1]",
        b"[" * 100_000,
        b'{"MetricName": "a", "Value": 1, "Timestamp": 1e300}',
        b'{"MetricName": "a", "Value": 1, "Timestamp": NaN}',
        b'{"MetricName": "a", "Value": 1, "Timestamp": -1}',
        b'{"MetricName": "a", "Value": 1' + b"0" * 400 + b', "Timestamp": 1}',
        b'{"MetricName": "a", "Value": 1, "Timestamp": 1, "IterationNumber": 1e999}',
    ],
    ids=["list", "deep", "year", "no time", "before all", "huge", "no step"],
)
def test_a_line_without_a_metric_is_skipped(line: bytes):
    assert list(reported_points(line)) == []


def test_one_damaged_metric_costs_itself():
    total = {"count": 1, "value": float("nan"), "time": 1.7e9, "least": 0.5, "most": 0.5}
    content = {"metrics": {"a": total, "b": [1], "c": {**total, "time": 1e300}}, "offsets": {"": 5}}
    found = from_json(content)
    assert [*found.metrics] == ["a"]
    assert found.offsets == {"": 5}
    odd: list[dict[str, Any]] = [{}, {"metrics": []}, {"metrics": {}, "offsets": {"": "x"}}]
    for damaged in odd:
        with pytest.raises(DamagedRecord):
            from_json(damaged)
