"""Jobs side by side: only what differs, and each metric's figures."""

import io
import json
import math
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pytest

from tests.jobs.conftest import embedded_buckets as embedded_buckets
from tests.jobs.conftest import home as home
from tests.jobs.conftest import is_training, make_spec, run_to_end
from tests.jobs.conftest import jobs as jobs
from tests.jobs.conftest import settings as settings
from tests.views.many_jobs import CREATED, ended_job, put, write_curve
from tests.wait import until
from trackside.errors import InputError, JobNotFound
from trackside.files.json_record import numbered
from trackside.jobs.jobs import Jobs
from trackside.records import channel_data
from trackside.records.layout import FIRST_HOST, Home, JobKeys
from trackside.records.machine import Machine
from trackside.records.script_packages import ScriptPackages
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary
from trackside.views.comparison import compare
from trackside.views.comparison.compare import Compare, Comparer, differences
from trackside.views.comparison.compared_setup import Fact
from trackside.views.curves.series import CurveReader


@pytest.fixture
def comparer(jobs: Jobs) -> Iterator[Comparer]:
    reader = CurveReader(jobs)
    yield Comparer(jobs, reader)
    reader.close()


def record(
    home: Home,
    spec: JobSpec,
    *,
    packages: Mapping[str, str],
    code: Mapping[str, str],
    machine: Mapping[str, str],
) -> None:
    keys = JobKeys.of(spec)
    installed = ScriptPackages("3.11.7", dict(packages))
    put(home, keys.packages(FIRST_HOST), json.dumps(numbered(installed)).encode())
    put(home, keys.machine(FIRST_HOST), json.dumps(numbered(Machine(dict(machine)))).encode())
    for path, text in code.items():
        put(home, f"{keys.prefix}/code/{path}", text.encode())


def made(
    home: Home, name: str, *, lr: str, numpy: str, train: str, values: Sequence[float]
) -> None:
    keys = JobKeys(JobKeys.of(make_spec()).output, name)
    spec = ended_job(
        home,
        name,
        hyper={
            "lr": lr,
            "layers": "3",
            "api_token": f"hush-{lr}",
            "sagemaker_submit_directory": json.dumps(f"{keys.prefix}/code"),
        },
        arguments=["--amp", "--seed", "1" if lr == "0.1" else "2"],
        curves={("", "loss/val"): values, ("", "acc"): values, ("system/algo-1", "cpu"): values},
        as_=Secondary.FAILED if name == "c" else Secondary.COMPLETED,
    )
    record(
        home,
        spec,
        packages={"numpy": numpy, "torch": "2.13.0"},
        code={"train.py": train, "same.py": "1"},
        machine={"host": "gpu-1", "cores": "8"},
    )


def rows(found: Compare) -> list[tuple[str, str, list[str | None]]]:
    return [(row.kind, row.name, row.values) for row in found.rows]


def test_only_what_differs_is_listed(jobs: Jobs, home: Home, comparer: Comparer):
    made(home, "a", lr="0.1", numpy="1.26", train="x = 1", values=[0.5, 0.25])
    made(home, "b", lr="0.01", numpy="2.1", train="x = 2", values=[0.5, 0.75, 1.0])
    jobs.reindex()
    found = comparer.compare(["a", "b", "a"])
    assert [asdict(job) for job in found.jobs] == [
        {"name": "a", "shown": "a", "status": "Completed", "seconds": 60},
        {"name": "b", "shown": "b", "status": "Completed", "seconds": 60},
    ]
    *others, code, package = rows(found)
    assert others == [
        ("hyperparameter", "api_token", ["***", "***"]),
        ("hyperparameter", "lr", ["0.1", "0.01"]),
        ("argument", "seed", ["1", "2"]),
    ]
    assert code[:2] == ("code", "train.py")
    assert len({*code[2]}) == 2
    assert package == ("package", "numpy", ["1.26", "2.1"])
    # layers, amp, same.py, python, torch, host, cores, hosts
    assert found.same == 8
    assert "hush" not in json.dumps(found.to_json())
    assert comparer.compare(["a"]).rows == []


def packed(**files: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"{name}.py")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


