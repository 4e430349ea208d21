"""SQLite files with mlflow's and trackio's tables, and with traps."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.curves.loggers.conftest import Logging

RUN = "44f1727ca46c41a4be2968ea6933f52e"


def mlflow(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path)
    database.executescript(
        f"""
        CREATE TABLE experiments (experiment_id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE runs (run_uuid TEXT PRIMARY KEY, name TEXT);
        CREATE TABLE metrics (key TEXT, value FLOAT, timestamp BIGINT, run_uuid TEXT, step BIGINT,
            is_nan BOOLEAN);
        INSERT INTO runs VALUES ('{RUN}', 'nimble-fox');
        """
    )
    return database


def trackio(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(exist_ok=True)
    database = sqlite3.connect(path)
    database.executescript(
        """
        PRAGMA journal_mode = wal;
        CREATE TABLE metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT, timestamp TEXT,
            run_name TEXT, step INTEGER, metrics TEXT);
        """
    )
    return database


def test_mlflow_s_rows_are_points_as_they_come(logging: Logging):
    database = mlflow(logging.code / "mlflow.db")
    add = "INSERT INTO metrics VALUES (?, ?, 1794905311665, ?, ?, ?)"
    database.execute(add, ("loss", 0.5, RUN, 0, 0))
    database.commit()
    logging.files.tick()
    database.execute(add, ("loss", 0.25, RUN, 1, 0))
    database.execute(add, ("lr", 0, RUN, 1, 1))
    database.commit()
    database.close()
    logging.files.tick(last=True)
    assert logging.points("mlflow/nimble-fox-44f1727c", "loss") == [(0, 0.5), (1, 0.25)]
    [(_, value)] = logging.points("mlflow/nimble-fox-44f1727c", "lr")
    assert value != value


def test_trackio_s_rows_are_seen_in_the_write_ahead_log(logging: Logging):
    database = trackio(logging.code / "trackio" / "proj.db")
    add = "INSERT INTO metrics VALUES (NULL, 'x', ?, ?, ?, ?)"
    metrics = {"loss": 0.5, "gen": {"acc": 1}, "name": "text", "on": True}
    when = "2026-11-17T08:48:47.944744+00:00"
    database.execute(add, (when, "dainty-sunset-0", 0, json.dumps(metrics)))
    database.commit()
    logging.files.tick()
    run = "trackio/proj/dainty-sunset-0"
    assert logging.tags == {(run, "loss"), (run, "gen/acc")}
    database.execute(add, (when, "dainty-sunset-0", 1, json.dumps({"loss": 0.25}).encode()))
    database.commit()
    logging.taken_over().tick()
    database.close()
    assert logging.points(run, "loss") == [(0, 0.5), (1, 0.25)]


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE other (x)",
        "CREATE TABLE metrics (x)",
        f"""CREATE TABLE experiments (x); CREATE TABLE metrics (key, value, timestamp, run_uuid,
            step, is_nan); INSERT INTO metrics VALUES ('a', 1, 1, 'x', 1, 0);
            CREATE VIEW runs AS SELECT i AS run_uuid, i AS name FROM ({ENDLESS})""",
        """CREATE TABLE experiments (x); CREATE TABLE runs (run_uuid, name); CREATE TABLE metrics
            (key, value, timestamp, run_uuid, step, is_nan);
            INSERT INTO metrics VALUES (zeroblob(3000000), 1, 1, 'x', 1, 0)""",
        """CREATE TABLE metrics (id, run_name, step, timestamp, metrics);
            INSERT INTO metrics VALUES (1, 'r', 1, 'x', '[{"a": 1}]'), (2, 5, 'x', 3, 4.5),
            (3, 'r', 0, NULL, '{"a": {"b": null}}')""",
    ],
)
def test_other_and_malicious_files_give_nothing_and_do_not_block(logging: Logging, script: str):
    with sqlite3.connect(logging.code / "x.sqlite3") as database:
        database.executescript(script)
    database.close()
    logging.write("torn.db", b"SQLite format 3\x00" + b"\xff" * 5000)
    logging.write("data.db", b"no SQLite")
    logging.write("after.csv", "step,loss\n0,1\n")
    logging.files.tick(last=True)
    assert logging.tags == {("after", "loss")}


def test_an_error_that_is_no_text_costs_its_file_only(logging: Logging):
    """SQLite quotes the damage in what it says."""
    with sqlite3.connect(logging.code / "a.db") as database:
        database.execute("CREATE TABLE metrics (x)")
    database.close()
    whole = (logging.code / "a.db").read_bytes()
    named = whole.replace(b"tablemetricsmetrics", b"table\xff\xfetrics\xff\xfetrics")
    logging.write("a.db", named.replace(b"CREATE TABLE metrics", b"CREATE TABLE )etrics"))
    logging.write("b.csv", "step,loss\n0,1\n")
    logging.files.tick()
    assert logging.tags == {("b", "loss")}
