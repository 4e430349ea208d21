"""Findings in words: grouped, with the advice once, and unable to steer a terminal."""

from typing import Any

import pytest

from trackside.records.finding import Finding
from trackside.rules.checkup.diagnosis import diagnose
from trackside.rules.saved.feeds import NO_FIGURES, NO_TENSORS
from trackside.sdk.finding_lines import FindingFormatter, notices


def found(tensor: str = "", step: int | None = 120, **more: Any) -> Finding:
    return Finding(
        **{
            "rule": "VanishingGradient",
            "message": "The mean absolute gradient is 3e-09, below 1e-07.",
            "advice": "Use residual connections.",
            "step": step,
            "tensor": tensor,
            **more,
        }
    )


def heads(*findings: Finding) -> list[str]:
    return [notice.head for notice in notices(findings)]


def test_one_finding_names_its_tensor():
    assert FindingFormatter().text([found("gradient/fc.weight")]) == (
        "Finding: VanishingGradient at step 120 in gradient/fc.weight\n"
        "    The mean absolute gradient is 3e-09, below 1e-07.\n"
        "    Try: Use residual connections.\n"
    )


def test_many_layers_with_one_problem_at_one_step_are_reported_of_once():
    layers = [found(f"gradient/layer{number}") for number in range(14)]
    assert heads(*layers, found("gradient/layer0", step=130)) == [
        "VanishingGradient at step 120: 14 tensors, first gradient/layer0",
        "VanishingGradient at step 130 in gradient/layer0",
    ]


def test_the_advice_is_given_once():
    formatter = FindingFormatter()
    assert "Try:" in formatter.text([found("a")])
    assert "Try:" not in formatter.text([found("b", step=130)])
    assert "Try: Other." in formatter.text([found("b", rule="X", advice="Other.")])


def test_what_is_out_of_the_ordinary_is_in_the_head():
    assert heads(
        found("t", configuration="mine", mode="EVAL", worker="worker_3"),
        found(step=None, configuration="VanishingGradient", mode="TRAIN", worker="worker_0"),
    ) == [
        "VanishingGradient (mine) at step 120 (EVAL) on worker_3 in t",
        "VanishingGradient",
    ]


def test_lines_fit_the_terminal_and_the_first_is_painted():
    shown = (
        FindingFormatter(columns=40, paint=lambda text: f"<{text}>").text([found("a")]).splitlines()
    )
    assert shown[:2] == ["<Finding: VanishingGradient at step 120>", "<    in a>"]
    assert len(shown) == 5
    assert all(len(line) <= 40 and line.startswith("    ") for line in shown[2:])


def test_names_of_tensors_cannot_steer_the_terminal():
    shown = FindingFormatter().text([found("a\x1b[2J\n\rb", message="\x07x\ny")])
    assert "\x1b" not in shown
    assert r"a\x1b[2J b" in shown
    assert r"\x07x y" in shown


def test_a_rule_that_could_not_judge_says_why_once():
    formatter = FindingFormatter()
    assert formatter.standing("a", "Error", "Nothing\nsaved.") == "a: Error\n    Nothing saved.\n"
    assert formatter.standing("b", "Error", "Nothing\nsaved.") == "b: Error\n"
    assert formatter.standing("c", "IssuesFound", "at step 3") == "c: IssuesFound\n"


@pytest.mark.parametrize("details", [NO_TENSORS, NO_FIGURES])
def test_that_nothing_was_saved_before_a_failure_is_one_quiet_line(details: str):
    formatter = FindingFormatter(columns=60)
    reported = formatter.standing("Checkup", "Error", details, has_failed=True)
    assert reported == "Checkup: nothing was saved to judge before the job failed\n"
    assert len(formatter.standing("Checkup", "Error", details).splitlines()) > 2
    own = formatter.standing("Mine", "Error", "KeyError: 'loss'", has_failed=True)
    assert own == "Mine: Error\n    KeyError: 'loss'\n"


def test_a_place_that_is_a_line_of_the_script_is_named_once():
    """Rules that join the script's text with what was seen have no other place than that line."""
    at_line = found("train.py:3", rule="CopyNotMade", line="train.py:3")
    assert FindingFormatter().diagnoses(diagnose([at_line])).count("train.py:3") == 1
    in_layer = found("fc.weight", rule="CopyNotMade", line="train.py:3")
    assert "at fc.weight, train.py:3" in FindingFormatter().diagnoses(diagnose([in_layer]))


def test_findings_do_not_repeat_what_their_diagnosis_said():
    found = [Finding(rule="LossNotFinite", message="The loss is nan.", advice="Clamp.", step=3)]
    formatter = FindingFormatter()
    reported = formatter.diagnoses(diagnose(found)) + formatter.text(found)
    assert reported.count("The loss is nan.") == reported.count("Try: Clamp.") == 1
    assert reported.endswith("Finding: LossNotFinite at step 3\n")
