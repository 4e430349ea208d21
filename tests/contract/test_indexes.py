"""One suite over every database: what the index answers, wherever its rows are."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trackside.jobs.index import Index, JobSummary, Order, Page
from trackside.jobs.postgres_index import Postgres
from trackside.jobs.sqlite_index import opened

Opened = Callable[[], AbstractContextManager[Index]]


def sqlite(request: pytest.FixtureRequest) -> Opened:
    folder: Path = request.getfixturevalue("tmp_path")
    return lambda: opened(folder / 'it\'s an "index"')


def postgres(request: pytest.FixtureRequest) -> Opened:
    url: str = request.getfixturevalue("database")

    @contextmanager
    def connected() -> Iterator[Index]:
        database = Postgres(url)
        yield Index(database)
        database.close()

    return connected


@pytest.fixture(params=[sqlite, postgres], ids=lambda make: make.__name__)
def open_again(request: pytest.FixtureRequest) -> Opened:
    """As another process would."""
    make: Callable[[pytest.FixtureRequest], Opened] = request.param
    return make(request)


@pytest.fixture
def index(open_again: Opened) -> Iterator[Index]:
    with open_again() as index:
        yield index


def row(name: str, created: float = 1000.25, **changes: object) -> JobSummary:
    found = JobSummary(name, "s3://out/runs", "InProgress", "Starting", created, created)
    return replace(found, **changes)  # type: ignore[arg-type]


def ended(name: str, created: float = 1000.25, status: str = "Completed") -> JobSummary:
    end = created + 10
    return row(name, created, status=status, secondary=status, modified=end, ended=end)


def names(index: Index, **wanted: object) -> list[str]:
    return [found.name for found in index.page(Page(**wanted))]  # type: ignore[arg-type]


def test_a_row_comes_back_as_it_was_put(index: Index, open_again: Opened):
    full = JobSummary(
        "full",
        "s3://ö/'x",
        "Stopping",
        "Uploading",
        1.125,
        1795000000.123456,
        2.5,
        None,
        3,
        "me",
        "Ann O'Neill",
    )
    index.put([full, ended("x")])
    assert index.find("full") == full
    assert index.find("x") == ended("x")
    assert index.find("X") is None
    with open_again() as other:
        assert other.find("full") == full


def test_both_have_the_same_columns(index: Index):
    index.put([row("x")])
    [found] = index._database.read("SELECT * FROM jobs")
    assert len(found) == len(fields(JobSummary)) + len(("claim", "stop_asked"))


def test_an_ended_job_is_never_told_as_running_again(index: Index):
    index.put([ended("x")])
    index.put([row("x")])
    assert index.find("x") == ended("x")
    index.put([ended("x", status="Failed")])
    assert index.find("x") == ended("x", status="Failed")


def test_finished_and_unfinished_jobs_are_distinguished(index: Index):
    index.put([ended("a"), row("b"), row("c")])
    assert index.finished() == {"a"}
    assert index.unfinished() == {"b": row("b"), "c": row("c")}


def test_a_row_without_an_owner_is_finished_and_not_settled(index: Index):
    index.put([ended("a"), replace(ended("b"), owner=None), row("c", owner=None)])
    assert index.finished() == {"a", "b"}
    assert index.settled() == {"a"}
    assert index.settled("me") == {"a"}


def test_a_home_knows_its_own_jobs_and_those_of_nobody(index: Index):
    index.put([ended("a", 1), replace(ended("b"), home="me"), replace(ended("c"), home="you")])
    index.put([row("d", home="me"), row("e", home="you")])
    assert index.finished("me") == {"a", "b"}
    assert set(index.unfinished("me")) == {"d"}
    index.clear()
    assert names(index) == []


def test_a_row_of_another_home_is_not_overwritten(index: Index):
    index.put([row("x", home="you")])
    index.put([replace(ended("x"), home="me")])
    assert index.find("x") == row("x", home="you")


def test_what_is_forgotten_is_gone(index: Index):
    index.put([row("a"), row("b")])
    index.put([row("c")], forget=["a", "never-there"])
    assert names(index, order=Order.NAME, descending=False) == ["b", "c"]


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("order", list(Order))
def test_pages_in_any_order_hold_every_job_once(index: Index, order: Order, descending: bool):
    letters = ["a", "B", "a-b", "ab", "Z9", "0", "aB"]
    statuses = ["Failed", "Completed", "Stopped"]
    rows = [
        ended(f"{letter}{number}", 1000.0 + number % 3, statuses[number % 3])
        for number, letter in enumerate(letters)
    ]
    index.put(rows)
    expected = sorted(rows, key=order.key, reverse=descending)
    page = Page(order=order, descending=descending, limit=2)
    seen: list[JobSummary] = []
    while found := index.page(page):
        seen += found
        page = replace(page, after=order.key(found[-1]))
    assert seen == expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"status": "Failed"}, ["c-2"]),
        ({"owner": "alice"}, ["b-1"]),
        ({"owner": "Alice"}, []),
        ({"name_contains": "-"}, ["a-1", "b-1", "c-2"]),
        ({"name_contains": "A"}, ["A1"]),
        ({"name_contains": "%"}, []),
        ({"name_contains": ""}, ["A1", "a-1", "b-1", "c-2"]),
        ({"name_starts": "a"}, ["a-1"]),
        ({"name_starts": "a-1"}, ["a-1"]),
        ({"name_starts": "*"}, []),
        ({"name_starts": ""}, ["A1", "a-1", "b-1", "c-2"]),
        ({"created_after": 200}, ["c-2"]),
        ({"created_before": 200}, ["A1", "a-1"]),
        ({"modified_after": 110, "modified_before": 310}, ["b-1"]),
        ({"alive_since": 311}, ["b-1"]),
        ({"alive_since": 310, "status": "Failed"}, ["c-2"]),
        ({"limit": 0}, []),
        ({"limit": None}, ["A1", "a-1", "b-1", "c-2"]),
    ],
)
def test_conditions_choose(index: Index, wanted: dict[str, object], expected: list[str]):
    index.put([ended("A1", 90), ended("a-1", 100), row("b-1", 200, owner="alice")])
    index.put([ended("c-2", 300, "Failed")])
    assert names(index, order=Order.NAME, descending=False, **wanted) == expected


def test_a_name_is_found_in_any_case_and_the_exact_one_first(index: Index):
    index.put([row("Job-A"), row("job-a"), row("other")])
    assert index.name_in_any_case("job-a") == "job-a"
    assert index.name_in_any_case("Job-A") == "Job-A"
    assert index.name_in_any_case("JOB-A") in ("Job-A", "job-a")
    assert index.name_in_any_case("OTHER") == "other"
    assert index.name_in_any_case("job") is None


def test_the_jobs_that_a_longer_name_may_begin_with(index: Index):
    index.put([row("a"), row("a-b"), row("A-b-c"), row("abcdefgh-1"), row("ab"), row("abcdefg")])
    assert index.starting("a-b-c-rule", 8) == ["A-b-c", "a", "a-b"]
    assert index.starting("ABCDEFGH-rule", 8) == ["abcdefgh-1"]
    assert index.starting("abcdefgh-1-rule", 8) == ["abcdefgh-1"]
    assert index.starting("abcdefghi-rule", 8) == []
    assert index.starting("a", 8) == []


def test_a_name_is_claimed_by_one(index: Index, open_again: Opened):
    assert index.claim("x", "me", "draft-1", 5.0)
    with open_again() as other:
        assert not other.claim("x", "you", "draft-2", 5.0)
        assert not other.claim("x", "me", "draft-3", 5.0)
        assert other.claims("you") == {}
    assert index.claims("me") == {"x": "draft-1"}
    index.put([ended("y")])
    assert not index.claim("y", "me", "draft-4", 5.0)


def test_the_same_claim_again_is_no_other(index: Index):
    assert index.claim("x", "me", "draft-1", 5.0)
    assert index.claim("x", "me", "draft-1", 6.0)
    assert index.claims("me") == {"x": "draft-1"}


def test_a_claim_is_no_job_until_it_is_put(index: Index):
    index.claim("x", "me", "draft-1", 5.0)
    assert index.find("x") is None
    assert index.unfinished() == {}
    assert names(index) == []
    assert index.name_in_any_case("x") is None
    index.put([row("x", home="me")])
    assert index.claims("me") == {}
    assert index.find("x") == row("x", home="me")
    assert not index.claim("x", "me", "draft-1", 5.0)


def test_only_the_claim_that_is_meant_is_released(index: Index):
    index.claim("x", "me", "draft-1", 5.0)
    index.release("x", "draft-0")
    assert index.claims("me") == {"x": "draft-1"}
    index.release("x", "draft-1")
    assert index.claim("x", "you", "draft-2", 5.0)
    index.put([row("x", home="you")])
    index.release("x", "draft-2")
    assert index.find("x") is not None


def test_word_to_stop_reaches_the_home_that_has_the_job(index: Index):
    index.put([row("mine", home="me"), row("yours", home="you"), replace(ended("e"), home="me")])
    for name in ("mine", "e"):
        index.request_stop(name, 7.0)
    assert index.requested_stops("me") == {"mine"}
    assert index.requested_stops("you") == set()
    index.put([row("mine", home="me", secondary="Training")])
    assert index.requested_stops("me") == {"mine"}
    index.put([replace(ended("mine"), home="me")])
    assert index.requested_stops("me") == set()


def test_of_eight_that_claim_one_name_at_once_one_wins(open_again: Opened):
    def claims(number: int) -> int:
        with open_again() as index:
            return sum(
                index.claim(f"job-{name}", f"home-{number}", f"draft-{number}", 1.0)
                for name in range(20)
            )

    with open_again(), ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(claims, range(8))) == 20


def test_eight_threads_put_and_list_without_losing_a_row(open_again: Opened):
    def work(number: int) -> None:
        with open_again() as index:
            for count in range(10):
                index.put([row(f"job-{number}-{count}", float(count))])
                assert len(names(index, limit=None)) >= count + 1

    with open_again() as index, ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
        assert len(names(index, limit=None)) == 80


def test_history_told_from_a_row_agrees_with_it(index: Index):
    index.put([row("x", modified=30.5, training_started=20.5, secondary="Training", attempt=2)])
    found = index.find("x")
    assert found is not None
    assert JobSummary.of("x", found.output, found.history) == found
    waits = row("w", secondary="Pending")
    assert [each.secondary for each in waits.history.transitions] == ["Pending"]
    assert JobSummary.of("y", "o", ended("y").history) == replace(ended("y"), output="o")


NAMES = st.sampled_from(["a", "A", "a-b", "ab", "Job-1", "job-1", "z9"])
HOMES = st.sampled_from(["", "me", "you"])
TIMES = st.sampled_from([1.0, 2.5, 3.0])
ROWS = st.builds(
    lambda name, home, created, end: replace(
        row(name, created) if end is None else ended(name, created, end), home=home
    ),
    NAMES,
    HOMES,
    TIMES,
    st.sampled_from([None, "Completed", "Failed"]),
)
CHANGES = st.one_of(
    st.tuples(st.just("put"), st.lists(ROWS, max_size=3), st.lists(NAMES, max_size=1)),
    st.tuples(st.just("claim"), NAMES, HOMES, st.sampled_from(["d1", "d2"]), TIMES),
    st.tuples(st.just("release"), NAMES, st.sampled_from(["d1", "d2"])),
    st.tuples(st.just("request_stop"), NAMES, TIMES),
    st.tuples(st.just("clear")),
)


@settings(
    max_examples=60,
    derandomize=True,
    # Each example empties them.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(changes=st.lists(CHANGES, max_size=12))
def test_after_any_changes_all_databases_agree(changes, both: list[Index]):
    for index in both:
        index._database.write(("DELETE FROM jobs", [()]))
    for method, *values in changes:
        first, second = (getattr(index, method)(*values) for index in both)
        assert first == second, method
    first, second = (everything(index) for index in both)
    assert first == second


@pytest.fixture
def both(tmp_path: Path, database: str) -> Iterator[list[Index]]:
    with opened(tmp_path / "file") as file, closing(Postgres(database)) as postgres:
        yield [file, Index(postgres)]


def everything(index: Index) -> list[object]:
    return [
        *(index.page(Page(order=order, limit=None)) for order in Order),
        *(index.finished(home) for home in (None, "me", "you")),
        *(index.unfinished(home) for home in (None, "me", "you")),
        *(index.claims(home) for home in ("", "me", "you")),
        *(index.requested_stops(home) for home in ("", "me", "you")),
    ]
