"""Listing a long job again costs little, and misses nothing."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from trackside import curves
from trackside.curves import event_listing
from trackside.curves.chunks import Chunk, Source
from trackside.curves.event_file import EventFile
from trackside.curves.event_listing import EventListing
from trackside.storage.folder import FolderStore
from trackside.storage.locate import Location
from trackside.storage.store import Entry

NUM_PIECES = 50


class CountingStore(FolderStore):
    """Counts the keys in its listings."""

    listed = 0

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        for entry in super().list(prefix, after):
            type(self).listed += 1
            yield entry


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_listing, "LEAST_SKIPPED", 10)
    CountingStore.listed = 0


class Job:
    """Sends pieces of one byte; a second apart, by each host's own clock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.place = Location(CountingStore(root), "tb/job", "s3://bucket/tb/job")
        self.offsets: dict[tuple[str, str], Iterator[int]] = {}

    def send(self, run: str, host: str = "algo-1", *, late: int = 0) -> None:
        offset = next(self.offsets.setdefault((run, host), count()))
        sent = 1_700_000_000_000_000 + (offset - late) * 1_000_000
        chunk = Chunk(Source(run, "events.out.tfevents.1.h", host), offset, sent)
        self.place.store.put(f"tb/job/{chunk.path}", b"x")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    job = Job(tmp_path)
    for _ in range(NUM_PIECES):
        job.send("train")
        job.send("trackside/algo-1")
    return job


def seen(listing: EventListing) -> dict[tuple[str, str], int]:
    return {
        (source.folder, source.host): pieces[-1].end for source, pieces in listing.pieces.items()
    }


def test_later_listings_are_small(job: Job):
    listing = EventListing(job.place)
    listing.update()
    assert CountingStore.listed == 2 * NUM_PIECES
    CountingStore.listed = 0
    job.send("train")
    listing.update()
    assert seen(listing)["train", "algo-1"] == NUM_PIECES + 1
    assert CountingStore.listed <= 6


def test_a_new_run_and_a_file_that_was_never_cut_are_seen(job: Job):
    listing = EventListing(job.place)
    listing.update()
    job.send("eval")
    job.send("zeta")
    job.place.store.put("tb/job/train/events.out.tfevents.2.plain", b"12")
    listing.update()
    job.place.store.put("tb/job/train/events.out.tfevents.2.plain", b"12345")
    listing.update()
    found = seen(listing)
    assert found["eval", "algo-1"] == found["zeta", "algo-1"] == 1
    assert found["train", ""] == 5


def test_a_host_whose_clock_is_late_is_seen(job: Job):
    for _ in range(5):
        job.send("train", "algo-2", late=1000)
    listing = EventListing(job.place)
    listing.update()
    for _ in range(3):
        job.send("train", "algo-2", late=1000)
    job.send("train")
    listing.update()
    assert seen(listing)["train", "algo-2"] == 8
    assert seen(listing)["train", "algo-1"] == NUM_PIECES + 1


def test_a_neighbour_s_keys_are_ignored(job: Job):
    job.place.store.put("tb/job-2/train/events.out.tfevents.1", b"1")
    listing = EventListing(job.place)
    listing.update()
    listing.update()
    assert ("-2/train", "") not in seen(listing)
    assert len(listing.pieces) == 2


def test_a_merge_between_two_listings_loses_and_doubles_nothing(tmp_path: Path):
    file = EventFile(tmp_path / "written")
    place = Location(CountingStore(tmp_path / "store"), "tb", "s3://bucket/tb")
    follower = curves.Follower(place)
    size = 0
    for step in range(40):
        file.add(("loss", 1.0, step, 5.0))
        file.flush()
        data = file.path.read_bytes()
        source = Source("run", file.path.name, "algo-1")
        place.store.put(f"tb/{Chunk(source, size, 1_700_000 + step).path}", data[size:])
        size = len(data)
        if step < 30:
            follower.update()
    curves.merge(place)  # with ten pieces that are not read yet
    file.close()
    follower.update()
    follower.update()
    assert follower.curves.scalars["run", "loss"].steps.tolist() == [*range(40)]
