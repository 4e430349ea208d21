"""Findings become causes: a consequence never stands before what it comes from."""

import json
from dataclasses import replace

from trackside.records.finding import Finding
from trackside.rules.checkup.checkup import PARTS
from trackside.rules.checkup.diagnosis import diagnose, is_of_checkup
from trackside.rules.rule_kinds import Kind
from trackside.sdk.finding_lines import FindingFormatter


def finding(rule: str, step: int = 0, tensor: str = "") -> Finding:
    return Finding(rule=rule, step=step, tensor=tensor, message=f"{rule}.", advice=f"Mend {rule}.")


def causes(*rules: str) -> list[str]:
    return [each.cause for each in diagnose(finding(rule) for rule in rules)]


def test_nothing_found_is_nothing_wrong():
    assert diagnose([]) == []
    assert FindingFormatter().diagnoses([]) == ""


def test_every_rule_of_the_checkup_has_its_place():
    assert all(is_of_checkup(finding(part.name())) for part in PARTS)


def test_a_symptom_is_reported_with_its_cause_whatever_came_first():
    (found,) = diagnose(
        [finding("NothingLearnt"), finding("DeadLayer", 9), finding("LearningRateZero", 3)]
    )
    assert (found.cause, found.confidence, found.step) == ("LearningRateZero", "certain", 3)
    assert found.explains == ("DeadLayer", "NothingLearnt")


def test_units_that_died_in_training_are_the_rates_doing_and_those_dead_from_the_start_are_not():
    rate = finding("LearningRateTooHigh")
    assert diagnose([finding("DeadLayer", 12), rate])[0].cause == "LearningRateTooHigh"
    assert diagnose([finding("DeadLayer", 0), rate])[0].cause == "DeadLayer"


def test_mistakes_that_have_nothing_to_do_with_each_other_are_both_reported():
    assert causes("EvaluationInTrainingMode", "ForgottenZeroGrad") == [
        "ForgottenZeroGrad",
        "EvaluationInTrainingMode",
    ]
    assert causes("NothingLearnt", "SlowDataLoading") == ["SlowDataLoading", "NothingLearnt"]


def test_overfitting_is_explained_by_what_evaluation_is_given():
    assert causes("Overfitting", "EvaluationInputDiffers") == ["EvaluationInputDiffers"]


def test_an_outcome_alone_is_all_that_is_known():
    (found,) = diagnose([finding("LossNotFinite", 7)])
    assert (found.cause, found.confidence, found.step) == ("LossNotFinite", "possible", 7)


def test_gpus_that_wait_are_explained_by_what_they_wait_for():
    assert causes("LowGPUUtilization", "BatchSize", "CPUBottleneck", "StepOutlier") == [
        "CPUBottleneck",
        "StepOutlier",
    ]
    assert causes("Dataloader", "SlowDataLoading") == ["SlowDataLoading"]


def test_a_rule_with_limits_of_the_user_s_sees_a_symptom():
    assert causes("LossNotDecreasing", "LearningRateZero") == ["LearningRateZero"]
    assert causes("LossNotDecreasing", "SlowDataLoading") == [
        "SlowDataLoading",
        "LossNotDecreasing",
    ]


def test_the_list_of_the_checkup_has_mistakes_first_then_causes_then_outcomes():
    kinds = [Kind.MISTAKE, Kind.CAUSE, Kind.OUTCOME]
    ranks = [kinds.index(part.kind) for part in PARTS]
    assert ranks == sorted(ranks)


def test_the_earliest_layer_is_named_and_all_are_evidence():
    (found,) = diagnose([finding("DeadLayer", 8, "b"), finding("DeadLayer", 5, "a")])
    assert (found.step, found.tensor, len(found.findings)) == (5, "a", 2)


def test_a_diagnosis_is_a_line_of_json_and_a_paragraph():
    (found,) = diagnose([finding("GradientMissing", 0, "Net_a.weight"), finding("NothingLearnt")])
    line = json.loads(found.to_line(1))
    assert line["diagnosis"] == 1
    assert (line["cause"], line["tensor"]) == ("GradientMissing", "Net_a.weight")
    assert line["explains"] == ["NothingLearnt"]
    text = FindingFormatter().diagnoses([found])
    assert text.startswith(
        "Diagnosis: GradientMissing, from step 0 on, at Net_a.weight (certain)\n"
    )
    assert "Try: Mend GradientMissing." in text
    assert "It explains: NothingLearnt" in text


def test_a_cause_that_reading_the_script_shows_too_is_certain_and_has_its_line():
    seen = replace(finding("LearningRateTooHigh", 3), line="train.py:7")
    (found,) = diagnose([seen, finding("NothingLearnt")])
    assert (found.confidence, found.line) == ("certain", "train.py:7")
    assert json.loads(found.to_line(1))["line"] == "train.py:7"
    text = FindingFormatter().diagnoses([found])
    assert text.startswith("Diagnosis: LearningRateTooHigh, from step 3 on, at train.py:7 (certa")
