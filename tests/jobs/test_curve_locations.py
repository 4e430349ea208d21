"""Where curves are read while a job runs: of its own folders, or of what was stored of them."""

from dataclasses import replace
from typing import Any

from tests.jobs.conftest import make_spec
from trackside.jobs.curve_locations import curve_places, own_curve_places
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import read_folder
from trackside.records import kept_list
from trackside.records.kept_list import KeptList
from trackside.records.layout import Home
from trackside.system.run_as import Choice

TENSORBOARD: dict[str, Any] = {"TensorBoardOutputConfig": {"S3OutputPath": "s3://bucket/curves"}}


def test_a_running_job_s_curves_are_read_where_they_are_written(jobs: Jobs, home: Home) -> None:
    jobs.submit(make_spec("job-1", hyper={"hold": "1"}, **TENSORBOARD))
    record = read_folder(home.job("job-1"))
    host = home.job("job-1").host("algo-1", 1)
    places = [place.local for place in curve_places(record, home)]
    assert places == [host.inside("/opt/ml/output/tensorboard"), host.curves]


def test_those_of_another_user_s_script_are_read_from_storage(jobs: Jobs, home: Home) -> None:
    """In its folder may be links to files that are kept from it."""
    jobs.submit(make_spec("job-1", hyper={"hold": "1"}, **TENSORBOARD))
    record = read_folder(home.job("job-1"))
    note = {"what": "run_as", "user": "alice", "is_shared": True}
    noted = replace(record, history=replace(record.history, notes=(note,)))
    assert noted.history.run_as == Choice("alice")
    [place] = curve_places(noted, home)
    assert str(place) == "s3://bucket/curves/job-1/tensorboard-output"
    [own] = own_curve_places(noted, home, "system")
    assert own.local == home.job("job-1").host("algo-1", 1).curves / "system"
    plain = replace(noted, spec=replace(noted.spec, tensorboard=None))
    [place] = curve_places(plain, home)
    assert str(place) == "s3://out/runs/job-1/trackside/curves"


def test_those_in_the_working_folder_are_read_from_storage(jobs: Jobs, home: Home) -> None:
    jobs.submit(make_spec("job-1", hyper={"hold": "1"}))
    record = read_folder(home.job("job-1"))
    host = home.job("job-1").host("algo-1", 1)
    places = [place.local for place in curve_places(record, home)]
    assert places == [host.inside("/opt/ml/output/tensorboard"), host.curves]
    events = ["runs/exp1/events.out.tfevents.1.host"]
    kept_list.write(host.kept_list("algo-1"), KeptList(host="algo-1", events=events))
    [place] = curve_places(record, home)
    assert str(place) == "s3://out/runs/job-1/trackside/curves"
