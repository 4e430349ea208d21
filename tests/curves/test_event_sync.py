"""Event files in object storage while they are written, judged by TensorBoard's own loaders."""

import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.directory_watcher import DirectoryWatcher
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.backend.event_processing.io_wrapper import IsSummaryEventsFile

from trackside import curves
from trackside.curves.chunks import by_source, parse
from trackside.curves.event_file import EventFile
from trackside.curves.event_locations import list_event_files
from trackside.errors import StoreUnreachable
from trackside.storage.folder import FolderStore
from trackside.storage.locate import Location, locate
from trackside.storage.store import Entry
from trackside.supervisor.event_sync import EventSync


class Site:
    """A folder that a script writes to, and the location that follows it."""

    def __init__(self, root: Path) -> None:
        self.source = root / "source"
        self.source.mkdir()
        self.folder = root / "bucket"
        self.to: Location = locate(self.folder, home=root)
        self.sync = self.new_sync()

    def new_sync(self, host: str = "algo-1") -> EventSync:
        return EventSync("tensorboard", self.source, self.to, host)

    def objects(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file())

    def joined(self) -> dict[str, bytes]:
        """What the chunks of each file make together, by its host, name and generation."""
        return {
            f"{source.host}:{source.folder}/{source.name}#{source.generation}": b"".join(
                self.to.store.get(piece.key) for piece in pieces
            )
            for source, pieces in by_source(list_event_files(self.to)).items()
        }


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def write(file: EventFile, steps: range, tag: str = "loss") -> None:
    for step in steps:
        file.add((tag, step / 2, step, 1.7e9 + step))
    file.flush()


class Reader:
    """TensorBoard's Python loader on a run, kept between reloads as its server does."""

    def __init__(self, folder: Path) -> None:
        self._watcher = DirectoryWatcher(
            str(folder), lambda path: EventFileLoader(path), IsSummaryEventsFile
        )
        self.steps: list[int] = []

    def reload(self) -> list[int]:
        for event in self._watcher.Load():
            self.steps += [event.step for _ in event.summary.value]
        return self.steps


def steps_of(folder: Path, tag: str = "loss") -> list[int]:
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return [point.step for point in events.Scalars(tag)]


def test_a_growing_file_goes_up_once_and_tensorboard_follows_it(site: Site):
    file = EventFile(site.source)
    reader = Reader(site.folder)
    for number in range(20):
        write(file, range(number * 10, number * 10 + 10))
        site.sync.tick()
        if number == 0:
            reader = Reader(site.folder)
        assert reader.reload() == list(range(number * 10 + 10))
    assert site.sync.state.uploaded_bytes == file.path.stat().st_size
    assert list(site.joined().values()) == [file.path.read_bytes()]
    assert steps_of(site.folder) == list(range(200))
    site.sync.tick()
    assert len(site.objects()) == 20


def test_nothing_new_means_nothing_sent_and_a_missing_folder_is_no_error(site: Site):
    site.sync.tick()
    site.source.rmdir()
    site.sync.tick()
    site.sync.tick(last=True)
    assert site.objects() == []
    assert site.sync.state.pending_files == 0


def test_two_writers_in_one_run_are_both_followed(site: Site):
    first, second = EventFile(site.source), EventFile(site.source)
    site.sync.tick()
    reader = Reader(site.folder)
    for number in range(6):
        write(first if number % 2 else second, range(number * 10, number * 10 + 10))
        site.sync.tick()
        assert reader.reload() == list(range(number * 10 + 10))


def test_sub_folders_are_runs(site: Site):
    for run in ("train", "deep/er"):
        write(EventFile(site.source / run), range(5))
    site.sync.tick()
    assert steps_of(site.folder / "train") == steps_of(site.folder / "deep/er") == [*range(5)]
    assert curves.read(site.folder).runs == ["deep/er", "train"]


