"""What a command writes is in its log, also when the disk is full for a while or at the end."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.small_disk import fill, small_disk
from trackside.supervisor import log_pump
from trackside.supervisor.log_pump import HELD_BYTES, PIECE_BYTES, LogPump

LINE = b"line %05d of the script\n"


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(log_pump, "RETRY_SECONDS", 0.0)  # each step tries the disk
    with small_disk(tmp_path / "disk", "2m") as disk:
        yield disk


def written(pump: LogPump, numbers: range) -> bytes:
    """Write these lines, with steps between as init makes them."""
    text = b""
    for number in numbers:
        os.write(pump.writable, LINE % number)
        text += LINE % number
        if number % 100 == 0:
            pump.step()
    return text


def test_what_is_written_is_in_the_log_byte_for_byte(tmp_path: Path):
    log = tmp_path / "log"
    log.write_bytes(b"of an earlier attempt\n")
    pump = LogPump(str(log))
    text = b"of an earlier attempt\n"
    for size in (1, 4096, PIECE_BYTES - 1, PIECE_BYTES, 17):
        piece = os.urandom(size)
        os.write(pump.writable, piece)
        text += piece
        while pump.step():
            pass
        assert log.read_bytes() == text
    os.write(pump.writable, b"the rest")
    pump.finish()
    assert log.read_bytes() == text + b"the rest"
    assert log.stat().st_blocks * 512 < len(text) + 2 * PIECE_BYTES, "the reserve is given back"


def test_without_splice_and_reserves_nothing_is_lost_either(tmp_path: Path):
    pump = LogPump(str(tmp_path / "log"))
    pump._can_splice = pump._can_reserve = False  # as on macOS
    text = written(pump, range(10_000))
    pump.finish()
    assert (tmp_path / "log").read_bytes() == text


def test_a_disk_that_is_full_for_a_moment_costs_nothing(disk: Path):
    pump = LogPump(str(disk / "log"))
    text = written(pump, range(1000))
    fill(disk)
    for start in range(1000, 20_000, 1000):
        text += written(pump, range(start, start + 1000))
        if pump.is_holding:
            break
    assert pump.is_holding
    (disk / "filler").unlink()
    text += written(pump, range(20_000, 30_000))
    pump.finish()
    assert (disk / "log").read_bytes() == text


@pytest.mark.parametrize("is_freed", [True, False])
def test_a_disk_that_stays_full_costs_old_lines_which_are_counted(disk: Path, is_freed: bool):
    """The newest are kept, also when no byte was ever freed: space was reserved for them."""
    pump = LogPump(str(disk / "log"))
    text = written(pump, range(1000))
    fill(disk)
    text += written(pump, range(1000, 30_000))
    if is_freed:
        (disk / "filler").unlink()
    pump.finish()
    log = (disk / "log").read_bytes()
    before, marker, after = re.split(rb"(\[trackside\] .*\n)", log)
    missing = re.fullmatch(
        rb"\[trackside\] ([\d,]+) bytes of output are missing here: No space left on device.\n",
        marker,
    )
    assert missing
    assert int(missing[1].replace(b",", b"")) == len(text) - len(before) - len(after)
    assert text.startswith(before)
    assert before.endswith(b"\n")
    assert text.endswith(after)
    assert after.startswith(b"line ")
    assert len(after) > HELD_BYTES // 2


def test_a_full_disk_never_keeps_the_writer_waiting(disk: Path):
    pump = LogPump(str(disk / "log"))
    fill(disk)
    os.set_blocking(pump.writable, False)
    for _ in range(100):
        assert os.write(pump.writable, bytes(PIECE_BYTES)) == PIECE_BYTES
        assert pump.step() == PIECE_BYTES


def test_an_open_line_is_ended_before_the_marker(disk: Path):
    pump = LogPump(str(disk / "log"))
    os.write(pump.writable, b"50%|#####")
    pump.step()
    fill(disk)
    written(pump, range(20_000))
    (disk / "filler").unlink()
    pump.finish()
    assert b"50%|#####" in (disk / "log").read_bytes()
    lines = (disk / "log").read_bytes().splitlines()
    assert sum(line.startswith(b"[trackside] ") for line in lines) == 1


def test_a_line_of_our_own_stands_between_those_of_the_command(tmp_path: Path):
    pump = LogPump(str(tmp_path / "log"))
    pump.say("No namespaces here.")
    os.write(pump.writable, b"hello\n")
    pump.finish()
    assert (tmp_path / "log").read_bytes() == b"[trackside] No namespaces here.\nhello\n"
