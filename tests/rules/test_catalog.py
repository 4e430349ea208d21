"""Every built-in rule can be found by its name, and its page says what is true of it."""

import re
from pathlib import Path
from typing import Any

import pytest

from trackside.rules.builtin import TensorRule
from trackside.rules.catalog import TENSOR_RULES, UnknownRule, find
from trackside.rules.parameters import build, parameters_of

PAGES = sorted((Path(__file__).parents[2] / "docs" / "rules").glob("*.md"))
REQUIRED = {
    "AllZero": {"tensor_regex": ".*"},
    "UnchangedTensor": {"tensor_regex": ".*"},
    "TensorVariance": {"tensor_regex": ".*", "max_threshold": "1"},
    "SimilarAcrossRuns": {"other_trials": "elsewhere"},
}
"""What a rule cannot be made without."""


def section(rule: str) -> str:
    """What a page says below the rule's heading, on one line per paragraph or row."""
    text = "\n".join(page.read_text() for page in PAGES)
    found = re.search(rf"^## {rule}\n(.*?)(?=^# |^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{rule} has no heading in docs/rules"
    return found[1]


def shown(default: Any) -> str:
    if default is None or default == ():
        return "none"
    if isinstance(default, tuple):
        return ", ".join(map(shown, default))
    if isinstance(default, int | float) and not isinstance(default, bool):
        return f"{default:.10g}"
    return str(default)


@pytest.mark.parametrize("name", TENSOR_RULES)
def test_the_parameters_of_a_rule_are_documented_with_their_real_defaults(name):
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", section(name), re.MULTILINE)
    documented = {
        parameter: default.strip("`").replace("\\|", "|") for parameter, default, _ in rows
    }
    real = {each.name: shown(each.default) for each in parameters_of(TENSOR_RULES[name])}
    assert documented == real


@pytest.mark.parametrize("name", TENSOR_RULES)
def test_what_a_rule_needs_saved_and_advises_is_documented(name):
    text = " ".join(section(name).split())
    assert "**Needs**" in text
    assert TENSOR_RULES[name].advice in text
    rule = build(TENSOR_RULES[name], REQUIRED.get(name, {}))
    assert isinstance(rule, TensorRule)
    for need in rule.needs():
        if not need.collection.endswith("_tensors"):  # made from what the user selects
            assert f"`{need.collection}`" in text
            assert not need.include_regex or f"`{need.include_regex}`" in text
        for reduction in need.reductions:
            assert f"`{reduction}`" in text


@pytest.mark.parametrize("spelling", ["DeadRelu", "dead_relu", "DEADRELU"])
def test_a_rule_is_found_in_any_spelling(spelling):
    assert find(spelling) is TENSOR_RULES["DeadRelu"]


def test_an_unknown_rule_is_told_with_the_nearest():
    with pytest.raises(UnknownRule, match="Did you mean 'ExplodingTensor'"):
        find("exploding_tensors")


def test_all_rules_of_the_contract_are_there():
    assert set(TENSOR_RULES) >= {
        "VanishingGradient",
        "ExplodingTensor",
        "WeightUpdateRatio",
        "AllZero",
        "UnchangedTensor",
        "LossNotDecreasing",
        "TensorVariance",
        "SimilarAcrossRuns",
        "StalledTrainingRule",
        "Overfit",
        "Overtraining",
        "ClassImbalance",
        "Confusion",
        "DeadRelu",
        "SaturatedActivation",
        "PoorWeightInitialization",
        "CheckInputImages",
        "NLPSequenceRatio",
        "FeatureImportanceOverweight",
        "TreeDepth",
        "CreateXgboostReport",
    }
