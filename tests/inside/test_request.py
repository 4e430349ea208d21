"""From what `init` is given to a job."""

import json
from argparse import Namespace
from dataclasses import dataclass, field
from typing import Any

import pytest

from trackside.errors import InvalidSpec
from trackside.inside.request import InitArguments, hyperparameters, make_spec
from trackside.records.spec import JobSpec
from trackside.sdk.rule import ProfilerRule, Rule, built_in_profiler


@dataclass
class Optimizer:
    lr: float = 0.1


@dataclass
class Config:
    epochs: int = 3
    optimizer: Optimizer = field(default_factory=Optimizer)


def kept(config: Any) -> tuple[dict[str, str], list[str]]:
    reported: list[str] = []
    return hyperparameters(
        InitArguments.of(None, config, None, None).config, reported.append
    ), reported


@pytest.mark.parametrize(
    "config",
    [
        {"epochs": 3, "optimizer": {"lr": 0.1}},
        Namespace(epochs=3, optimizer={"lr": 0.1}),
        Config(),
    ],
    ids=["dict", "argparse", "dataclass"],
)
def test_a_configuration_becomes_hyperparameters(config: Any):
    assert kept(config) == ({"epochs": "3", "optimizer.lr": "0.1"}, [])


def test_values_are_text_as_it_is_and_json_for_the_rest():
    odd = object()
    found, _ = kept({"a": "text", "b": True, "c": None, "d": [1, "x"], "e": odd, "f": {}})
    assert found["a"] == "text"
    assert (found["b"], found["c"], found["d"], found["f"]) == ("true", "null", '[1, "x"]', "{}")
    assert json.loads(found["e"]) == str(odd)


def test_what_does_not_fit_is_cut_and_said():
    many = {f"name{number}": number for number in range(150)}
    found, reported = kept({"long": "x" * 5000, "a=b": 1, **many})
    assert len(found) == 100
    assert found["a-b"] == "1"
    assert len(found["long"]) <= 2500
    assert any("the first 100 are kept" in line for line in reported)
    assert any("'long'" in line for line in reported)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"config": 3}, "config=3 is not a mapping"),
        ({"config": Config}, "is not a mapping"),
        ({"project": {"a": 1}}, "project={'a': 1} is not a string"),
        ({"tags": ["a"]}, "tags=['a'] is not a mapping"),
        ({"rules": [3]}, "rules has 3, which is no rule"),
        ({"rules": [built_in_profiler("CPUBottleneck")]}, "watches the machine of a job"),
    ],
    ids=str,
)
def test_arguments_that_cannot_be_meant(arguments: dict[str, Any], problem: str):
    given = {"project": None, "config": None, "tags": None, "rules": None, **arguments}
    with pytest.raises(TypeError) as raised:
        InitArguments.of(**given)
    assert problem in str(raised.value)


def test_rules_by_name_or_as_objects():
    rules = InitArguments.of(
        None, None, None, ["VanishingGradient", Rule.sagemaker("Overfit")]
    ).rules
    assert rules is not None
    assert [rule.invokes for rule in rules] == ["VanishingGradient", "Overfit"]
    assert not any(isinstance(rule, ProfilerRule) for rule in rules)


def test_the_job_is_one_whose_script_runs_already():
    ask = InitArguments.of("mnist", {"lr": 0.1}, {"team": "vision"}, None)
    spec = make_spec("mnist-1", ask, "s3://bucket/out", lambda line: None)
    assert spec.is_attached
    assert spec.options.command
    assert {tag.key: tag.value for tag in spec.tags} == {"project": "mnist", "team": "vision"}
    assert JobSpec.from_request(spec.to_request()) == spec


def test_tags_that_no_job_may_have_are_refused():
    ask = InitArguments.of("mnist", None, {"x" * 200: "y"}, None)
    with pytest.raises(InvalidSpec, match="Tags"):
        make_spec("mnist-1", ask, "s3://bucket/out", lambda line: None)
