"""The table of jobs: what its rows show, how they are found and sorted, and what changes when."""

import json
import math
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event
from typing import Any

import pytest

from tests.jobs.conftest import embedded_buckets as embedded_buckets
from tests.jobs.conftest import home as home
from tests.jobs.conftest import is_training, make_jobs, make_spec, run_to_end
from tests.jobs.conftest import jobs as jobs
from tests.jobs.conftest import settings as settings
from tests.views.many_jobs import CHECKUP, CREATED, curves_folder, ended_job, put, write_curve
from tests.wait import until
from trackside.curves.loggers.printed_metrics import STATE
from trackside.errors import BadQuery
from trackside.files.json_record import numbered
from trackside.jobs.jobs import Jobs
from trackside.records.finding import Finding
from trackside.records.layout import Home, JobKeys
from trackside.records.machine import Machine
from trackside.records.rule_status import Evaluation, RuleStatus, write_evaluations
from trackside.records.status import Secondary
from trackside.views.job.live_job import LiveJob
from trackside.views.query.search_conditions import Name, Value
from trackside.views.table import job_table
from trackside.views.table.job_row import KnownJob, Viewer, values_of
from trackside.views.table.job_table import JobTable, TableRequest
from trackside.views.table.row_cache import RowCache

FINDING = Finding(
    rule="LearningRateZero",
    configuration="Checkup",
    message="The learning rate is 0 in all 36 updates.",
    advice="Print the rate.",
    step=3,
    time=CREATED,
)


@pytest.fixture
def open_table(jobs: Jobs, home: Home) -> Iterator[Callable[..., JobTable]]:
    opened: list[JobTable] = []

    def open_(*, of: Jobs | None = None, **options: Any) -> JobTable:
        opened.append(JobTable(of or jobs, cache=RowCache(home.job_table), **options))
        return opened[-1]

    yield open_
    for table in opened:
        table.close()


@pytest.fixture
def read_table(open_table: Callable[..., JobTable]) -> Callable[[], JobTable]:
    """With every job read."""

    def open_() -> JobTable:
        table = open_table(is_read_on_demand=True)
        table.read_all()
        return table

    return open_


def names(table: JobTable, query: str = "", **options: Any) -> list[str]:
    rows = table.find(TableRequest(query=query, **options)).rows
    return [row["name"] for row in rows]


REASON = """AlgorithmError: ExecuteUserScriptError:
ExitCode 1
ErrorMessage "KeyError: 'x', at train.py:31
  more"
Command "python train.py\""""


def three_jobs(jobs: Jobs, home: Home) -> None:
    for number, (name, lr, loss) in enumerate(
        [("a", "0.1", 0.25), ("b", "1e-3", 0.125), ("c", "1", 9)]
    ):
        ended_job(
            home,
            f"bert-{name}",
            created=CREATED + number,
            trained_seconds=60.0 * (number + 1),
            as_=Secondary.FAILED if name == "c" else Secondary.COMPLETED,
            hyper={"lr": lr, "sagemaker_x": "hidden"},
            tags={"team": "vision"} if name == "a" else {},
            arguments=["--batch-size", "32"] if name == "b" else [],
            curves={
                ("runs", "loss/train"): [2.0, 1.0, loss],
                ("runs", "acc/val"): [0.1, math.nan if name == "c" else 1 - loss],
                ("system/algo-1", "cpu/total_percent"): [10.0, 30.0],
                ("system/algo-1", "memory/used_percent"): [50.0],
                ("system/algo-1", "gpu_0/utilization_percent"): [90.0],
                ("system/algo-1", "gpu_1/utilization_percent"): [70.0],
            },
            findings=[FINDING] if name == "c" else (),
            reason=REASON if name == "c" else "",
        )
    facts = json.dumps(numbered(Machine({"host": "gpu-7"}))).encode()
    put(home, jobs_keys("bert-a").machine("algo-1"), facts)
    jobs.reindex()


def jobs_keys(name: str) -> JobKeys:
    return JobKeys.of(make_spec(name))


