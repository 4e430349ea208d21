"""Lists and points of curves of real jobs, running and finished."""

import math

import numpy as np
import pytest

from tests.views.curves.conftest import stored_curves, write
from tests.wait import until
from trackside.curves.event_file import EventFile
from trackside.errors import CurveNotFound, InvalidCurveRequest, JobNotFound
from trackside.views.curves.binary_frame import decode, encode
from trackside.views.curves.curve_list import curve_id
from trackside.views.curves.live_points import LivePoints, NewPoints
from trackside.views.curves.series import CurveReader, CurveRef, SeriesRequest, View

LOSS = curve_id(".", "loss")


def series(reader: CurveReader, *refs: tuple[str, str], points: int = 100, **view):
    request = SeriesRequest(tuple(CurveRef(*ref) for ref in refs), View(points, **view))
    return {(item.job, item.id): item for item in reader.series(request)}


def test_the_curves_of_a_finished_job_are_listed_with_their_figures(jobs, finished) -> None:
    points = {
        "train/loss": [(step, 10.0 - step) for step in range(5)],
        "val/loss": [(2, 4.0), (4, math.nan)],
        "accuracy": [(1, 0.5), (2, 0.75), (3, 0.25)],
    }
    finished("job-1", {"": points, "system/algo-1": {"cpu/total_percent": [(0, 12.0)]}})
    found = {info.name: info for info in CurveReader(jobs).curves("job-1")}
    assert [*found] == ["train/loss", "val/loss", "accuracy", "cpu/total_percent"]
    loss = found["train/loss"].as_json()
    assert loss == {
        "id": curve_id(".", "train/loss"),
        "name": "train/loss",
        "group": "train",
        "chart": "loss",
        "phase": "train",
        "kind": "metric",
        "unit": "",
        "host": "",
        "same_as": "",
        "more_is_better": False,
        "count": 5,
        "first_step": 0,
        "last_step": 4,
        "last": 6.0,
        "min": 6.0,
        "max": 10.0,
        "best": 6.0,
        "best_step": 4,
    }
    assert found["val/loss"].chart == "loss"
    assert found["val/loss"].as_json()["last"] == "NaN"
    assert (found["accuracy"].best, found["accuracy"].best_step) == (0.75, 2)
    machine = found["cpu/total_percent"]
    assert (machine.kind, machine.unit, machine.host) == ("machine", "%", "algo-1")


def test_points_of_a_running_job_are_read_where_it_writes_them(jobs, running) -> None:
    file = write(running("job-1"), {"loss": [(1, 3.0), (2, 2.0)]})
    reader = CurveReader(jobs)
    assert series(reader, ("job-1", LOSS))["job-1", LOSS].y.tolist() == [3.0, 2.0]
    file.close()


def test_a_frame_has_what_the_contract_says(jobs, finished) -> None:
    finished("job-1", {"": {"loss": [(step, float(step)) for step in range(1000)]}})
    request = {
        "curves": [{"job": "job-1", "id": LOSS}],
        "x": "step",
        "from": 100,
        "to": 899,
        "points": 10,
    }
    items = CurveReader(jobs).series(SeriesRequest.from_json(request))
    [item] = decode(encode(item.as_frame_item() for item in items))
    arrays = item.pop("arrays")
    assert item == {
        "job": "job-1",
        "id": LOSS,
        "total": 800,
        "thinned": True,
        "first": 0.0,
        "last": 999.0,
    }
    # The ends of each column, and the points next to the range.
    assert len(arrays["x"]) == 22
    assert arrays["x"].tolist() == arrays["y"].tolist()
    assert (arrays["x"][0], arrays["x"][-1]) == (99.0, 900.0)


