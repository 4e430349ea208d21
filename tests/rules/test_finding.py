from typing import Any

import pytest

from trackside.records.finding import Finding, read_findings


def finding(**members: Any) -> Finding:
    return Finding(**{"rule": "ExplodingTensor", "message": "m", **members})


def test_a_finding_comes_back_from_its_line_whole(tmp_path):
    found = finding(
        step=3, tensor="conv1.weight", value=float("nan"), advice="Übe größer", time=1.5
    )
    infinite = finding(step=4, value=float("-inf"), threshold=0.5)
    (tmp_path / "findings.jsonl").write_bytes(found.to_line() + infinite.to_line())
    first, second = read_findings(tmp_path / "findings.jsonl")
    assert str(first.value) == "nan"
    assert first.to_line() == found.to_line()
    assert second == infinite


def test_a_torn_line_loses_only_itself(tmp_path):
    whole = finding(step=1).to_line()
    (tmp_path / "f").write_bytes(whole + whole[:20] + b"\n" + whole + whole[:-5])
    assert [found.step for found in read_findings(tmp_path / "f")] == [1, 1]


@pytest.mark.parametrize(
    "line",
    [
        b"[1]",
        b"null",
        b"[" * 100_000,
        b'{"rule": "a"}',
        b'{"rule": "a", "message": 5}',
        b'{"rule": "a", "message": "m", "value": "much"}',
        b'{"rule": "a", "message": "m", "step": "first"}',
        b'{"rule": "a", "message": "m", "time": 1e300}',
    ],
    ids=["list", "null", "deep", "missing", "message", "value", "step", "time"],
)
def test_a_damaged_line_is_skipped_and_counted(tmp_path, caplog, line: bytes):
    path = tmp_path / "findings.jsonl"
    path.write_bytes(finding(step=1).to_line() + line + b"\n" + finding(step=2).to_line())
    assert [found.step for found in read_findings(path)] == [1, 2]
    assert caplog.messages == [f"{path} is damaged: 1 damaged line was skipped."]


def test_no_file_means_no_findings(tmp_path):
    assert read_findings(tmp_path / "none") == []


def test_members_of_a_later_version_are_ignored():
    line = finding(step=1).to_line().replace(b'"rule"', b'"colour": "red", "rule"')
    assert Finding.from_line(line) == finding(step=1)