def test_a_row_tells_all_of_a_job_that_has_ended(
    jobs: Jobs, home: Home, read_table: Callable[[], JobTable]
):
    three_jobs(jobs, home)
    viewer = Viewer(may_change=lambda name, owner: (name, owner) != ("bert-c", "ci"))
    columns = ("param.lr", "metric.acc/val", "tag.team", "param.none")
    found = read_table().find(TableRequest(columns=columns), viewer)
    assert (found.total, found.matching) == (3, 3)
    assert found.columns == [
        *("metric.acc/val", "metric.loss/train", "param.batch-size", "param.lr", "tag.team"),
    ]
    sick, plain, tagged = json.loads(json.dumps(found.to_json(), allow_nan=False))["rows"]
    assert sick == {
        "name": "bert-c",
        "shown": "bert-c",
        "owner": "ci",
        "status": "Failed",
        "secondary": "Failed",
        "failure": "KeyError: 'x', at train.py:31",
        "created": CREATED + 2,
        "started": CREATED + 3,
        "ended": CREATED + 183,
        "seconds": 180.0,
        "progress": {"step": 2, "of": None},
        "loss": {"name": "loss/train", "last": 9.0, "spark": [2.0, 1.0, 9.0]},
        "findings": {
            "count": 1,
            "sentence": "The learning rate is 0 in all 36 updates (since step 3).",
            "rule": "LearningRateZero",
            "step": 3,
        },
        "hosts": 1,
        "use": {"cpu": 20.0, "memory": 50.0, "gpu": 80.0},
        "tags": {},
        "note": "",
        "values": {"param.lr": "1", "metric.acc/val": "NaN"},
        "may_change": False,
    }
    assert (plain["findings"], plain["may_change"]) == (None, True)
    assert tagged["tags"] == {"team": "vision"}
    assert tagged["values"] == {"param.lr": "0.1", "metric.acc/val": 0.75, "tag.team": "vision"}


def test_a_query_that_takes_long_keeps_nobody_waiting(
    jobs: Jobs, home: Home, read_table: Callable[[], JobTable], monkeypatch: pytest.MonkeyPatch
):
    three_jobs(jobs, home)
    table = read_table()
    began, go_on = Event(), Event()

    def slow(job: KnownJob, name: Name, now: float) -> Sequence[Value]:
        if name.text == "slow":
            began.set()
            assert go_on.wait(60)
        return values_of(job, name, now)

    monkeypatch.setattr(job_table, "values_of", slow)
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(names, table, "slow>1")
        try:
            assert began.wait(60)
            other = pool.submit(names, table, "lr>0.5")
            assert other.result(timeout=60) == ["bert-c"]
            assert not waiting.done()
        finally:
            go_on.set()
        assert waiting.result(timeout=60) == []


def test_every_column_that_the_page_shows_sorts(
    jobs: Jobs, home: Home, read_table: Callable[[], JobTable]
):
    for number, (name, use, tags) in enumerate(
        [("a", 50.0, {"team": "b"}), ("b", 10.0, {}), ("c", 90.0, {"team": "a"})]
    ):
        curves = {
            ("runs", "loss"): [1.0] * (5 - number),
            ("system/algo-1", "cpu/total_percent"): [use],
        }
        ended_job(home, name, created=CREATED + number, tags=tags, curves=curves)
    jobs.reindex()
    table = read_table()
    assert names(table, sort="use") == ["c", "a", "b"]
    assert names(table, sort="use", is_descending=False) == ["b", "a", "c"]
    assert names(table, sort="tags", is_descending=False) == ["c", "a", "b"]
    assert names(table, sort="progress") == ["a", "b", "c"]  # how many there will be is not known
    assert names(table, sort="progress", is_descending=False) == ["c", "b", "a"]
    assert names(table, "progress>-1") == []


def test_jobs_are_found_sorted_and_cut(jobs: Jobs, home: Home, read_table: Callable[[], JobTable]):
    three_jobs(jobs, home)
    table = read_table()
    assert names(table, "status:failed lr>1e-3 name~/bert/") == ["bert-c"]
    assert names(table, "-is:sick") == ["bert-b", "bert-a"]
    assert names(table, "findings>0 finding:learningratezero") == ["bert-c"]
    assert names(table, "val_acc>=0.7") == ["bert-b", "bert-a"]
    assert names(table, "metric.acc:nan") == ["bert-c"]
    assert names(table, "batch_size=32 owner:ci") == ["bert-b"]
    assert names(table, "tag:vision or seconds>2min") == ["bert-c", "bert-a"]
    assert names(table, "cpu<25% gpu>79 hosts:1 step:2") == ["bert-c", "bert-b", "bert-a"]
    assert names(table, "has:tag.team -note~x") == ["bert-a"]
    assert names(table, "host:gpu-*") == ["bert-a"]
    assert names(table, sort="lr", is_descending=False) == ["bert-b", "bert-a", "bert-c"]
    assert names(table, sort="metric.acc/val") == ["bert-b", "bert-a", "bert-c"]
    assert names(table, sort="acc", is_descending=False) == ["bert-a", "bert-b", "bert-c"]
    assert names(table, sort="loss") == ["bert-c", "bert-a", "bert-b"]
    assert names(table, sort="tag.team") == ["bert-a", "bert-c", "bert-b"]
    assert names(table, sort="name", is_descending=False, offset=1, limit=1) == ["bert-b"]
    assert table.find(TableRequest(offset=5)).rows == []
    with pytest.raises(BadQuery, match="Did you mean 'status'"):
        names(table, "statsu:failed")
    with pytest.raises(BadQuery, match="Did you mean 'param.lr'"):
        names(table, "param.lrr>1")
    assert names(table, "momentum>1") == []


