"""Wrong rules are told of before the job starts, all of them."""

from typing import Any

from trackside.records.spec import JobSpec
from trackside.rules.validation import violations

OURS = "503895931360.dkr.ecr.eu-central-1.amazonaws.com/sagemaker-debugger-rules:latest"
THEIRS = "503895931360.dkr.ecr.eu-central-1.amazonaws.com/sagemaker-debugger-rule-evaluator:latest"


def reported(*rules: dict[str, Any], member: str = "DebugRuleConfigurations") -> dict[str, str]:
    configurations = [
        {"RuleConfigurationName": f"rule-{index}", **rule} for index, rule in enumerate(rules)
    ]
    spec = JobSpec.from_request(
        {
            "TrainingJobName": "j",
            "OutputDataConfig": {"S3OutputPath": "s3://b/o"},
            "HyperParameters": {"sagemaker_program": "train.py"},
            member: configurations,
        }
    )
    return {found.field: str(found) for found in violations(spec)}


def rule(image: str = OURS, **parameters: str) -> dict[str, Any]:
    return {"RuleEvaluatorImage": image, "RuleParameters": parameters}


def test_everything_wrong_is_named_with_its_value_and_the_nearest():
    found = reported(
        rule(rule_to_invoke="VanishingGradient", threshold="tiny", treshold="1"),
        rule(rule_to_invoke="VanishingGradients"),
        rule(rule_to_invoke="VanishingGradient", threshold="1e-9", base_trial="x"),
    )
    first = "DebugRuleConfigurations[0].RuleParameters"
    assert set(found) == {
        f"{first}.threshold",
        f"{first}.treshold",
        "DebugRuleConfigurations[1].RuleParameters.rule_to_invoke",
    }
    assert "'tiny'" in found[f"{first}.threshold"]
    assert "a number is needed" in found[f"{first}.threshold"]
    assert "Did you mean 'threshold'?" in found[f"{first}.treshold"]
    assert "Did you mean 'VanishingGradient'?" in [*found.values()][-1]


def test_rules_of_others_are_not_held_to_the_catalog():
    assert reported(rule(THEIRS, rule_to_invoke="Theirs", anything="1")) == {}
    assert reported(rule(rule_to_invoke="Mine", source_s3_uri="s3://b/r.py", x="1")) == {}


def test_a_rule_must_say_what_it_invokes():
    member = "ProfilerRuleConfigurations"
    found = reported(rule(THEIRS), rule("DEFAULT_RULE_EVALUATOR_IMAGE"), member=member)
    assert len(found) == 2
    assert "images are not run" in [*found.values()][0]


def test_the_processing_of_sagemakers_profiler_is_no_rule():
    own = {"RuleConfigurationName": "DetailedProfilerProcessingJobConfig-1"}
    image = rule("1.dkr.ecr/detailed-profiler-processing:latest")
    assert reported({**rule(), **own}, image, member="ProfilerRuleConfigurations") == {}
