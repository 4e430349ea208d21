"""The fence: numbers are taken once, and a stale group never replaces a newer one's result."""

import json
import random
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.api.s3.conftest import BUCKET, REGION, S3Endpoint, serving
from trackside.api.s3.service import S3
from trackside.coordination.epoch import Fence, current, take
from trackside.errors import EpochOver, StoreUnreachable
from trackside.storage.connect import open_s3
from trackside.storage.credentials import s3_access
from trackside.storage.folder import FolderStore
from trackside.storage.locate import Location
from trackside.storage.store import NOTHING, Entry, Store

MIB = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Endpoint]:
    home = tmp_path_factory.mktemp("server")
    with serving(S3(home / "buckets"), home) as endpoint:
        endpoint.client().create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        yield endpoint


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "folder":
        return FolderStore(tmp_path / "bucket")
    access = s3_access(request.getfixturevalue("server").environment)
    assert access is not None
    return open_s3(BUCKET, access)


def place_in(store: Store, key: str = "epoch.json", job: str = "") -> Location:
    key = f"{job or uuid.uuid4().hex}/{key}"
    return Location(store, key, f"s3://bucket/{key}")


def beside(place: Location, name: str) -> Location:
    key = f"{place.key.rpartition('/')[0]}/{name}"
    return Location(place.store, key, f"s3://bucket/{key}")


class Watched(Store):
    """A real store that calls `before` with the operation's name first."""

    def __init__(self, inner: Store, before: Callable[[str], None]) -> None:
        self.inner = inner
        self.before = before
        self.most_conditional_bytes = inner.most_conditional_bytes

    def put(
        self, key: str, data: bytes | Path | Iterable[bytes], *, replaces: str | None = None
    ) -> Entry:
        self.before("put")
        return self.inner.put(key, data, replaces=replaces)

    def get(
        self, key: str, start: int = 0, end: int | None = None, *, etag: str | None = None
    ) -> bytes:
        self.before("get")
        return self.inner.get(key, start, end, etag=etag)

    def read(
        self, key: str, start: int = 0, end: int | None = None, *, etag: str | None = None
    ) -> Iterator[bytes]:
        self.before("read")
        return self.inner.read(key, start, end, etag=etag)

    def stat(self, key: str) -> Entry:
        self.before("stat")
        return self.inner.stat(key)

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        self.before("list")
        return self.inner.list(prefix, after)

    def delete(self, keys: Iterable[str]) -> None:
        self.before("delete")
        self.inner.delete(keys)


class AtStep:
    """Does something once, before an operation with this number."""

    def __init__(self, step: int, action: Callable[[], object]) -> None:
        self._left = step
        self._action = action

    @property
    def is_done(self) -> bool:
        return self._left <= 0

    def __call__(self, operation: str) -> None:
        self._left -= 1
        if self._left == 0:
            self._action()


def put_newer(place: Location, target: Location, data: bytes) -> None:
    """A newer group begins, publishes and ends."""
    Fence(place, take(place, "new").epoch).put(target, lambda: [data])


def watched(place: Location, before: Callable[[str], None]) -> Location:
    return Location(Watched(place.store, before), place.key, place.uri)


def test_of_ten_takers_each_gets_a_number_of_its_own(store: Store) -> None:
    place = place_in(store)
    assert current(place).epoch == 0
    with ThreadPoolExecutor(10) as pool:
        taken = list(pool.map(lambda number: take(place, f"nonce-{number}"), range(10)))
    assert sorted(each.epoch for each in taken) == list(range(1, 11))
    last = max(taken, key=lambda each: each.epoch)
    assert current(place) == last
    assert json.loads(store.get(place.key)) == {
        "format": 1,
        "epoch": 10,
        "nonce": last.nonce,
    }


def test_the_first_taker_needs_one_request_and_a_wrong_guess_a_look(store: Store) -> None:
    place, asked = place_in(store), list[str]()
    assert take(watched(place, asked.append), "first", is_first=True).epoch == 1
    assert asked == ["put"]
    assert take(place, "second", is_first=True).epoch == 2
    assert take(place, "second", is_first=True).epoch == 2


def test_a_taker_whose_response_was_lost_gets_its_number_again(store: Store) -> None:
    place = place_in(store)

    class Forgetful(Watched):
        def put(
            self, key: str, data: bytes | Path | Iterable[bytes], *, replaces: str | None = None
        ) -> Entry:
            super().put(key, data, replaces=replaces)
            raise StoreUnreachable("no response")

    with pytest.raises(StoreUnreachable):
        take(Location(Forgetful(store, lambda operation: None), place.key, place.uri), "mine")
    assert take(place, "mine").epoch == 1
    assert take(place, "another's").epoch == 2
    assert take(place, "mine").epoch == 3


