"""The questions of listings, as SQLite plans to answer them."""

import os
from pathlib import Path
from typing import Any

import pytest

from trackside.jobs.index import Index, JobSummary, Order, Page
from trackside.jobs.sqlite_index import SqliteDatabase, opened

CREATED = 1_790_000_000.0


class Planned(SqliteDatabase):
    """Notes how each question is answered."""

    def __init__(self, database: SqliteDatabase) -> None:
        super().__init__(database._connection)
        self.steps: list[str] = []

    def read(self, sql, values=()):
        plan = super().read(f"EXPLAIN QUERY PLAN {sql}", values)
        self.steps += [step for _, _, _, step in plan]
        return super().read(sql, values)


@pytest.mark.parametrize("descending", [True, False], ids=["newest first", "oldest first"])
@pytest.mark.parametrize(
    "page",
    [
        {},
        {"status": "Completed"},
        {"status": "Completed", "created_before": CREATED + 50},
        {"owner": "alice"},
        {"created_after": CREATED + 50},
        {"created_before": CREATED + 50},
        {"modified_after": CREATED + 50, "order": Order.MODIFIED},
        {"name_contains": "7", "order": Order.NAME},
        {"name_starts": "job-04", "order": Order.NAME},
        {"order": Order.STATUS},
    ],
    ids=str,
)
def test_a_page_is_read_in_the_order_of_an_index_and_never_sorted(
    tmp_path: Path, page: dict[str, Any], descending: bool
):
    with opened(tmp_path / "index.sqlite") as index:
        index.put(row(number) for number in range(100))
        assert isinstance(index._database, SqliteDatabase)
        planned = Planned(index._database)
        found = Index(planned).page(Page(limit=5, descending=descending, **page))
    assert len(found) == 5
    [step] = planned.steps  # a sort would be one of its own
    assert "INDEX" in step or page.get("order") is Order.NAME


def row(number: int) -> JobSummary:
    moment = CREATED + number
    name = f"job-{number:03d}"
    times = (moment, moment, moment, moment)
    return JobSummary(name, "s3://o", "Completed", "Completed", *times, owner="alice")


def test_the_file_and_those_beside_it_are_the_owner_s_alone(tmp_path: Path):
    before = os.umask(0)
    try:
        with opened(tmp_path / "index.sqlite") as index:
            index.clear()
            modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("index*")}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("index.sqlite", "index.sqlite-wal", "index.sqlite-shm"), 0o600)
