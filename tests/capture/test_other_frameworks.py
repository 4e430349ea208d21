"""Scripts that train with another framework, run as real processes, with a real other framework."""

import json
from pathlib import Path

import pytest

from tests.capture.test_autohook import HEAD, run_ended

OTHER = """
from sklearn.linear_model import LogisticRegression
LogisticRegression().fit([[0.0], [1.0]], [0, 1])
"""
SAID = "Not watched: scikit-learn. Trackside watches models of PyTorch."


def test_it_is_logged_once_and_recorded_for_rules(tmp_path: Path):
    pytest.importorskip("sklearn", reason="another framework than torch is needed")
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import sklearn'])"
    ended = run_ended(tmp_path, f"{OTHER}\n{child}", head="")
    assert ended.stderr.count("Not watched") == 1
    assert SAID in ended.stderr
    assert json.loads((tmp_path / "t" / "not-watched.json").read_text()) == {
        "framework": "scikit-learn"
    }


LOOP = "for _ in range(3): F.cross_entropy(model(x), y).backward()\n"


@pytest.mark.parametrize(
    ("switch", "head", "script"),
    [("auto", HEAD, OTHER + LOOP), ("", "", OTHER)],
    ids=["watched", "off"],
)
def test_nothing_is_logged_if_it_is_watched_or_capture_is_off(
    tmp_path: Path, switch: str, head: str, script: str
):
    pytest.importorskip("sklearn", reason="another framework than torch is needed")
    ended = run_ended(tmp_path, script, head=head, switch=switch)
    assert "Not watched" not in ended.stderr
    assert not (tmp_path / "t" / "not-watched.json").exists()


def test_a_script_without_any_framework_is_left_alone(tmp_path: Path):
    ended = run_ended(tmp_path, "print('hello')", head="")
    assert ended.stderr == ""
    assert not (tmp_path / "t").exists()