def test_only_the_newest_publishes(store: Store) -> None:
    place = place_in(store)
    old = Fence(place, take(place, "1").epoch)
    target = beside(place, "model.tar.gz")
    old.check()
    old.put(target, lambda: [b"old"])
    new = Fence(place, take(place, "2").epoch)
    with pytest.raises(EpochOver, match="group 2 has taken over"):
        old.put(target, lambda: [b"stale"])
    assert store.get(target.key) == b"old"
    new.put(target, lambda: [b"new"])
    assert store.get(target.key) == b"new"
    store.delete([place.key])
    with pytest.raises(EpochOver, match="deleted"):
        new.check()


@pytest.mark.parametrize("size", [5, 20 * MIB])
@pytest.mark.parametrize("is_there_before", [False, True])
def test_a_publisher_suspended_at_any_step_never_replaces_the_newer_result(
    store: Store, size: int, is_there_before: bool
) -> None:
    for step in range(1, 6):
        place = place_in(store)
        target = beside(place, "model.tar.gz")
        old = take(place, "old").epoch
        if is_there_before:
            Fence(place, old).put(target, lambda: [b"from an earlier try"])
        newer = AtStep(step, partial(put_newer, place, target, b"new" * size))
        stale = Fence(watched(place, newer), old)
        try:
            stale.put(watched(target, newer), lambda: [b"old" * size])
        except EpochOver:
            assert newer.is_done
        else:
            assert not newer.is_done
        assert store.get(target.key) == (b"new" if newer.is_done else b"old") * size
    assert not newer.is_done  # the last was beyond the end: stat, stat and get of the epoch, put


@pytest.mark.parametrize("size", [5, 20 * MIB])
def test_one_that_came_first_is_replaced_at_any_step_of_the_newer(store: Store, size: int) -> None:
    """The stale one has passed its check already, and its put arrives in between."""
    for step in range(1, 5):
        place = place_in(store)
        target = beside(place, "model.tar.gz")
        take(place, "old")
        new = take(place, "new").epoch
        stale_put = AtStep(step, partial(store.put, target.key, b"old", replaces=NOTHING))
        fence = Fence(watched(place, stale_put), new)
        fence.put(watched(target, stale_put), lambda: [b"new" * size])
        assert store.get(target.key) == b"new" * size


class Schedule:
    """Lets one thread at a time do one operation of the store, in an order that a seed decides."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._waiting: dict[str, threading.Event] = {}
        self._changed = threading.Condition()
        self._alive: set[str] = set()

    def add(self, name: str, action: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                self.pause(name)
                action()
            finally:
                with self._changed:
                    self._alive.discard(name)
                    self._changed.notify()

        self._alive.add(name)
        return threading.Thread(target=run, daemon=True)

    def pause(self, name: str) -> None:
        turn = threading.Event()
        with self._changed:
            self._waiting[name] = turn
            self._changed.notify()
        turn.wait()

    def run(self, threads: list[threading.Thread], after_each: Callable[[], None]) -> None:
        for thread in threads:
            thread.start()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting.keys() == self._alive)
                after_each()
                if not self._alive:
                    return
                chosen = self._random.choice(sorted(self._waiting))
                self._waiting.pop(chosen).set()


@pytest.mark.parametrize(
    "first_seed",
    [0, *(pytest.param(each, marks=pytest.mark.nightly) for each in range(100, 400, 100))],
)
def test_in_any_interleaving_no_older_result_replaces_a_newer(
    tmp_path: Path, first_seed: int
) -> None:
    for seed in range(first_seed, first_seed + 100):
        assert replaced_by_older(FolderStore(tmp_path / str(seed)), seed) == [], f"seed {seed}"


def replaced_by_older(store: Store, seed: int) -> list[str]:
    """Four groups, each placed at any time, some dying at any step; each publishes two names."""
    place = place_in(store, job="job")
    names = [beside(place, "model.tar.gz"), beside(place, "artifacts.json")]
    schedule, dice = Schedule(seed), random.Random(-seed)
    newest: dict[str, int] = dict.fromkeys((name.key for name in names), 0)
    failures: list[str] = []

    class Died(Exception):
        pass

    def group(name: str, dies_after: int) -> Callable[[], None]:
        left = dies_after

        def before(operation: str) -> None:
            nonlocal left
            schedule.pause(name)
            left -= 1
            if left == 0:
                raise Died

        def act() -> None:
            try:
                number = take(watched(place, before), name).epoch
                fence = Fence(watched(place, before), number)
                for target in names:
                    fence.put(watched(target, before), lambda: [b"%d" % number])
                    newest[target.key] = max(newest[target.key], number)
            except (Died, EpochOver):
                return

        return act

    def check() -> None:
        for key, number in newest.items():
            if number and int(store.get(key)) < number:
                failures.append(f"{key} is of {store.get(key)!r} after {number}")

    threads = [
        schedule.add(name, group(name, dice.choice([0, 0, dice.randint(1, 12)])))
        for name in ("a", "b", "c", "d")
    ]
    schedule.run(threads, check)
    return failures
