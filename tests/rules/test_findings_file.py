from pathlib import Path
from typing import Any

from trackside.records.finding import Finding, read_findings
from trackside.rules.findings_file import MOST_FILED, FindingsFile


def finding(step: int, configuration: str = "A", **more: Any) -> Finding:
    return Finding(rule="R", configuration=configuration, message="it is so", step=step, **more)


def test_what_was_found_before_is_no_news(tmp_path: Path):
    path = tmp_path / "findings.jsonl"
    assert FindingsFile(path).add([finding(1)]) == [finding(1)]
    again = FindingsFile(path)
    assert again.add([finding(1), finding(2), finding(2)]) == [finding(2)]
    assert again.add([finding(2)]) == []
    assert [each.step for each in read_findings(path)] == [1, 2]
    assert again.count((False, "A")) == 2


def test_of_a_rule_that_finds_too_much_the_rest_is_counted(tmp_path: Path):
    file = FindingsFile(tmp_path / "findings.jsonl")
    for step in range(MOST_FILED - 3):
        assert file.add([finding(step)])
    assert len(file.add(map(finding, range(MOST_FILED - 3, MOST_FILED + 37)))) == 40
    assert file.add([finding(0, "B")])
    assert len(file.of((False, "A"))) == MOST_FILED
    assert file.count((False, "A")) == MOST_FILED + 37
    assert len(read_findings(tmp_path / "findings.jsonl")) == MOST_FILED + 1


def test_a_line_torn_by_a_crash_is_written_again(tmp_path: Path):
    path = tmp_path / "findings.jsonl"
    FindingsFile(path).add([finding(1)])
    path.write_bytes(path.read_bytes() + finding(2).to_line()[:20])
    file = FindingsFile(path)
    assert file.add([finding(2)])
    assert [each.step for each in read_findings(path)] == [1, 2]
    assert path.read_bytes().count(b"\n") == 2


def test_two_findings_at_the_same_step_and_tensor_are_both_kept(tmp_path: Path):
    path = tmp_path / "findings.jsonl"
    both = [finding(1, subject="token 0"), finding(1, subject="token 7")]
    assert FindingsFile(path).add(both) == both
    assert FindingsFile(path).add(both) == []
    assert read_findings(path) == both


def test_rules_of_both_kinds_may_have_one_name(tmp_path: Path):
    file = FindingsFile(tmp_path / "findings.jsonl")
    assert len(file.add([finding(1), finding(1, is_profiler=True), finding(2)])) == 3
    assert file.count((False, "A")) == 2
    assert [each.step for each in file.of((True, "A"))] == [1]
