import fcntl
import os
import select
import sys
import termios
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.wait import until
from trackside.errors import InputError
from trackside.supervisor.pipes import Feeder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def numbered(epoch: int) -> Iterator[bytes]:
    yield f"epoch {epoch}\n".encode()
    yield b"line\n" * 100_000


def feeding_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("trackside-pipe")]


def unread_bytes(pipe: int) -> int:
    answer = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


def test_each_epoch_is_read_from_a_pipe_of_its_own(data: Path) -> None:
    with Feeder(data, "train", numbered):
        for epoch in range(5):
            # No waiting: the next pipe is there when the one before has been read to its end.
            content = (data / f"train_{epoch}").read_bytes()
            assert content == f"epoch {epoch}\n".encode() + b"line\n" * 100_000
    assert list(data.iterdir()) == []
    assert feeding_threads() == []


def test_the_first_pipe_is_there_before_the_script_and_no_other(data: Path) -> None:
    with Feeder(data, "train", numbered):
        assert [path.name for path in data.iterdir()] == ["train_0"]
        assert (data / "train_0").is_fifo()


def test_a_reader_that_closes_early_gets_the_next_epoch(data: Path) -> None:
    def endless(epoch: int) -> Iterator[bytes]:
        while True:
            yield bytes([epoch]) * 50_000

    with Feeder(data, "train", endless):
        for epoch in range(4):
            until((data / f"train_{epoch}").exists)
            with (data / f"train_{epoch}").open("rb") as pipe:
                assert pipe.read(200_000) == bytes([epoch]) * 200_000


def test_an_epoch_without_data_is_an_empty_file(data: Path) -> None:
    with Feeder(data, "train", lambda epoch: []):
        assert (data / "train_0").read_bytes() == b""
        assert (data / "train_1").read_bytes() == b""


@pytest.mark.parametrize("reading", [False, True], ids=["nobody reads", "the reader hangs"])
def test_closing_never_waits_for_a_reader(data: Path, reading: bool) -> None:
    feeder = Feeder(data, "train", lambda epoch: (bytes(1 << 20) for _ in range(1000)))
    feeder.start()
    pipe = os.open(data / "train_0", os.O_RDONLY) if reading else -1
    if reading:
        until(lambda: unread_bytes(pipe) == fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ))
    feeder.close()
    assert feeding_threads() == []
    feeder.close()
    if reading:
        os.close(pipe)


def test_only_what_the_reader_takes_is_fetched(data: Path) -> None:
    fetched = 0

    def counted(epoch: int) -> Iterator[bytes]:
        nonlocal fetched
        for _ in range(1000):
            fetched += 1
            yield bytes(1 << 20)

    with Feeder(data, "train", counted), (data / "train_0").open("rb") as pipe:
        pipe.read(5 << 20)
        assert fetched < 10


def test_a_failure_is_raised_and_never_looks_like_the_end(data: Path) -> None:
    def broken(epoch: int) -> Iterable[bytes]:
        yield b"half"
        raise InputError("the object is gone")

    with Feeder(data, "train", broken) as feeder:
        feeder.check()
        pipe = os.open(data / "train_0", os.O_RDONLY)
        assert os.read(pipe, 100) == b"half"
        until(lambda: feeder.failure is not None)
        with pytest.raises(InputError, match="gone"):
            feeder.check()
        ended = select.poll()
        ended.register(pipe, select.POLLIN | select.POLLHUP)
        assert not ended.poll(200), "neither data nor the end"
        os.close(pipe)


def test_the_stream_is_closed_when_the_reader_leaves(data: Path) -> None:
    closed = threading.Event()

    def watched(epoch: int) -> Iterator[bytes]:
        try:
            while True:
                yield bytes(100_000)
        finally:
            closed.set()

    with Feeder(data, "train", watched):
        with (data / "train_0").open("rb") as pipe:
            pipe.read(10)
        assert closed.wait(60)


def test_two_channels_are_independent(data: Path) -> None:
    with Feeder(data, "train", numbered), Feeder(data, "train_b", numbered):
        assert (data / "train_b_0").read_bytes().startswith(b"epoch 0")
        assert (data / "train_b_1").read_bytes().startswith(b"epoch 1")
        assert (data / "train_0").read_bytes().startswith(b"epoch 0")


@pytest.mark.parametrize("read_next", [0, 1], ids=["waits still", "has gone on"])
def test_a_feeder_that_follows_a_dead_one_serves_the_epoch_the_script_is_at(
    data: Path, read_next: int
) -> None:
    os.mkfifo(data / "train_7")
    with Feeder(data, "train", numbered):
        epoch = 7 + read_next
        assert (data / f"train_{epoch}").read_bytes().startswith(f"epoch {epoch}\n".encode())
        content = (data / f"train_{epoch + 1}").read_bytes()
        assert content.startswith(f"epoch {epoch + 1}\n".encode())
        assert not (data / "train_7").exists()


@pytest.mark.parametrize("plant", ["link", "file"])
def test_what_the_script_puts_in_a_pipe_s_place_is_never_written_to(
    data: Path, tmp_path: Path, plant: str
) -> None:
    """A supervisor may be allowed to write where the script is not."""
    kept = tmp_path / "kept"
    kept.write_text("kept")
    with Feeder(data, "train", numbered) as feeder:
        other = tmp_path / "other"
        if plant == "link":
            other.symlink_to(kept)
        else:
            other.write_text("kept")
        other.rename(data / "train_0")
        until(lambda: feeder.failure is not None)
        with pytest.raises((InputError, OSError)):
            feeder.check()
    assert (data / "train_0").read_text() == kept.read_text() == "kept"


def test_a_folder_that_was_renamed_is_still_the_one_that_has_the_pipes(
    data: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with Feeder(data, "train", numbered):
        data.rename(tmp_path / "moved")
        data.symlink_to(other)
        assert (tmp_path / "moved" / "train_0").read_bytes().startswith(b"epoch 0")
        assert (tmp_path / "moved" / "train_1").is_fifo()
    assert os.listdir(other) == os.listdir(tmp_path / "moved") == []
