"""What is said of a run at its end."""

from trackside.inside.summary_line import in_words
from trackside.records.finding import Finding


def found(rule: str, step: int) -> Finding:
    return Finding(rule=rule, configuration="Checkup", step=step, tensor="w", message="", advice="")


def test_findings_are_named_and_from_the_fourth_on_counted():
    assert in_words([found("A", 0)]) == "1 finding: A (Checkup) at step 0 in w"
    five = in_words([found(rule, step) for step, rule in enumerate("ABCDE")])
    assert five.startswith("5 findings: A (Checkup) at step 0 in w; B (Checkup)")
    assert five.endswith("; C (Checkup) at step 2 in w; and 2 more")
