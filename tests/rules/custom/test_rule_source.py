"""Where users' rules come from, and what they are called with."""

import sys
from pathlib import Path
from typing import Any

import pytest

from trackside.rules.custom import rule_source


def write(folder: Path, source: str) -> Any:
    path = folder / "my_rule.py"
    path.write_text(source)
    return rule_source.load(path)


def test_a_file_is_fetched_under_its_own_name(tmp_path: Path):
    source = tmp_path / "buckets" / "code" / "rules" / "mine.py"
    source.parent.mkdir(parents=True)
    source.write_text("x = 1")
    folder = tmp_path / "fetched"
    folder.mkdir()
    for uri in ("s3://code/rules/mine.py", str(source), source.as_uri()):
        assert rule_source.fetch(uri, folder, tmp_path).read_text() == "x = 1"
    assert (folder / "mine.py").exists()


def test_the_function_check_needs_no_name(tmp_path: Path):
    module = write(tmp_path, "def check(step, tensors): return None")
    assert rule_source.find(module, "MyRule") is module.check
    assert rule_source.find(module, None) is module.check


def test_a_name_that_is_not_there_is_reported_with_those_that_are(tmp_path: Path):
    module = write(tmp_path, "from os import path\nclass DeadRelus: pass")
    with pytest.raises(ValueError, match="has no rule 'DeadRelu'. Did you mean 'DeadRelus'"):
        rule_source.find(module, "DeadRelu")


def test_constructors_get_their_arguments_by_name_and_no_others():
    class Rule:
        def __init__(self, base_trial, threshold, other_trials=None, window="5"):
            pass

    given = {"base_trial": "the trial", "other_trials": ["another"], "action_str": None}
    texts = {
        "rule_to_invoke": "Rule",
        "threshold": "3",
        "unknown": "x",
        "other_trial_0": "s3://bucket/trial",
        "action_json": "[]",
        "start_step": "7",
    }
    assert rule_source.arguments(Rule, given, texts) == {
        "base_trial": "the trial",
        "other_trials": ["another"],
        "threshold": "3",
    }
    with pytest.raises(ValueError, match="Rule requires 'threshold', which the job does not give"):
        rule_source.arguments(Rule, given, {})


def test_one_that_takes_everything_gets_the_user_s_parameters():
    def check(step, tensors, **rest):
        pass

    given = {"step": 1, "tensors": {}, "other_trials": []}
    found = rule_source.arguments(check, given, {"a": "1", "other_trial_0": "x"})
    assert found == {"step": 1, "tensors": {}, "a": "1"}


def test_packages_offer_rules_by_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "their_rules.py").write_text("def check(step, tensors): return 'found'")
    info = tmp_path / "their_rules-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-rules\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[trackside.rules]\nTheirs = their_rules:check\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert rule_source.installed()["Theirs"].load()(1, {}) == "found"
    sys.modules.pop("their_rules")
