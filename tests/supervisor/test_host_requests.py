"""What a host does when it is asked to."""

import os
from pathlib import Path

import pytest

from tests.supervisor.running import attempt
from trackside.capture.trial_layout import RECORDER_REQUEST
from trackside.coordination.coordination import FLIGHT_RECORDER, Request
from trackside.records.layout import HostFolder
from trackside.supervisor.attempt import Attempt
from trackside.supervisor.host_requests import fulfil

HOOK = {"S3OutputPath": "s3://bucket/debug", "HookParameters": {"ring": "3"}}
RECORDER = Request("1", FLIGHT_RECORDER, "algo-1")


def watched(home: Path) -> tuple[Attempt, Path]:
    """An attempt, and the folder of its script's hook."""
    mine = attempt(home, DebugHookConfig=HOOK)
    tensors = mine.folder.inside("/opt/ml/output/tensors")
    tensors.mkdir(parents=True)
    return mine, tensors


def ask(mine: Attempt, folder: HostFolder) -> None:
    fulfil(RECORDER, mine.context.spec, folder)


def test_the_hook_is_asked_for_its_last_steps_by_its_file(tmp_path):
    mine, tensors = watched(tmp_path)
    ask(mine, mine.folder)
    assert (tensors / RECORDER_REQUEST).exists()


def test_a_script_s_link_does_not_lead_the_supervisor_astray(tmp_path):
    mine, tensors = watched(tmp_path)
    target = tmp_path / "elsewhere"
    (tensors / RECORDER_REQUEST).symlink_to(target)
    ask(mine, mine.folder)
    assert not target.exists()
    assert not (tensors / RECORDER_REQUEST).is_symlink()


def test_what_cannot_be_done_is_left_out(tmp_path, caplog):
    mine, tensors = watched(tmp_path)
    tensors.rmdir()
    ask(mine, mine.folder)
    assert "it has no folder" in caplog.text
    fulfil(Request("2", "of a later version", "algo-1"), mine.context.spec, mine.folder)
    assert "'of a later version' is not known" in caplog.text
    assert not tensors.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_word_for_another_user_s_hook_goes_nowhere_else(tmp_path):
    mine, tensors = watched(tmp_path)
    ml = mine.folder.ml
    for path in (ml, *ml.rglob("*")):
        os.chown(path, 65531, 65531)
    ask(mine, mine.folder)
    [request] = tensors.iterdir()
    assert request.stat().st_uid == 65531
    request.unlink()
    request.symlink_to(tmp_path / "made")
    ask(mine, mine.folder)
    assert not request.is_symlink()
    assert not (tmp_path / "made").exists()
    tensors.rename(tmp_path / "moved")
    kept = tmp_path / "kept"
    kept.mkdir()
    tensors.symlink_to(kept)
    ask(mine, mine.folder)
    assert list(kept.iterdir()) == []