def test_what_looks_secret_is_neither_shown_nor_found(
    jobs: Jobs, home: Home, read_table: Callable[[], JobTable]
):
    ended_job(home, "job-1", hyper={"api_token": "hush"}, tags={"db_password": "hush"})
    jobs.reindex()
    table = read_table()
    found = table.find(TableRequest(columns=("param.api_token", "tag.db_password")))
    assert "hush" not in json.dumps(found.to_json())
    assert found.rows[0]["values"]["param.api_token"] == "***"
    assert names(table, "api_token=hush or tag:hush") == []
    assert b"hush" not in home.job_table.read_bytes()


def test_a_running_job_changes_its_row_and_the_revision(
    jobs: Jobs, home: Home, open_table: Callable[..., JobTable]
):
    spec = make_spec(hyper={"hold": "1", "lr": "1"}, DebugRuleConfigurations=[CHECKUP])
    jobs.submit(spec)
    until(lambda: is_training(jobs, "job-1"))
    table = open_table()
    assert until(lambda: names(table, "is:live lr:1")) == ["job-1"]
    seen = until(lambda: rest_of(table))
    written = home.job("job-1").host("algo-1", 1).curves
    write_curve(written / "trackside" / "algo-1", "loss", [3.0, 2.0])
    until(lambda: table.changed_since(seen).rows)
    changes = table.changed_since(seen)
    assert [row["loss"]["last"] for row in changes.rows] == [2.0]
    assert (changes.gone, changes.is_whole) == ([], False)
    assert changes.rows[0]["progress"] == {"step": 1, "of": None}
    state = home.job("job-1").host("algo-1", 1).logger_state(STATE)
    state.write_text('{"total_steps": 4}')
    rules = home.job("job-1").rules
    rules.root.mkdir(exist_ok=True)
    rules.findings.write_bytes(FINDING.to_line())
    over = Evaluation(
        configuration="Checkup", rule="Checkup", status=RuleStatus.ISSUES_FOUND, is_over=True
    )
    write_evaluations(rules.statuses, [over])
    until(lambda: table.find().rows[0]["findings"])
    assert table.find().rows[0]["progress"] == {"step": 1, "of": 4}
    seen_live = LiveJob(jobs, "job-1").refresh()
    assert (seen_live.step, seen_live.of) == (1, 4)
    assert names(table, "progress<50%") == ["job-1"]
    assert names(table, "progress>=50%") == []
    (home.job("job-1").root / "release").touch()
    run_to_end(jobs)
    until(lambda: names(table, "is:finished") == ["job-1"])
    last = until(lambda: rest_of(table))
    assert table.changed_since(last).rows == []
    until(lambda: is_deleted(jobs, "job-1"))
    until(lambda: table.changed_since(last).gone == ["job-1"])
    assert table.find().total == 0


def rest_of(table: JobTable) -> str:
    """The revision when everything was read and nothing has changed for a while."""
    before = table.revision
    if not table.is_complete():
        return ""
    until(lambda: table.find() and table.find().revision == table.find().revision)
    return before if table.revision == before else ""


def is_deleted(jobs: Jobs, name: str) -> bool:
    jobs.delete(name)
    return True


def test_a_revision_of_another_process_gets_everything(
    jobs: Jobs, home: Home, read_table: Callable[[], JobTable]
):
    three_jobs(jobs, home)
    table = read_table()
    for revision in ("", "other-3", f"{table.revision}999", "x"):
        changes = table.changed_since(revision)
        assert (len(changes.rows), changes.is_whole) == (3, True)
    assert table.changed_since(changes.revision).rows == []


def test_tags_and_notes_of_other_processes_are_seen(
    jobs: Jobs, home: Home, open_table: Callable[..., JobTable], settings: Any
):
    jobs.submit(make_spec())
    run_to_end(jobs)
    three_jobs(jobs, home)
    table = open_table()
    until(table.is_complete)
    others = make_jobs(settings)
    others.change_tags("job-1", put={"team": "audio"})
    others.set_note("bert-a", "again with more warm-up")
    until(lambda: names(table, "tag:audio") == ["job-1"])
    until(lambda: names(table, "note~warm-up") == ["bert-a"])
    jobs.set_note("bert-b", "at once")
    table.changed("bert-b")
    row = table.row("bert-b")
    assert row is not None
    assert row["note"] == "at once"
    assert table.row("none") is None