def test_the_code_of_many_jobs_is_compared_by_its_content(
    jobs: Jobs, home: Home, comparer: Comparer
):
    """Files of the same size; most jobs have the same archive."""
    names = [f"job-{number}" for number in range(70)]
    usual, other = packed(train="x = 1", same="1"), packed(train="x = 2", same="1")
    for number, name in enumerate(names):
        spec = ended_job(home, name, hyper={"sagemaker_program": "train.py"})
        put(home, JobKeys.of(spec).source, other if number == 42 else usual)
    jobs.reindex()

    [code] = [row for row in comparer.compare(names).rows if row.kind == "code"]

    assert code.name == "train.py"
    assert [number for number, each in enumerate(code.values) if each != code.values[0]] == [42]


def test_metrics_have_their_figures_and_the_value_at_a_step(
    jobs: Jobs, home: Home, comparer: Comparer
):
    made(home, "a", lr="0.1", numpy="1", train="", values=[0.5, 0.25, math.nan])
    made(home, "b", lr="0.1", numpy="1", train="", values=[0.5, 0.75])
    ended_job(home, "none")
    jobs.reindex()
    found = comparer.compare(["a", "b", "none"], at_step=1).to_json()
    json.dumps(found, allow_nan=False)
    loss, acc = found["metrics"]
    assert (loss["name"], loss["more_is_better"]) == ("loss/val", False)
    assert loss["last"] == ["NaN", 0.75, None]
    assert loss["best"] == loss["min"] == [0.25, 0.5, None]
    assert acc["best"] == acc["max"] == [0.5, 0.75, None]
    assert loss["at"] == [0.25, 0.75, None]
    assert loss["ids"][0] == loss["ids"][1] != acc["ids"][0]
    assert loss["ids"][2] is None
    beyond = comparer.compare(["a", "b"], at_step=2).metrics[0].at
    assert beyond[1] is None
    assert math.isnan(beyond[0] or 0.0)
    assert comparer.compare(["a"]).metrics[0].at == [None]


def test_what_was_not_recorded_differs_from_nothing(jobs: Jobs, home: Home, comparer: Comparer):
    made(home, "a", lr="0.1", numpy="1", train="x", values=[1.0])
    made(home, "b", lr="0.1", numpy="2", train="x", values=[1.0])
    ended_job(home, "old", hyper={"lr": "0.1", "layers": "3", "api_token": "hush-0.1"})
    jobs.reindex()
    found = comparer.compare(["a", "old"])
    assert {row.kind for row in found.rows} == {"argument"}
    both = comparer.compare(["a", "b", "old"])
    assert [row.values for row in both.rows if row.kind == "package"] == [["1", "2", None]]


def test_a_running_job_is_compared_as_it_is(jobs: Jobs, home: Home, comparer: Comparer):
    ended_job(home, "before", hyper={"hold": "1"}, curves={("", "loss"): [2.0]})
    jobs.reindex()
    jobs.submit(make_spec("now", hyper={"hold": "1", "lr": "3"}))
    until(lambda: is_training(jobs, "now"))
    assert rows(comparer.compare(["before", "now"])) == [("hyperparameter", "lr", [None, "3"])]
    written = home.job("now").host("algo-1", 1).curves
    write_curve(written / "trackside" / "algo-1", "loss", [3.0, 1.0])
    until(lambda: comparer.compare(["before", "now"]).metrics[0].last == [2.0, 1.0])
    seconds = comparer.compare(["now"]).jobs[0].seconds
    assert seconds is not None
    assert seconds >= 0
    (home.job("now").root / "release").touch()
    run_to_end(jobs, "now")


def test_data_is_compared_by_its_digest(jobs: Jobs, home: Home, comparer: Comparer):
    channel = {
        "ChannelName": "train",
        "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://data/set"}},
    }
    for name, version in (("a", "v1"), ("b", "v2")):
        spec = ended_job(home, name, InputDataConfig=[channel])
        data = channel_data.summary("train", "s3://data/set", [("x.csv", 1000, version)])
        where = JobKeys.of(spec).data_list("train")
        put(home, where, json.dumps(numbered(data)).encode())
    jobs.reindex()
    [(kind, name, values)] = rows(comparer.compare(["a", "b"]))
    assert (kind, name) == ("data", "train")
    assert values[0] != values[1]
    assert all(value and value.startswith("s3://data/set (1 files, 1.0 kB, ") for value in values)


