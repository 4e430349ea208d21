"""A database that is gone, half-dead, wrong, old or new: every question has its answer in time."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tests.postgres_server import PASSWORD, PostgresServer
from tests.tcp_proxy import TcpProxy
from tests.wait import until
from trackside.errors import DatabaseError, DatabaseRefused, DatabaseUnreachable, InvalidSetting
from trackside.jobs import postgres_index, postgres_schema, sqlite_index
from trackside.jobs.index import Index, JobSummary, Page
from trackside.jobs.postgres_index import ANSWER_SECONDS, Postgres, address_of
from trackside.jobs.postgres_schema import MIGRATIONS
from trackside.jobs.sqlite_index import opened

ROW = JobSummary("x", "s3://out", "InProgress", "Starting", 1.0, 1.0)


IN_TIME = 60.0
"""Seconds: who has not been told by then waits for ever."""


@pytest.fixture
def mortal(
    mortal_postgres: PostgresServer, patient_with_databases: None
) -> Iterator[PostgresServer]:
    yield mortal_postgres
    if not mortal_postgres.is_running():
        mortal_postgres.start()


@pytest.fixture
def proxy(shared_postgres: PostgresServer) -> Iterator[TcpProxy]:
    with TcpProxy(shared_postgres.port) as proxy:
        yield proxy


@pytest.fixture
def behind(proxy: TcpProxy, shared_postgres: PostgresServer) -> Iterator[Postgres]:
    shared_postgres.empty()
    database = Postgres(shared_postgres.url_of("postgres", port=proxy.port))
    yield database
    database.close()


def test_a_database_that_was_started_anew_is_used_without_a_word(mortal: PostgresServer):
    database = Postgres(mortal.url_of(mortal.make_database()))
    index = Index(database)
    index.put([ROW])
    mortal.kill()
    mortal.start()
    assert index.find("x") == ROW
    assert database.num_outages == 0
    database.close()


def test_a_database_that_is_gone_is_named_at_once_and_found_again_when_it_is_back(
    mortal: PostgresServer, caplog: pytest.LogCaptureFixture
):
    index = Index(database := Postgres(mortal.url_of(mortal.make_database())))
    index.put([ROW])
    mortal.kill()
    began = time.monotonic()
    for _ in range(50):
        with pytest.raises(DatabaseUnreachable, match=f"127.0.0.1:{mortal.port}"):
            index.find("x")
    assert time.monotonic() - began < IN_TIME
    assert caplog.text.count("cannot be used") == 1
    mortal.start()
    until(lambda: answers(index))
    assert index.find("x") == ROW
    assert caplog.text.count("answers again") == 1
    database.close()


def answers(index: Index) -> bool:
    try:
        return index.find("x") == ROW
    except DatabaseError:
        return False


def has_put(index: Index) -> bool:
    try:
        index.put([ROW])
    except DatabaseError:
        return False
    return True


def test_a_connection_on_which_nothing_comes_back_is_given_up_in_time(
    behind: Postgres, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
):
    index = Index(behind)
    until(lambda: has_put(index))
    proxy.hang()
    began = time.monotonic()
    with monkeypatch.context() as patch:
        patch.setattr(postgres_index, "_RETRY_SECONDS", 600.0)
        with pytest.raises(DatabaseUnreachable, match="no answer within 3 s"):
            index.put([ROW], forget=["y"])
        assert ANSWER_SECONDS <= time.monotonic() - began < IN_TIME
    known = proxy.num_connections
    with pytest.raises(DatabaseUnreachable):  # at once: it is left alone for a while
        index.find("x")
    assert proxy.num_connections == known
    proxy.resume()
    behind._retry_at = 0.0
    until(lambda: answers(index))


def test_a_server_that_accepts_and_says_nothing_is_given_up_in_time(
    behind: Postgres, proxy: TcpProxy
):
    proxy.hang()
    began = time.monotonic()
    with pytest.raises(DatabaseUnreachable, match="timeout"):
        behind.read("SELECT 1")
    assert time.monotonic() - began < IN_TIME


def test_twenty_that_ask_a_half_dead_database_do_not_wait_one_after_the_other(
    behind: Postgres, proxy: TcpProxy
):
    until(lambda: has_put(Index(behind)))
    proxy.hang()
    began = time.monotonic()

    def ask(_: int) -> None:
        with pytest.raises(DatabaseUnreachable):
            behind.read("SELECT 1")

    with ThreadPoolExecutor(20) as threads:
        list(threads.map(ask, range(20)))
    assert time.monotonic() - began < 15 * ANSWER_SECONDS  # of twenty


def test_a_table_that_somebody_locks_does_not_hold_a_question_for_ever(
    database: str, monkeypatch: pytest.MonkeyPatch
):
    postgres = Postgres(database)
    Index(postgres).put([ROW])
    monkeypatch.setattr(postgres_index, "ANSWER_SECONDS", 3.0)
    with psycopg.connect(database) as other:
        other.execute("LOCK TABLE trackside.jobs")
        with pytest.raises(DatabaseUnreachable):
            Index(postgres).find("x")
    until(lambda: answers(Index(postgres)))
    postgres.close()


def test_the_database_of_a_server_that_starts_early_is_waited_for(
    mortal: PostgresServer, caplog: pytest.LogCaptureFixture
):
    database = Postgres(mortal.url)
    mortal.kill()
    waiting = threading.Thread(target=database.wait_until_there)
    waiting.start()
    until(lambda: "waiting for the database" in caplog.text)
    mortal.start()
    waiting.join(60)
    assert not waiting.is_alive()
    database.close()


@pytest.mark.parametrize(
    ("name", "password", "reason"),
    [
        ("postgres", "wrong-4711", "password authentication failed"),
        ("no_such_database", PASSWORD, "does not exist"),
    ],
)
def test_what_only_a_person_can_mend_is_reported_with_the_host_and_without_the_password(
    shared_postgres: PostgresServer,
    caplog: pytest.LogCaptureFixture,
    name: str,
    password: str,
    reason: str,
):
    url = shared_postgres.url_of(name, password=password)
    with pytest.raises(DatabaseRefused, match=reason) as caught:
        Postgres(url).wait_until_there()
    reported = str(caught.value) + caplog.text + repr(caught.value)
    assert f"127.0.0.1:{shared_postgres.port}" in reported
    assert "4711" not in reported
    assert PASSWORD not in reported


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:secret-1@host/db",
        "postgresql:/u:secret-1@host/db",
        "postgresql://u:secret-1@host:port/db",
        "postgresql://u:secret-1@host/db?no_such=1",
        "host=localhost password=secret-1",
        "secret-1",
    ],
)
def test_an_address_that_leads_nowhere_is_refused_without_repeating_it(url: str):
    with pytest.raises(InvalidSetting, match=r"postgresql://USER:PASSWORD@HOST") as caught:
        Postgres(url)
    assert "secret-1" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret-1@db.example:6432/jobs", "me@db.example:6432/jobs"),
        ("postgres://me:secret-1@db/jobs?sslmode=require", "me@db:5432/jobs"),
        ("postgresql:///jobs?host=/run/postgresql", "/run/postgresql:5432/jobs"),
        ("postgresql://db", "db:5432/"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str):
    assert address_of(url) == shown


def test_a_database_that_comes_back_empty_is_made_anew(database: str):
    postgres = Postgres(database)
    index = Index(postgres)
    index.put([ROW])
    with psycopg.connect(database, autocommit=True) as other:
        other.execute("DROP SCHEMA trackside CASCADE")
    with pytest.raises(DatabaseRefused, match="jobs"):
        index.find("x")
    until(lambda: has_put(index))
    assert postgres.num_outages > 0
    assert index.page(Page()) == [ROW]
    postgres.close()


@pytest.mark.parametrize("version", range(len(MIGRATIONS)))
def test_a_database_of_each_earlier_version_is_brought_forward(
    database: str, version: int, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as earlier:
        earlier.setattr(postgres_schema, "MIGRATIONS", MIGRATIONS[:version])
        with psycopg.connect(database, autocommit=True) as connection:
            postgres_schema.migrate(connection, "here")
    index = Index(postgres := Postgres(database))
    index.put([ROW])
    assert index.find("x") == ROW
    assert postgres.read("SELECT number FROM schema_version") == [(len(MIGRATIONS),)]
    postgres.close()


def test_a_database_of_a_newer_trackside_is_left_as_it_is(database: str):
    first = Postgres(database)
    first.read("SELECT 1")
    first.write(("UPDATE schema_version SET number = ?", [(99,)]))
    first.close()
    with pytest.raises(DatabaseRefused, match="format 99 is of a newer Trackside"):
        Postgres(database).wait_until_there()


@pytest.mark.parametrize("version", range(len(sqlite_index.MIGRATIONS)))
def test_a_file_of_each_earlier_version_is_brought_forward(tmp_path: Path, version: int):
    path = tmp_path / "index.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript("".join(sqlite_index.MIGRATIONS[:version]))
    if version:
        connection.execute(
            "INSERT INTO jobs (name, output, status, secondary, created, modified,"
            " training_started, ended)"
            " VALUES ('x', 's3://out', 'Failed', 'Failed', 1, 2, 1, 2)"
        )
    connection.execute(f"PRAGMA user_version = {version}")
    connection.commit()
    connection.close()
    with opened(path) as index:
        kept = index.find("x")
        assert (kept is not None) == (version > 0)
        assert kept is None or (kept.attempt, kept.home, kept.ended) == (1, "", 2.0)
        assert kept is None or (kept.owner, index.settled()) == (None, set())
        index.put([JobSummary("y", "o", "InProgress", "Starting", 3.0, 3.0)])
        assert index.name_in_any_case("Y") == "y"


def test_a_page_of_many_thousand_jobs_is_read_by_an_index(database: str):
    postgres = Postgres(database)
    index = Index(postgres)
    for start in range(0, 20_000, 2_000):
        index.put(
            JobSummary(f"job-{n:05d}", "s3://o", "Completed", "Completed", n, n + 1.0, n, n + 1.0)
            for n in range(start, start + 2_000)
        )
    postgres.write(("ANALYZE jobs", [()]))
    plan = "\n".join(
        line
        for (line,) in postgres.read(
            "EXPLAIN SELECT name FROM jobs WHERE claim IS NULL AND (created, name) < (?, ?)"
            " ORDER BY created DESC, name DESC LIMIT 100",
            (10_000.0, "job-10000"),
        )
    )
    assert "jobs_by_creation" in plan
    plan = "\n".join(
        line
        for (line,) in postgres.read(
            "EXPLAIN SELECT name FROM jobs WHERE claim IS NULL AND lower(name) = ?", ("job-00500",)
        )
    )
    assert "jobs_by_lower_name" in plan
    postgres.close()
