"""One suite over both places where states of issues are kept."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trackside.jobs.postgres_index import Postgres
from trackside.records.layout import Home
from trackside.views.problems.issue_states import IssueStates, Said, SharedStates, States

Opened = Callable[[], States]


def in_a_home(request: pytest.FixtureRequest) -> Opened:
    folder: Path = request.getfixturevalue("tmp_path")
    return lambda: IssueStates(Home(folder))


def in_postgres(request: pytest.FixtureRequest) -> Opened:
    database = Postgres(request.getfixturevalue("database"))
    request.addfinalizer(database.close)
    folder: Path = request.getfixturevalue("tmp_path")
    return lambda: SharedStates(database, IssueStates(Home(folder)))


@pytest.fixture(params=[in_a_home, in_postgres], ids=lambda make: make.__name__)
def opened(request: pytest.FixtureRequest) -> Opened:
    """As another process would."""
    make: Callable[[pytest.FixtureRequest], Opened] = request.param
    return make(request)


def said(number: int = 1, state: str = "fixed", **members: object) -> Said:
    given = {"id": f"1-{number:012x}", "state": state, "by": "Ann O'Neill ö", "time": 1.25}
    return Said(**{**given, **members})  # type: ignore[arg-type]


def test_what_was_said_last_counts_for_everybody(opened: Opened):
    assert opened().all() == {}
    muted = said(state="muted", more_jobs=3, job="x", code="0f")
    opened().say(said())
    opened().say(said(2))
    opened().say(muted)
    assert opened().all() == {muted.id: muted, said(2).id: said(2)}


def test_several_may_say_something_at_once(opened: Opened):
    with ThreadPoolExecutor(8) as pool:
        [*pool.map(lambda number: opened().say(said(number)), range(40))]
    assert len(opened().all()) == 40


def test_what_a_home_said_before_it_had_a_database_counts_where_that_knows_nothing(
    tmp_path: Path, database: str
):
    shared = Postgres(database)
    SharedStates(shared, IssueStates(Home(tmp_path / "other"))).say(said(1, "muted", more_jobs=1))
    before = IssueStates(Home(tmp_path))
    for number in (1, 2):
        before.say(said(number))

    found = SharedStates(shared, before).all()

    assert {id: each.state for id, each in found.items()} == {
        said(1).id: "muted",
        said(2).id: "fixed",
    }
    shared.close()


def test_a_damaged_row_is_left_out(tmp_path: Path, database: str):
    shared = Postgres(database)
    states = SharedStates(shared, IssueStates(Home(tmp_path)))
    states.say(said(1))
    wrong = json.dumps({"id": "1-0", "state": "gone", "by": "x", "time": 1})
    shared.write(("INSERT INTO issue_states VALUES (?, ?)", [("1-0", wrong), ("1-1", "[}")]))
    assert [*states.all()] == [said(1).id]
    shared.close()
