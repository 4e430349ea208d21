from typing import Any

from trackside.finding import Finding, read_findings


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


def test_no_file_means_no_findings(tmp_path):
    assert read_findings(tmp_path / "none") == []


def test_members_of_a_later_version_are_ignored():
    line = finding(step=1).to_line().replace(b'"rule"', b'"colour": "red", "rule"')
    assert Finding.from_line(line) == finding(step=1)
