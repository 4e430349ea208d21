"""What was done about findings, on record: each line for itself."""

from pathlib import Path

import pytest

from trackside.records.finding import Finding
from trackside.rules.action.action_log import ActionLog

FINDING = Finding(rule="Overfit", message="It overfits.", configuration="all", step=3)
STOP, MAIL = ((False, "all"), "stop"), ((False, "all"), "mail")


@pytest.mark.parametrize(
    "line",
    [b"[1]", b"{", b"[" * 100_000, b'{"state": "intended"}', b'{"configuration": 5}'],
    ids=["list", "torn", "deep", "missing", "type"],
)
def test_a_damaged_line_is_skipped_and_counted(tmp_path: Path, caplog, line: bytes):
    path = tmp_path / "actions.jsonl"
    log = ActionLog(path)
    log.intend(STOP, FINDING)
    log.settle(STOP, "", "done")
    path.write_bytes(line + b"\n" + path.read_bytes())
    log.intend(MAIL, FINDING)
    again = ActionLog(path)
    assert {key: taken.is_settled for key, taken in again.taken.items()} == {
        STOP: True,
        MAIL: False,
    }
    assert again.taken[STOP].finding == FINDING
    assert caplog.messages == [f"{path} is damaged: 1 damaged line was skipped."]
