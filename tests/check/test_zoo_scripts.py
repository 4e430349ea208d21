"""The reader on the scripts of the zoo: healthy ones get no remark."""

from pathlib import Path

import pytest

from trackside.check.check import check_script

ZOO = Path(__file__).parents[2] / "zoo"
pytestmark = pytest.mark.skipif(not ZOO.is_dir(), reason="the zoo is in clones only")


def test_no_healthy_training_gets_a_remark():
    found = [
        (script.name, each)
        for script in ZOO.glob("healthy/*.py")
        for each in check_script(script)[0]
    ]

    assert found == []


@pytest.mark.parametrize(
    ("script", "rule"),
    [
        ("accumulation_inverted", "AccumulationInverted"),
        ("cleared_each_epoch", "ForgottenZeroGrad"),
        ("closure_never_clears", "ForgottenZeroGrad"),
        ("cleared_before_step", "GradientMissing"),
        ("eval_left_on", "TrainingInEvaluationMode"),
        ("head_replaced_too_late", "ParametersNotOptimized"),
        ("head_copied_not_tied", "WeightsUntied"),
        ("layers_in_plain_list", "LayersNotRegistered"),
        ("optimizer_in_the_loop", "OptimizerRecreated"),
        ("plateau_fed_each_batch", "ScheduleInOtherUnits"),
        ("softmax_before_cross_entropy", "LossInputAlreadySoftmax"),
        ("step_forgotten", "OptimizerNotStepping"),
        ("validation_iterator_used_up", "IteratorUsedUp"),
    ],
)
def test_a_mistake_of_the_zoo_is_seen_without_running_it(script, rule):
    assert rule in [each.rule for each in check_script(ZOO / "broken" / f"{script}.py")[0]]
