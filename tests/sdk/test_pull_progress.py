"""How far a pull is: lines where nobody watches, a bar on a terminal."""

import io

import pytest

from trackside.containers.images import Pull
from trackside.sdk import pull_progress
from trackside.sdk.pull_progress import Bar, Lines


def pulled(done: int, name: str = "team/x") -> Pull:
    pull = Pull(name)
    detail = {"current": done, "total": 2_000_000}
    pull.note({"status": "Downloading", "id": "a", "progressDetail": detail})
    return pull


def test_lines_begin_at_once_and_then_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    lines = Lines(stream)
    for done in (0, 500_000, 700_000):
        lines(pulled(done))
    assert stream.getvalue() == "Pulling team/x\n"
    monkeypatch.setattr(pull_progress, "LINE_SECONDS", 0.0)
    lines(pulled(1_000_000))
    lines.close()
    assert stream.getvalue() == "Pulling team/x\nPulling team/x: 1.0 MB of 2.0 MB\n"


def test_a_name_cannot_steer_the_terminal() -> None:
    stream = io.StringIO()
    Lines(stream)(pulled(0, "x\x1b[2J"))
    assert "\x1b" not in stream.getvalue()


def test_nothing_is_drawn_for_an_image_that_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    Bar().close()
    assert capsys.readouterr().err == ""