def test_x_may_be_another_curve_joined_by_step(jobs, finished) -> None:
    points = {
        "loss": [(1, 5.0), (2, 4.0), (3, 3.0), (4, 2.0)],
        "epoch": [(1, 0.5), (2, 0.25), (4, 1.0), (5, 2.0)],
    }
    finished("job-1", {"": points})
    epoch = curve_id(".", "epoch")
    item = series(CurveReader(jobs), ("job-1", LOSS), x=f"curve:{epoch}")["job-1", LOSS]
    assert [*zip(item.x, item.y, strict=True)] == [(0.25, 4.0), (0.5, 5.0), (1.0, 2.0)]


def test_relative_time_starts_with_the_job_s_first_point(jobs, finished) -> None:
    finished("job-1", {})
    file = EventFile(stored_curves(jobs, "job-1"))
    for step in range(3):
        file.add(("loss", 1.0, step, 1000.0 + step))
        file.add(("val_loss", 1.0, step, 1001.5 + step))
    file.close()
    reader = CurveReader(jobs)
    val = curve_id(".", "val_loss")
    found = series(reader, ("job-1", LOSS), ("job-1", val), x="relative")
    assert found["job-1", LOSS].x.tolist() == [0.0, 1.0, 2.0]
    assert found["job-1", val].x.tolist() == [1.5, 2.5, 3.5]
    assert series(reader, ("job-1", LOSS), x="time")["job-1", LOSS].x[0] == 1000.0


def test_what_cannot_be_read_is_said_beside_what_can(jobs, finished) -> None:
    finished("job-1", {"": {"loss": [(1, 1.0)]}})
    found = series(CurveReader(jobs), ("job-1", LOSS), ("job-1", "cnone"), ("job-2", LOSS))
    assert found["job-1", LOSS].y.tolist() == [1.0]
    assert "no curve 'cnone'" in found["job-1", "cnone"].error
    assert "job-2" in found["job-2", LOSS].error
    with pytest.raises(JobNotFound):
        CurveReader(jobs).curves("../../etc")
    with pytest.raises(CurveNotFound):
        CurveReader(jobs).points(CurveRef("job-1", "c"))


def test_the_csv_has_every_point(jobs, finished) -> None:
    finished("job-1", {"": {"loss": [(step, step / 2) for step in range(5000)]}})
    text = "".join(CurveReader(jobs).csv(CurveRef("job-1", LOSS)))
    lines = text.splitlines()
    assert lines[0] == "step,time,value"
    assert len(lines) == 5001
    assert lines[-1].split(",")[::2] == ["4999", "2499.5"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": 0}, "points = 0"),
        ({"points": True}, "points = True"),
        ({"points": 10**9}, "20,000"),
        ({"x": "epoch"}, "x = 'epoch'"),
        ({"x": None}, "x = None"),
        ({"from": "a"}, "from = 'a'"),
        ({"to": math.inf}, "to = inf"),
        ({"to": 10**400}, "to = 1000"),
        ({"from": 3, "to": 2}, "greater"),
        ({"curves": "x"}, "no list"),
        ({"curves": [{}] * 2001}, "no list"),
        ({"curves": [{"job": 1, "id": "a"}]}, "names no curve"),
        ({"curves": ["a"]}, "names no curve"),
    ],
)
def test_a_request_that_breaks_the_contract_is_refused(change, message) -> None:
    with pytest.raises(InvalidCurveRequest, match=message):
        SeriesRequest.from_json({"curves": [], "x": "step", "points": 10, **change})
    with pytest.raises(InvalidCurveRequest):
        SeriesRequest.from_json([1])


def test_new_points_are_those_since_the_last_poll(jobs, running) -> None:
    folder = running("job-1")
    file = write(folder, {"loss": [(1, 3.0), (2, 2.0)], "other": [(1, 0.0)]})
    reader = CurveReader(jobs)
    live = reader.live([CurveRef("job-1", LOSS), CurveRef("job-1", curve_id(".", "late"))])
    assert live.poll() == []
    write(folder, {"loss": [(3, math.inf)], "other": [(2, 0.0)]}, file)
    [new] = polled(live)
    assert new.as_json()["x"] == [3]
    assert new.as_json()["y"] == ["Infinity"]
    write(folder, {"loss": [(2, 5.0), (3, 6.0)]}, file)
    [new] = polled(live)
    assert (new.steps, new.values, new.replaces) == ([2, 2, 3], [2.0, 5.0, 6.0], True)
    write(folder, {"late": [(7, 1.0)]}, file)
    [new] = polled(live)
    assert (new.id, new.steps, new.replaces) == (curve_id(".", "late"), [7], False)
    file.close()


