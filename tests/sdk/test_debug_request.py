"""Hook, rules and profiler of one request: what the rules need is added, what is wrong is told."""

import warnings
from pathlib import Path
from typing import Any

import pytest

from trackside import (
    CollectionConfig,
    DebuggerHookConfig,
    InvalidSpec,
    ProfilerConfig,
    ProfilerRule,
    PyTorch,
    Rule,
    rule_configs,
)
from trackside.records.spec import JobSpec

VANISHING = Rule.sagemaker(rule_configs.vanishing_gradient())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "rules.py").write_text("from x import Other\nclass Mine: ...\ndef check(): ...\n")
    return tmp_path


def spec(**options: Any) -> JobSpec:
    return PyTorch(entry_point="train.py", **options).spec(job_name="j")


def saved(**options: Any) -> dict[str | None, dict[str, str]]:
    hook = spec(**options).debug_hook
    assert hook is not None
    return {each.name: dict(each.parameters) for each in hook.collections}


def complaints(**options: Any) -> dict[str, str]:
    with pytest.raises(InvalidSpec) as caught:
        spec(**options)
    return {violation.field: str(violation) for violation in caught.value.violations}


def test_what_the_user_configured_is_not_touched():
    mine = DebuggerHookConfig(collection_configs=[CollectionConfig("gradients")])
    assert saved(rules=[VANISHING], debugger_hook_config=mine) == {"gradients": {}}


def test_a_schedule_of_the_whole_hook_holds_for_rules_too():
    hook = DebuggerHookConfig(hook_parameters={"train.save_interval": 10})
    assert saved(rules=[VANISHING], debugger_hook_config=hook) == {
        "gradients": {"reductions": "abs_mean"}
    }


def test_collections_given_to_a_rule_replace_its_own_and_what_is_missing_is_said():
    given = [CollectionConfig("weights", {"save_interval": 5})]
    rule = Rule.sagemaker(rule_configs.vanishing_gradient(), collections_to_save=given)
    with pytest.warns(UserWarning, match=r"CollectionConfig\('gradients'\)"):
        assert saved(rules=[rule]) == {"weights": {"save_interval": "5"}}


def test_rules_without_a_hook_are_warned_about():
    with pytest.warns(UserWarning, match="no hook"):
        assert spec(rules=[VANISHING], debugger_hook_config=False).debug_hook is None


def test_nothing_is_said_where_nothing_is_missing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spec(rules=[VANISHING])


def test_all_that_is_wrong_with_rules_is_reported_with_the_rest():
    found = complaints(
        instance_count=0,
        rules=[
            Rule.sagemaker(rule_configs.vanishing_gradient(threshold=-1, tresh=2)),
            Rule.builtin("VanishingGradiant"),
            Rule.custom("a", source="rules.py", rule_to_invoke="Yours"),
            Rule.custom("b", source="missing.py", rule_to_invoke="Mine"),
            ProfilerRule.custom("c"),
        ],
    )
    assert set(found) == {
        "instance_count",
        "rules[0].rule_parameters.threshold",
        "rules[0].rule_parameters.tresh",
        "rules[1].rule_parameters.rule_to_invoke",
        "rules[2].rule_to_invoke",
        "rules[3].source",
        "rules[4].rule_parameters.rule_to_invoke",
    }
    assert "at least 0" in found["rules[0].rule_parameters.threshold"]
    assert "'VanishingGradient'" in found["rules[1].rule_parameters.rule_to_invoke"]
    assert "it has Mine, check" in found["rules[2].rule_to_invoke"]


@pytest.mark.parametrize("name", ["Mine", "check", "Other"])
def test_a_rule_of_ones_own_is_found_in_its_file(name: str):
    (rule,) = spec(rules=[Rule.custom("a", source="rules.py", rule_to_invoke=name)]).debug_rules
    assert rule.parameters["source_s3_uri"].startswith("s3://trackside/j/source/rules/")


def test_a_file_that_is_no_python_is_reported_of(folder: Path):
    (folder / "rules.py").write_text("def x(:\n")
    found = complaints(rules=[Rule.custom("a", source="rules.py", rule_to_invoke="x")])
    assert "not valid Python" in found["rules[0].source"]


def test_a_profiler_rule_switches_the_profiler_on():
    custom = ProfilerRule.custom("p", rule_to_invoke="Theirs")
    made = spec(rules=[custom, VANISHING])
    assert [rule.name for rule in made.profiler_rules] == ["p"]
    assert [rule.name for rule in made.debug_rules] == ["VanishingGradient"]
    assert made.profiler is not None
    off = spec(rules=[custom], disable_profiler=True).profiler
    assert off is not None
    assert off.disabled


def test_a_profiler_config_reaches_the_request():
    config = ProfilerConfig("s3://p/x", 1000, {"a": 1})
    profiler = spec(profiler_config=config).profiler
    assert profiler is not None
    assert (profiler.uri, profiler.interval_milliseconds) == ("s3://p/x", 1000)
    assert profiler.parameters == {"a": "1"}
    assert spec(profiler_config={"ProfilingIntervalInMilliseconds": 200}).profiler is not None


@pytest.mark.parametrize(
    "method", ["enable_default_profiling", "update_profiler", "disable_profiling"]
)
def test_the_profiler_of_a_running_job_cannot_be_changed_which_is_said(method: str):
    with pytest.warns(UserWarning, match=rf"{method}\(\) has no effect"):
        getattr(PyTorch("train.py"), method)()
