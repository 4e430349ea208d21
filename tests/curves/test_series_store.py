"""The store of series: always what reading all event files again would give."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.wait import until
from trackside import curves
from trackside.curves import series_file, series_store, wire
from trackside.curves.chunks import Chunk, Source
from trackside.curves.curve_points import CurvePoints, Piece
from trackside.curves.event_file import EventFile
from trackside.curves.event_reader import Key
from trackside.curves.records import frame
from trackside.curves.series_file import SeriesFile
from trackside.curves.series_store import SeriesEntry, SeriesStore
from trackside.records.layout import Home
from trackside.storage.folder import FolderStore
from trackside.storage.locate import Location, locate
from trackside.storage.store import Entry

PLENTY = 1e9


class Ground:
    """A home, and a folder with event files."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root / "home")
        self.folder = root / "events"
        self.location = locate(self.folder, home=self.home.root)
        self.store = SeriesStore(self.home, PLENTY)

    @property
    def file(self) -> Path:
        return self.home.series_of("job")

    def entry(self, *, is_final: bool = False) -> SeriesEntry:
        entry = self.store.entry("job")
        entry.update([self.location], is_final=is_final)
        return entry

    def read(self) -> dict[Key, CurvePoints]:
        """From the event files."""
        found = curves.read(self.folder, home=self.home.root).scalars
        return {
            key: CurvePoints([Piece.of(one.steps, one.times, one.values)])
            for key, one in found.items()
        }


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that little is waiting and much is stored."""
    monkeypatch.setattr(series_store, "LEAST_WAITING", 20)
    monkeypatch.setattr(series_store, "MOST_WAITING", 50)


def check_same(entry: SeriesEntry, wanted: dict[Key, CurvePoints]) -> None:
    assert {*entry.curves()} == {*wanted}
    for key, points in wanted.items():
        found = entry.points(key)
        assert found.steps().tolist() == points.steps().tolist()
        assert found.times().tolist() == points.times().tolist()
        assert np.array_equal(found.values(), points.values(), equal_nan=True)
        assert repr(entry.figures(key)) == repr(points.figures())


def add(file: EventFile, steps: list[int] | range, tag: str = "loss") -> None:
    for step in steps:
        file.add((tag, step * 0.5, step, 1e9 + step))
    file.flush()


def write(folder: Path, *parts: list[int] | range) -> Path:
    file = EventFile(folder)
    for steps in parts:
        add(file, steps)
    file.close()
    return file.path


@pytest.mark.parametrize("seed", range(12))
def test_it_has_what_reading_everything_again_gives(
    ground: Ground, little_memory: None, seed: int
) -> None:
    """While files grow, begin anew, appear, vanish and are replaced, in one process or another."""
    rng = random.Random(seed)
    files: list[EventFile] = []
    entry = ground.entry()
    for _ in range(40):
        what = rng.random()
        if what < 0.15 or not files:
            files.append(EventFile(ground.folder / rng.choice(["", "a", "a/b"])))
        elif what < 0.75:
            begin = rng.randrange(200)
            steps = [begin + rng.randrange(30) * (i % 2) + i for i in range(rng.randrange(60))]
            add(rng.choice(files), steps, rng.choice(["loss", "acc", "ü/\0"]))
        elif what < 0.8:
            file = files.pop(rng.randrange(len(files)))
            file.close()
            file.path.unlink()
        elif what < 0.85:
            file = files.pop(rng.randrange(len(files)))
            file.close()
            os.truncate(file.path, rng.randrange(file.path.stat().st_size))
        elif what < 0.9:
            replaced = files.pop(rng.randrange(len(files)))
            replaced.close()
            other = write(ground.folder / "other", range(rng.randrange(100)))
            os.replace(other, replaced.path)
        if rng.random() < 0.2:
            entry = ground.store.entry("job")
        if rng.random() < 0.7:
            entry.update([ground.location], is_final=rng.random() < 0.2)
            check_same(entry, ground.read())
    for file in files:
        file.close()
    entry.update([ground.location], is_final=True)
    check_same(entry, ground.read())
    check_same(ground.entry(), ground.read())


def test_what_is_stored_is_not_read_again(ground: Ground) -> None:
    file = EventFile(ground.folder)
    add(file, range(1000))
    first = ground.entry(is_final=True)
    assert first.num_bytes_read == file.path.stat().st_size
    again = ground.entry()
    assert again.num_bytes_read == 0
    check_same(again, ground.read())
    before = file.path.stat().st_size
    add(file, range(1000, 1010))
    file.close()
    third = ground.entry()
    assert third.num_bytes_read == file.path.stat().st_size - before
    check_same(third, ground.read())


def test_a_job_that_runs_is_stored_when_enough_has_come(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series_store, "LEAST_WAITING", 100)
    file = EventFile(ground.folder)
    add(file, range(100))
    entry = ground.entry()
    assert not ground.file.exists()
    add(file, range(100, 110))
    assert entry.update([ground.location], is_final=False)
    assert SeriesFile(ground.file).num_points == 110
    add(file, range(110, 120))
    entry.update([ground.location], is_final=False)
    assert SeriesFile(ground.file).num_points == 110
    check_same(entry, ground.read())
    entry.update([ground.location], is_final=True)
    assert SeriesFile(ground.file).num_points == 120
    file.close()


def test_a_large_file_is_stored_while_it_is_read(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that memory stays bounded; a process that ends then continues where it was."""
    monkeypatch.setattr("trackside.curves.event_tail.BLOCK_BYTES", 4096)
    monkeypatch.setattr(series_store, "MOST_WAITING", 500)
    path = write(ground.folder, range(3000))
    entry = ground.store.entry("job")
    with monkeypatch.context() as patch:
        patch.setattr("trackside.curves.series_file.write", until_the_third(series_file.write))
        with pytest.raises(KeyboardInterrupt):
            entry.update([ground.location], is_final=False)
    assert 500 < SeriesFile(ground.file).num_points < 3000
    for each in (ground.store.entry("job"), entry):
        before = each.num_bytes_read
        each.update([ground.location], is_final=True)
        assert each.num_bytes_read - before < path.stat().st_size - 500 * 30
        check_same(each, ground.read())


