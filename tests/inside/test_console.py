"""A copy of what a script prints."""

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from trackside.inside.console import Console


@contextmanager
def copied_to(log: Path) -> Iterator[Console]:
    """With streams of Python's own kind, as scripts have them."""
    with redirect_stdout(_stream()), redirect_stderr(_stream()):
        console = Console(log)
        console.start()
        try:
            yield console
        finally:
            console.stop()


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def test_both_streams_are_copied_in_order_and_written_as_before(tmp_path: Path):
    with copied_to(tmp_path / "log"):
        handler = logging.StreamHandler(sys.stderr)
        assert sys.stdout.write("one\n") == 4
        handler.emit(logging.LogRecord("x", logging.INFO, "", 0, "two", (), None))
        sys.stderr.write("drei ✓\n")
        assert sys.stdout.buffer.getvalue() == b"one\n"  # type: ignore[union-attr]
    assert (tmp_path / "log").read_text() == "one\ntwo\ndrei ✓\n"


def test_after_its_end_the_streams_are_as_they_were(tmp_path: Path):
    with copied_to(tmp_path / "log") as console:
        console.stop()
        console.stop()
        sys.stdout.write("later")
        assert "write" not in vars(sys.stdout)
    assert (tmp_path / "log").read_text() == ""


def test_who_came_after_us_stays(tmp_path: Path):
    seen: list[str] = []
    with copied_to(tmp_path / "log") as console:
        ours = sys.stdout.write

        def theirs(text: str) -> int:
            seen.append(text)
            return ours(text)

        sys.stdout.write = theirs  # type: ignore[method-assign]
        console.stop()
        sys.stdout.write("later")
    assert seen == ["later"]
    assert (tmp_path / "log").read_text() == ""


def test_streams_that_cannot_be_copied_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Fixed:
        __slots__ = ()

        def write(self, text: str) -> int:
            return len(text)

    monkeypatch.setattr(sys, "stdout", Fixed())
    monkeypatch.setattr(sys, "stderr", None)
    console = Console(tmp_path / "log")
    console.start()
    assert sys.stdout.write("nothing breaks") == 14
    console.stop()
