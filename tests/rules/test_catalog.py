"""Every built-in rule can be found by its name, and its page says what is true of it."""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.rules import write_catalog
from trackside.curves.machine_curves import FIGURES
from trackside.rules import catalog
from trackside.rules.builtin import TensorRule
from trackside.rules.catalog import UnknownRule, find
from trackside.rules.checkup.checkup import PARTS
from trackside.rules.parameters import build, parameters_of
from trackside.rules.rule_classes import GROUPS
from trackside.views.job import evidence

PAGES = sorted((Path(__file__).parents[2] / "docs" / "rules").glob("*.md"))
TENSOR_RULES = {
    rule.name(): rule for rules in GROUPS.values() for rule in rules if issubclass(rule, TensorRule)
}
CHECKUP_RULES = ["Checkup", *(rule.name() for rule in PARTS)]
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
def test_the_parameters_of_a_rule_are_documented_with_defaults_and_meanings(name):
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", section(name), re.MULTILINE)
    documented = {
        parameter: (default.strip("`").replace("\\|", "|"), meaning)
        for parameter, default, meaning in rows
    }
    parameters = parameters_of(TENSOR_RULES[name])
    assert documented == {each.name: (shown(each.default), each.doc) for each in parameters}


@pytest.mark.parametrize("name", CHECKUP_RULES)
def test_the_page_of_a_checkup_rule_has_the_text_of_its_docstring(name):
    text = " ".join(section(name).split())
    assert text.startswith(" ".join((inspect.getdoc(TENSOR_RULES[name]) or "").split()))


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


def test_an_unknown_rule_is_refused_with_the_nearest_name():
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


def test_the_file_of_the_catalog_is_what_the_classes_declare():
    assert catalog.FILE.read_text() == write_catalog.text(), (
        "run `python -m tests.rules.write_catalog`"
    )


def test_the_catalog_has_every_rule_with_its_parameters():
    for group, rules in GROUPS.items():
        assert [each.load() for each in catalog.groups()[group]] == [*rules]
        for rule in rules:
            assert catalog.find_entry(rule.name()).parameters == parameters_of(rule)


def test_rules_that_others_refer_to_exist():
    names = set(catalog.entries())
    for entry in catalog.entries().values():
        assert {*entry.explains, entry.ranks_before_if_at_start or entry.name} <= names, entry.name


def test_listing_rules_and_diagnosing_loads_neither_numpy_nor_a_rule():
    code = (
        "import sys\n"
        "from trackside.rules import catalog\n"
        "from trackside.rules.checkup.diagnosis import diagnose\n"
        "assert catalog.groups() and diagnose([]) == []\n"
        "print(*sys.modules)"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"numpy", "trackside.rules.builtin", "trackside.rules.checkup.checkup"} & {*output}


def documented_vitals() -> set[str]:
    """Those of the table in docs/capture.md; `<module>` and its like are `*`."""
    page = (Path(__file__).parents[2] / "docs" / "capture.md").read_text()
    rows = re.findall(r"^\| (`[a-z_]+[^|]*) \|", page.partition("| `vitals/…` |")[2], re.MULTILINE)
    found = set()
    for row in rows:
        first, *others = re.findall("`(.+?)`", row)
        folder = first.rpartition("/")[0]
        names = [
            first,
            *(each if "/" in each or not folder else f"{folder}/{each}" for each in others),
        ]
        found |= {re.sub("<.*>", "*", name) for name in names}
    return found


def test_what_a_finding_rests_on_is_saved():
    vitals, tags = documented_vitals(), {figure.tag for figure in FIGURES}
    for entry in catalog.entries().values():
        for name in entry.rests_on:
            kind, colon, figure = name.rpartition(":")
            if name == evidence.TEXTS:
                continue
            if kind == "machine":
                assert figure in tags, entry.name
            elif colon:
                assert kind in ("gradients", "weights", "activations"), entry.name
            else:
                assert name in vitals, entry.name


def test_the_needs_of_a_rule_are_those_of_its_class():
    for entry in catalog.entries().values():
        rule = entry.load()
        if entry.is_complete and issubclass(rule, TensorRule) and not entry.is_of_checkup:
            assert entry.needs == build(rule, {}).needs(), entry.name