def until_the_third(write: Callable[..., SeriesFile]) -> Callable[..., SeriesFile]:
    calls = iter(range(100))

    def called(*arguments: Any) -> SeriesFile:
        written = write(*arguments)
        if next(calls) == 2:
            raise KeyboardInterrupt
        return written

    return called


def test_chunks_in_storage_are_read_once_also_after_they_were_merged(ground: Ground) -> None:
    whole = write(ground.folder / "whole", range(500)).read_bytes()
    chunked = Ground(ground.folder.parent)
    chunked.folder = ground.folder.parent / "chunks"
    chunked.location = locate(chunked.folder, home=ground.home.root)
    source = Source("run", "events.out.tfevents.1.host", "algo-1", 0)
    cuts = [0, 5000, 9001, 12000, len(whole)]
    for sent, (begin, end) in enumerate(zip(cuts, cuts[1:], strict=False)):
        path = chunked.folder / Chunk(source, begin, sent + 1).path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(whole[begin:end])
    entry = chunked.entry(is_final=True)
    check_same(entry, chunked.read())
    assert curves.merge(chunked.folder, home=ground.home.root) == 3
    again = chunked.entry()
    assert again.num_bytes_read == 0
    check_same(again, chunked.read())


@pytest.mark.parametrize("is_new_process", [False, True])
def test_another_file_under_the_same_name_is_read_from_its_beginning(
    ground: Ground, is_new_process: bool
) -> None:
    path = write(ground.folder, range(100))
    entry = ground.entry(is_final=True)
    other = write(ground.folder / "elsewhere", range(500, 900))
    with path.open("r+b") as file:  # the same inode, and longer
        file.write(other.read_bytes())
    other.unlink()
    if is_new_process:
        entry = ground.store.entry("job")
    entry.update([ground.location], is_final=True)
    assert entry.points((".", "loss")).steps().tolist() == [*range(500, 900)]


