"""What the capture reads of the running script."""

import sys
from types import SimpleNamespace

import pytest

from trackside.capture.vitals.script import remarks_on_script

APART = "rng.shuffle(x)\nrng.shuffle(y)\ndata = zip(x, y)\n"


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (APART, ["train.py:2"]),
        (APART + "#" * 200_000, []),
        ("def broken(:\n", []),
        ("x = 1\n", []),
    ],
)
def test_faults_that_only_the_text_shows_are_found_in_what_is_not_too_long(
    text, places, tmp_path, monkeypatch
):
    (tmp_path / "train.py").write_text(text)
    main = SimpleNamespace(__file__=str(tmp_path / "train.py"))
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert [each["place"] for each in remarks_on_script()] == places


def test_a_session_without_a_script_has_no_remarks(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace())
    assert remarks_on_script() == []