def test_tags_are_compared_as_they_are_now(jobs: Jobs, home: Home, comparer: Comparer):
    """Those of jobs that have ended, too, of which other facts are kept."""
    for name in ("one", "two"):
        made(home, name, lr="0.1", numpy="2.0", train="", values=[1.0])
    jobs.reindex()
    assert comparer.compare(["one", "two"]).rows == []
    jobs.change_tags("two", put={"team": "nlp", "hub_token": "hush"})
    assert rows(comparer.compare(["one", "two"])) == [
        ("tag", "hub_token", [None, "***"]),
        ("tag", "team", [None, "nlp"]),
    ]


def test_two_hundred_jobs_are_compared(jobs: Jobs, home: Home, comparer: Comparer):
    for number in range(200):
        ended_job(
            home,
            f"job-{number}",
            created=CREATED + number,
            hyper={"seed": str(number), "lr": "1"},
            curves={("", "loss"): [1.0, number / 256]},
        )
    jobs.reindex()
    found = comparer.compare([f"job-{number}" for number in range(200)], at_step=0)
    assert rows(found) == [("hyperparameter", "seed", [str(number) for number in range(200)])]
    [loss] = found.metrics
    assert loss.last == [number / 256 for number in range(200)]
    assert loss.at == [1.0] * 200


def test_a_comparison_in_parts_is_the_same(jobs: Jobs, home: Home, comparer: Comparer):
    """Each job once, in whatever order; figures and what differs as in the whole."""
    made(home, "a", lr="0.1", numpy="1.26", train="x = 1", values=[0.5, 0.25, math.nan])
    made(home, "b", lr="0.01", numpy="2.1", train="x = 2", values=[0.5, 0.75])
    ended_job(home, "none")
    jobs.reindex()
    names = ["a", "none", "b", "a"]
    whole = comparer.compare(names, at_step=1).to_json()
    parts = sorted(comparer.parts(names, at_step=1), key=lambda part: part["at"])
    assert [part["job"] for part in parts] == whole["jobs"]
    loss = {part["at"]: curve for part in parts for curve in part["curves"] if "loss" in curve[0]}
    assert [loss[at][3] if at in loss else None for at in range(3)] == whole["metrics"][0]["last"]
    assert [loss[at][7] if at in loss else None for at in range(3)] == whole["metrics"][0]["at"]
    rest = comparer.differences(names)
    assert (rest["rows"], rest["same"]) == (whole["rows"], whole["same"])


def test_a_comparison_is_given_before_all_jobs_are_read(
    jobs: Jobs, home: Home, comparer: Comparer, monkeypatch: pytest.MonkeyPatch
):
    names = [f"job-{number}" for number in range(6)]
    for name in names:
        ended_job(home, name, curves={("", "loss"): [1.0]})
    jobs.reindex()
    release, read = threading.Event(), CurveReader.curves

    def slow(reader: CurveReader, job: str, **how: Any) -> Any:
        if job != "job-1":
            assert release.wait(30)
        return read(reader, job, **how)

    monkeypatch.setattr(CurveReader, "curves", slow)
    parts = comparer.parts(names)
    assert next(parts)["job"]["name"] == "job-1"
    parts.close()  # as when nobody looks any more: what has not begun is not read
    release.set()


def test_unknown_and_too_many_jobs_are_refused(comparer: Comparer, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(JobNotFound):
        comparer.compare(["none-of-these"])
    monkeypatch.setattr(compare, "MOST_JOBS", 2)
    with pytest.raises(InputError, match="3 jobs are too many to compare. Choose 2"):
        comparer.compare(["a", "b", "c"])


def facts(**values: str) -> dict[tuple[str, str], Fact]:
    """`package_numpy` is of the kind package."""
    keyed: dict[tuple[str, str], Any] = {}
    for name, value in values.items():
        kind, _, rest = name.partition("_")
        keyed[kind, rest] = Fact(value, value)
    return keyed


def test_kinds_are_in_order_and_absent_hyperparameters_differ():
    found, same = differences(
        [
            facts(package_a="1", hyperparameter_x="1", hyperparameter_y="1"),
            facts(package_a="2", hyperparameter_x="1"),
        ]
    )
    assert [(row.kind, row.name, row.values) for row in found] == [
        ("hyperparameter", "y", ["1", None]),
        ("package", "a", ["1", "2"]),
    ]
    assert same == 1