def test_half_a_record_waits_until_it_is_whole(site: Site):
    file = EventFile(site.source)
    write(file, range(10))
    whole = file.path.read_bytes()
    file.path.write_bytes(whole[:-5])
    site.sync.tick()
    assert steps_of(site.folder) == [*range(9)]
    assert site.sync.state.pending_bytes == len(whole) - 5 - sum(
        path.stat().st_size for path in site.objects()
    )
    file.path.write_bytes(whole)
    site.sync.tick()
    assert steps_of(site.folder) == [*range(10)]
    assert list(site.joined().values()) == [whole]


def test_at_the_end_a_torn_tail_goes_up_too_and_hides_nothing(site: Site):
    file, later = EventFile(site.source), EventFile(site.source)
    write(file, range(10))
    torn = file.path.read_bytes()[:-5]
    file.path.write_bytes(torn)
    site.sync.tick()
    site.sync.tick(last=True)
    write(later, range(20, 25))
    site.sync.tick(last=True)
    assert torn in site.joined().values()
    assert steps_of(site.folder) == [*range(9), *range(20, 25)]
    assert sorted(curves.read(site.folder).scalars[".", "loss"].steps) == steps_of(site.folder)


def test_a_recreated_file_is_uploaded_again(site: Site):
    file = EventFile(site.source)
    write(file, range(10))
    site.sync.tick()
    before = file.path.read_bytes()
    other = EventFile(site.source / "other")
    write(other, range(100, 130))
    content = other.path.read_bytes()
    shutil.rmtree(other.path.parent)
    with file.path.open("r+b") as again:  # truncated, and longer than before by the next scan
        again.truncate(0)
        again.write(content)
    site.sync.tick()
    assert sorted(site.joined().values()) == sorted([before, content])
    assert steps_of(site.folder) == [*range(10), *range(100, 130)]


def test_deleted_files_stay_in_the_store_and_a_new_one_of_the_name_is_separate(site: Site):
    file = EventFile(site.source)
    write(file, range(10))
    site.sync.tick()
    before = file.path.read_bytes()
    file.path.unlink()
    site.sync.tick()
    assert steps_of(site.folder) == [*range(10)]
    again = EventFile(site.source)
    write(again, range(50, 60))
    content = again.path.read_bytes()
    again.path.rename(file.path)
    site.sync.tick()
    assert sorted(site.joined().values()) == sorted([before, content])


def test_a_rotated_file_continues_where_it_was(site: Site):
    file = EventFile(site.source)
    write(file, range(10))
    site.sync.tick()
    rotated = file.path.with_name(file.path.name + ".old")
    os.rename(file.path, rotated)
    write(file, range(10, 20))
    fresh = EventFile(site.source)
    write(fresh, range(20, 30))
    fresh.path.rename(file.path)
    site.sync.tick()
    assert sorted(site.joined().values()) == sorted([rotated.read_bytes(), file.path.read_bytes()])
    assert sorted(steps_of(site.folder)) == [*range(30)]


class ForgetfulStore(FolderStore):
    """Stores an object and then says that it could not: a reply lost on the way."""

    forgets = False

    def put(
        self, key: str, data: bytes | Path | Iterable[bytes], *, replaces: str | None = None
    ) -> Entry:
        entry = super().put(key, data, replaces=replaces)
        if self.forgets:
            raise StoreUnreachable("no answer")
        return entry


def test_a_chunk_whose_reply_was_lost_is_not_sent_again(site: Site):
    store = ForgetfulStore(site.folder)
    site.to = replace(site.to, store=store)
    site.sync = site.new_sync()
    file = EventFile(site.source)
    store.forgets = True
    write(file, range(10))
    with pytest.raises(StoreUnreachable):
        site.sync.tick()
    store.forgets = False
    write(file, range(10, 20))
    site.sync.tick()
    assert len(site.objects()) == 2
    assert steps_of(site.folder) == [*range(20)]


