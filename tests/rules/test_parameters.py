from dataclasses import dataclass

import pytest

from trackside.rules.parameters import (
    InvalidParameters,
    Pattern,
    build,
    other_trials,
    parameter,
    parameters_of,
)
from trackside.rules.rule_classes import GROUPS


@dataclass
class Sample:
    threshold: float = parameter(0.5, "The limit.", at_least=0, at_most=100)
    num_steps: int = parameter(3, "How many.", at_least=1)
    only_nan: bool = parameter(False, "Not infinities.")
    tensor_regex: tuple[Pattern, ...] = parameter((), "Patterns.")
    maximum: float | None = parameter(None, "None: no limit.")
    labels: Pattern = parameter("labels", "Names.")


def test_texts_become_what_the_fields_say():
    built = build(
        Sample,
        {
            "threshold": "1e-7",
            "num_steps": "10.0",
            "only_nan": "True",
            "tensor_regex": ".*relu, .*tanh",
            "maximum": "4",
            "labels": ".*y",
            "rule_to_invoke": "Sample",
            "other_trial_0": "s3://b/t",
            "action_json": "[]",
        },
    )
    assert built == Sample(1e-7, 10, True, (".*relu", ".*tanh"), 4.0, ".*y")


@pytest.mark.parametrize("text", ["None", "none", ""])
def test_none_as_a_text_is_none(text):
    assert build(Sample, {"maximum": text, "tensor_regex": text}) == Sample()


def test_every_problem_is_reported_at_once():
    with pytest.raises(InvalidParameters) as caught:
        build(
            Sample,
            {"treshold": "1", "num_steps": "0", "only_nan": "yes", "labels": "(", "maximum": "x"},
        )
    problems = caught.value.problems
    assert len(problems) == 5
    assert "Did you mean 'threshold'?" in problems[0]
    assert problems[1] == "num_steps = '0': at least 1 is needed."
    assert problems[2] == "only_nan = 'yes': 'True' or 'False' is needed."
    assert "not a regular expression" in problems[3]
    assert problems[4] == "maximum = 'x': a number is needed."


def test_a_half_is_no_whole_number():
    with pytest.raises(InvalidParameters, match="whole number"):
        build(Sample, {"num_steps": "1.5"})


def test_nan_is_no_limit_to_compare_with():
    with pytest.raises(InvalidParameters, match="at least 0"):
        build(Sample, {"threshold": "nan"})


def test_parameters_are_listed_with_type_default_and_meaning():
    listed = {each.name: each for each in parameters_of(Sample)}
    assert listed["threshold"].type == "number"
    assert listed["tensor_regex"].type == "pattern, or several with commas"
    assert listed["labels"].type == "pattern"
    assert (listed["num_steps"].default, listed["num_steps"].doc) == (3, "How many.")


def test_what_a_built_in_rule_searches_names_with_must_be_a_pattern():
    """Else it would fail at its first check, when the job has been running for long."""
    searching = [
        (rule, each.name)
        for rules in GROUPS.values()
        for rule in rules
        for each in parameters_of(rule)
        if each.name.endswith("regex")
    ]
    assert len(searching) >= 10
    for rule, name in searching:
        with pytest.raises(InvalidParameters, match=f"{name} = .*not a regular expression"):
            build(rule, {name: ".*relu("})


def test_other_trials_come_in_the_order_of_their_numbers():
    texts = {f"other_trial_{number}": f"s3://b/{number}" for number in (10, 2, 0)}
    assert other_trials(texts) == ["s3://b/0", "s3://b/2", "s3://b/10"]