def test_scalars_whose_plugin_only_the_first_event_names_are_known_later(ground: Ground) -> None:
    first = frame(wire.event(1.0, 0, wire.summary(wire.scalar_tensor("m", 0.1, is_double=True))))
    bare = wire.text(1, "m") + wire.scalar_tensor("", 0.2, is_double=True).split(b"\x4a")[0]
    path = write(ground.folder, [1])
    with path.open("ab") as file:
        file.write(first)
    ground.entry(is_final=True)
    with path.open("ab") as file:
        file.write(frame(wire.event(2.0, 1, wire.summary(bare))))
    entry = ground.entry()
    check_same(entry, ground.read())
    assert entry.points((".", "m")).values().tolist() == [0.1, 0.2]


def damages(size: int) -> Iterator[tuple[int, int]]:
    """Where the file is cut, or a byte of it changed."""
    rng = random.Random(4)
    for _ in range(40):
        yield rng.randrange(size), rng.randrange(1, 256)
    yield from [(0, 1), (size - 1, 1), (size - 9, 255)]


def test_a_damaged_file_is_made_again(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart of the machine, when parts may not have reached the disk."""
    write(ground.folder, range(300))
    ground.entry(is_final=True)
    whole = ground.file.read_bytes()
    wanted = ground.read()
    for at, change in damages(len(whole)):
        for is_cut in (True, False):
            damaged = bytearray(whole[:at] if is_cut else whole)
            if not is_cut:
                damaged[at] ^= change
            ground.file.write_bytes(damaged)
            with monkeypatch.context() as patch:
                patch.setattr(series_store, "boot_id", lambda: "another")
                entry = ground.store.entry("job")
                entry.update([ground.location], is_final=True)
            check_same(entry, wanted)
            ground.file.write_bytes(whole)


def test_without_space_it_works_from_memory(ground: Ground) -> None:
    write(ground.folder, range(300))
    ground.home.cache.mkdir(parents=True)
    ground.home.series.write_text("no folder")
    entry = ground.entry(is_final=True)
    check_same(entry, ground.read())


def test_the_least_recently_used_are_removed_beyond_the_limit(ground: Ground) -> None:
    write(ground.folder, range(300))
    for age, job in enumerate(["c", "a", "b"]):
        entry = ground.store.entry(job)
        entry.update([ground.location], is_final=True)
        moment = time.time() - 1000 * (3 - age)
        os.utime(ground.home.series_of(job), (moment, moment))
    size = ground.home.series_of("a").stat().st_size
    store = SeriesStore(ground.home, 2.5 * size)
    store.entry("c").update([ground.location], is_final=False)  # used: it is opened
    left_over = ground.home.series / ".x.series.1.aa"
    left_over.write_bytes(b"x")
    os.utime(left_over, (1.0, 1.0))
    store.evict()
    assert {path.name for path in ground.home.series.iterdir()} == {"b.series", "c.series"}
    check_same(entry, ground.read())  # what is open stays whole


class Counting(FolderStore):
    """Counts its listings."""

    num_listings = 0

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        self.num_listings += 1
        return super().list(prefix, after)


def test_nothing_is_listed_while_no_file_changes(ground: Ground) -> None:
    file = EventFile(ground.folder / "run")
    add(file, range(10))
    store = Counting(ground.folder)
    location = Location(store, "", str(ground.folder))
    entry = ground.store.entry("job")

    def is_idle() -> bool:
        """Once the files are not of this very moment."""
        before = store.num_listings
        entry.update([location], is_final=False)
        return store.num_listings == before

    until(is_idle)
    assert is_idle()
    add(file, [10])
    assert entry.update([location], is_final=False)
    until(is_idle)
    write(ground.folder / "new" / "deep", [1, 2])
    assert entry.update([location], is_final=False)
    check_same(entry, ground.read())
    file.close()


def test_a_folder_that_is_not_there_yet_is_noticed_when_it_comes(ground: Ground) -> None:
    entry = ground.entry()
    assert entry.curves() == []
    time.sleep(0.15)  # past the clock's grain, so that the watch has settled
    entry.update([ground.location], is_final=False)
    write(ground.folder / "a" / "b", [1])
    assert entry.update([ground.location], is_final=False)
    assert entry.curves() == [("a/b", "loss")]


def test_a_new_location_keeps_what_was_stored_of_the_others(ground: Ground) -> None:
    """As when a job begins its second attempt."""
    write(ground.folder, range(100))
    ground.entry(is_final=True)
    second = ground.folder.parent / "second"
    write(second, range(50, 120))
    locations = [ground.location, locate(second, home=ground.home.root)]
    entry = ground.store.entry("job")
    entry.update(locations, is_final=True)
    assert entry.num_bytes_read == sum(path.stat().st_size for path in second.iterdir())
    steps = entry.points((".", "loss")).steps().tolist()
    assert steps == [*range(51), *range(50, 120)]
    assert entry.figures((".", "loss")).count == len(steps)


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from trackside.curves import series_file, series_store
    from trackside.records.layout import Home
    from trackside.storage.locate import locate

    home, folder, last = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    files = {series_file.__file__, series_store.__file__}
    count = 0

    def trace(frame, event, argument):
        global count
        if frame.f_code.co_filename not in files:
            return None
        count += 1
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    store = series_store.SeriesStore(Home(home), 1e9)
    location = locate(folder, home=home)
    sys.settrace(trace)
    for number in range(3):
        store.entry("job").update([location], is_final=True)
        with next(folder.glob("*tfevents*")).open("ab") as file:
            file.write(Path(sys.argv[4]).read_bytes())
    sys.settrace(None)
    print(count)
"""


def test_a_process_that_is_killed_at_any_line_leaves_what_the_next_can_use(ground: Ground) -> None:
    more = write(ground.folder.parent / "more", range(100, 130))
    total = killed_at(ground, 0, more)
    assert total > 500
    rng = random.Random(3)
    for line in sorted(rng.sample(range(1, total), 12)):
        assert killed_at(ground, line, more) == -signal.SIGKILL
        entry = ground.entry(is_final=True)
        check_same(entry, ground.read())


def killed_at(ground: Ground, line: int, more: Path) -> int:
    """The number of lines if it was not killed, else how it ended."""
    for path in [*ground.folder.glob("*")] if ground.folder.exists() else []:
        path.unlink()
    ground.file.unlink(missing_ok=True)
    write(ground.folder, range(100))
    arguments = [str(ground.home.root), str(ground.folder), str(line), str(more)]
    command = [sys.executable, "-c", textwrap.dedent(KILLED), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else done.returncode


TOGETHER = """
    import sys
    from pathlib import Path
    from trackside.curves import series_store
    from trackside.records.layout import Home
    from trackside.storage.locate import locate

    home, folder, end = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    series_store.LEAST_WAITING = 10
    store = series_store.SeriesStore(Home(home), 1e9)
    location = locate(folder, home=home)
    while True:
        is_over = end.exists()
        entry = store.entry("job")
        for _ in range(3):
            entry.update([location], is_final=is_over)
        steps = entry.points((".", "loss")).steps().tolist()
        assert steps == [*range(len(steps))], steps
        if is_over:
            break
    print(len(steps))
"""


def test_two_processes_use_it_at_once(ground: Ground) -> None:
    file = EventFile(ground.folder)
    end = ground.folder.parent / "end"
    arguments = [str(ground.home.root), str(ground.folder), str(end)]
    command = [sys.executable, "-c", textwrap.dedent(TOGETHER), *arguments]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for step in range(0, 2000, 10):
        add(file, range(step, step + 10))
        time.sleep(0.002)
    file.close()
    end.write_text("")
    assert [other.communicate()[0].strip() for other in others] == ["2000", "2000"]
    check_same(ground.entry(), ground.read())
