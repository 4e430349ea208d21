"""Trials that may not have begun: opening one waits, so nobody opens it too early."""

from pathlib import Path

import pytest

from tests.rules.recording import Recording
from trackside.rules.saved.open_trial import open_trial
from trackside.storage.locate import locate


@pytest.mark.timeout(60)
@pytest.mark.parametrize("stray", ["collections/000000000/worker_0.json", "collections/a.txt"])
def test_files_of_other_names_are_no_trial(tmp_path: Path, stray: str):
    """The trial would wait for ever: the evaluator with it, and all other rules of the job."""
    path = tmp_path / "trial" / stray
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x80\x04no collections")
    assert open_trial(locate(str(tmp_path / "trial"), home=tmp_path), tmp_path) is None


def test_a_trial_that_has_started_is_opened(tmp_path: Path):
    recording = Recording(tmp_path / "trial")
    recording.step(0, {"a": [1.0]})
    recording.end()
    trial = open_trial(locate(str(recording.folder), home=tmp_path), tmp_path)
    assert trial is not None
    assert trial.tensor_names() == ["a"]