def polled(live: LivePoints) -> list[NewPoints]:
    return until(live.poll)


def test_the_frame_of_arrays_is_numpy_s(jobs, finished) -> None:
    finished("job-1", {"": {"loss": [(1, 0.1)]}})
    [item] = series(CurveReader(jobs), ("job-1", LOSS)).values()
    assert item.y.dtype == np.float64


def test_two_thousand_metrics_are_listed_and_found(jobs, finished) -> None:
    points = {f"layer_{n}/metric": [(0, float(n)), (1, n + 1.0)] for n in range(2000)}
    finished("job-1", {"": points})
    reader = CurveReader(jobs)
    found = reader.curves("job-1")
    assert len({info.id for info in found}) == 2000
    assert {(info.count, info.last - info.min) for info in found} == {(2, 1.0)}
    assert CurveReader(jobs).curves("job-1") == found
    last = found[-1]
    item = series(reader, ("job-1", last.id))["job-1", last.id]
    assert item.y.tolist() == [last.min, last.last]


def test_a_loss_that_is_logged_twice_names_the_one_that_is_shown(jobs, finished) -> None:
    values = [(step, 1.0 / (step + 1)) for step in range(20)]
    log = {"train_loss": [(step, round(value, 3)) for step, value in values]}
    finished("job-1", {"": {"train/loss": values}, "trackside/algo-1": log})
    found = {info.name: info for info in CurveReader(jobs).curves("job-1")}
    assert found["train_loss"].same_as == "train/loss"


def test_several_jobs_come_as_they_are_ready_each_once(jobs, finished) -> None:
    names = [finished(f"job-{n}", {"": {"loss": [(0, float(n))]}}) for n in range(5)]
    refs = [(name, LOSS) for name in names]
    reader = CurveReader(jobs)
    found = series(reader, *refs, *refs)
    assert {job: item.y.tolist() for (job, _), item in found.items()} == {
        name: [float(n)] for n, name in enumerate(names)
    }
    request = SeriesRequest(tuple(CurveRef(*ref) for ref in [*refs, *refs]), View(10))
    assert len([*reader.series(request)]) == 5
    reader.close()


def test_a_finished_job_is_stored_and_read_from_there(jobs, home, finished) -> None:
    finished("job-1", {"": {"loss": [(1, 1.0), (2, 2.0)]}})
    reader = CurveReader(jobs)
    reader.curves("job-1")
    assert home.series_of("job-1").exists()
    jobs.delete("job-1")
    assert not home.series_of("job-1").exists()
    finished("job-1", {"": {"loss": [(5, 5.0)]}})
    assert series(CurveReader(jobs), ("job-1", LOSS))["job-1", LOSS].x.tolist() == [5.0]


def test_a_job_that_finishes_is_read_on_from_storage(jobs, home, running) -> None:
    folder = running("job-1")
    file = write(folder, {"loss": [(1, 1.0)]})
    reader = CurveReader(jobs)
    live = reader.live([CurveRef("job-1", LOSS)])
    write(folder, {"loss": [(2, 2.0)]}, file)
    file.close()
    stored = stored_curves(jobs, "job-1")
    stored.mkdir(parents=True)
    (stored / file.path.name).write_bytes(file.path.read_bytes())
    (home.job("job-1").root / "release").touch()
    until(lambda: jobs.record("job-1").history.state.is_final)
    [new] = polled(live)
    assert (new.steps, new.replaces) == ([2], False)
    assert live.poll() == []