def test_what_was_read_once_is_not_read_again(
    jobs: Jobs, home: Home, read_table: Callable[[], JobTable], open_table: Callable[..., JobTable]
):
    three_jobs(jobs, home)
    columns = ("metric.acc/val", "metric.loss/train")
    first = read_table().find(TableRequest(columns=columns))
    for spec in ("bert-a", "bert-b", "bert-c"):
        shutil.rmtree(curves_folder(home, make_spec(spec)))
    jobs.set_note("bert-a", "since then")
    again = open_table(is_read_on_demand=True).find(TableRequest(columns=columns))
    assert again.rows[2].pop("note") == "since then"
    assert first.rows[2].pop("note") == ""
    assert again.rows == first.rows
    assert again.columns == first.columns


@pytest.mark.parametrize("damage", ["garbage", "format", "column", "content", "names"])
def test_a_cache_that_cannot_be_used_is_made_anew(
    jobs: Jobs, home: Home, read_table: Callable[[], JobTable], damage: str
):
    three_jobs(jobs, home)
    expected = read_table().find().rows
    if damage == "garbage":
        home.job_table.write_bytes(b"something else" * 1000)
    else:
        statements = {
            "format": "PRAGMA user_version = 99",
            "column": "ALTER TABLE jobs DROP COLUMN given",
            "content": "UPDATE jobs SET made = '[]'",
            "names": "DELETE FROM names",
        }
        with closing(sqlite3.connect(home.job_table)) as connection, connection:
            connection.execute(statements[damage])
    assert read_table().find().rows == expected
    with closing(sqlite3.connect(home.job_table)) as connection:
        [(count,)] = connection.execute("SELECT COUNT(*) FROM jobs WHERE made != '[]'")
    assert count == 3


def test_the_cache_forgets_jobs_that_are_deleted(
    jobs: Jobs, home: Home, read_table: Callable[[], JobTable], open_table: Callable[..., JobTable]
):
    three_jobs(jobs, home)
    read_table()
    table = open_table()
    assert table.find().total == 3
    jobs.delete("bert-a")
    until(lambda: table.find().total == 2)
    jobs.set_note("bert-b", "so that it is stored")
    until(lambda: names(table, "note~stored") == ["bert-b"])

    def stored() -> set[str]:
        with closing(sqlite3.connect(home.job_table)) as connection:
            return {name for (name,) in connection.execute("SELECT name FROM jobs")}

    until(lambda: stored() == {"bert-b", "bert-c"})


def test_a_job_that_cannot_be_read_leaves_the_others(
    jobs: Jobs, home: Home, read_table: Callable[[], JobTable]
):
    three_jobs(jobs, home)
    for path in home.buckets.rglob("bert-b/trackside/job.json"):
        path.write_text("{")
    rows = {row["name"]: row for row in read_table().find().rows}
    assert rows["bert-b"]["status"] == "Completed"
    assert rows["bert-b"]["tags"] == {}
    assert rows["bert-a"]["loss"]["last"] == 0.25


def test_a_thousand_jobs_are_searched_and_come_back_from_the_cache(
    jobs: Jobs, home: Home, read_table: Callable[[], JobTable], open_table: Callable[..., JobTable]
):
    spec = ended_job(home, "job-0", curves={("", "loss"): [1.0, 0.5]}, hyper={"lr": "0.5"})
    loss = next(curves_folder(home, spec).iterdir())
    for number in range(1, 1000):
        made = ended_job(
            home,
            f"job-{number}",
            created=CREATED + number,
            as_=Secondary.FAILED if number % 10 == 0 else Secondary.COMPLETED,
            hyper={"lr": str(number / 1000), "seed": str(number % 7)},
            tags={"team": f"team-{number % 3}"},
        )
        folder = curves_folder(home, made)
        folder.mkdir(parents=True)
        shutil.copy(loss, folder)
    jobs.reindex()
    first = read_table()
    again = open_table(is_read_on_demand=True)
    for table in (first, again):
        found = table.find(TableRequest(query="lr>=0.9 -status:failed tag:team-1", limit=10))
        assert (found.total, found.matching, len(found.rows)) == (1000, 30, 10)
        assert {row["loss"]["last"] for row in found.rows} == {0.5}
        assert table.find(TableRequest(query="job-99")).matching == 11
        assert names(table, "seed:3 lr<0.02", sort="lr") == ["job-17", "job-10", "job-3"]
        assert found.columns == ["metric.loss", "param.lr", "param.seed", "tag.team"]