def test_a_supervisor_that_takes_over_sends_nothing_twice(site: Site):
    file = EventFile(site.source)
    for number in range(4):
        write(file, range(number * 10, number * 10 + 10))
        site.sync.tick()
        site.sync = site.new_sync()
    site.sync.tick()
    assert site.sync.state.uploaded_bytes == 0
    write(file, range(40, 50))
    site.sync.tick(last=True)
    assert steps_of(site.folder) == [*range(50)]
    assert list(site.joined().values()) == [file.path.read_bytes()]
    assert [parse(path.name).source.generation for path in site.objects()] == [0] * 5


def test_a_later_attempt_with_a_file_of_the_same_name_is_separate(site: Site):
    file = EventFile(site.source)
    write(file, range(10))
    site.sync.tick()
    retried = EventFile(site.source)
    write(retried, range(100, 120))
    retried.path.rename(file.path)
    site.sync = site.new_sync()
    site.sync.tick()
    assert [parse(path.name).source.generation for path in site.objects()] == [0, 1]


def test_names_sort_as_they_were_sent_even_when_the_clock_is_set_back(
    site: Site, monkeypatch: pytest.MonkeyPatch
):
    file = EventFile(site.source)
    write(file, range(10))
    site.sync.tick()
    monkeypatch.setattr("trackside.supervisor.event_sync.time.time_ns", lambda: 10**9)
    for sync in (site.sync, site.new_sync()):
        write(file, range(10, 20))
        sync.tick()
    offsets = [parse(path.name).offset for path in site.objects()]
    assert len(offsets) == 3
    assert offsets == sorted(offsets)


def test_two_hosts_that_write_files_of_one_name_are_separate(site: Site, tmp_path: Path):
    file = EventFile(site.source)
    write(file, range(10))
    site.sync.tick()
    before = file.path.read_bytes()
    write(file, range(10, 30))
    site.new_sync("algo-2").tick()
    assert sorted(site.joined().values()) == sorted([before, file.path.read_bytes()])


def test_what_is_no_event_file_goes_up_at_the_end(site: Site):
    odd = site.source / "notes.tfevents.txt"
    odd.write_bytes(b"not records at all, but kept")
    site.sync.tick()
    assert site.objects() == []
    site.sync.tick(last=True)
    assert list(site.joined().values()) == [odd.read_bytes()]


def test_merging_gives_one_object_for_each_writer_with_nothing_lost(site: Site):
    first, second = EventFile(site.source), EventFile(site.source / "run")
    for number in range(5):
        write(first, range(number * 10, number * 10 + 10))
        write(second, range(number * 10, number * 10 + 10))
        site.sync.tick()
    live = Reader(site.folder)
    assert live.reload() == [*range(50)]
    assert curves.merge(site.folder) == 8
    assert len(site.objects()) == 2
    assert live.reload() == [*range(50)]
    for folder, file in ((site.folder, first), (site.folder / "run", second)):
        assert steps_of(folder) == [*range(50)]
        (merged,) = (path for path in folder.iterdir() if path.is_file())
        assert merged.read_bytes() == file.path.read_bytes()
    assert curves.merge(site.folder) == 0


def test_a_merge_that_was_cut_short_shows_no_point_twice_to_our_reader(site: Site):
    file = EventFile(site.source)
    for number in range(5):
        write(file, range(number * 10, number * 10 + 10))
        site.sync.tick()
    site.objects()[0].write_bytes(file.path.read_bytes())
    assert [*curves.read(site.folder).scalars[".", "loss"].steps] == [*range(50)]
    assert curves.merge(site.folder) == 4
    assert steps_of(site.folder) == [*range(50)]


def test_sync_continues_after_a_merge(site: Site):
    file = EventFile(site.source)
    for number in range(3):
        write(file, range(number * 10, number * 10 + 10))
        site.sync.tick()
    curves.merge(site.folder)
    site.sync = site.new_sync()
    write(file, range(30, 40))
    site.sync.tick(last=True)
    assert steps_of(site.folder) == [*range(40)]
