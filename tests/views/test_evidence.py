"""Which curves, vitals and heat map show a finding."""

import pytest

from trackside.records.finding import Finding
from trackside.views.job.evidence import (
    MOST_VITALS,
    HeatRef,
    KnownCurve,
    curves_of,
    heat_of,
    layer_of,
    vitals_of,
)

LOSS = KnownCurve("t:loss", "loss/train", "metric", "train", is_loss=True)
VALIDATION = KnownCurve("v:loss", "loss/val", "metric", "val", is_loss=True)
ACCURACY = KnownCurve("t:acc", "accuracy", "metric")
CPU = KnownCurve("m:cpu", "cpu/total_percent", "machine")
GPU = KnownCurve("m:gpu", "gpu_1/utilization_percent", "machine")
RATE = KnownCurve("vitals/learning_rate/0", "learning_rate/0", "vital")
UPDATE = KnownCurve("vitals/update_ratio", "update_ratio", "vital")
SIZE = KnownCurve("vitals/batch_size", "batch_size", "vital")
FIGURES = {"gradients": ("abs_mean", "l2"), "weights": ("abs_mean",), "biases": ("abs_mean",)}
KNOWN = [LOSS, VALIDATION, ACCURACY, CPU, GPU, RATE, UPDATE, SIZE]


def found(rule: str, tensor: str = "", *, is_profiler: bool = False) -> Finding:
    return Finding(rule=rule, message="", tensor=tensor, is_profiler=is_profiler)


def test_a_finding_shows_the_losses_and_what_its_rule_rests_on():
    finding = found("LearningRateZero")
    assert curves_of(finding, KNOWN) == ("t:loss", "v:loss")
    assert vitals_of(finding, KNOWN) == ("vitals/learning_rate/0", "vitals/update_ratio")


def test_a_finding_about_the_machine_shows_the_machine():
    finding = found("CPUBottleneck", "algo-1", is_profiler=True)
    assert curves_of(finding, KNOWN) == ("m:cpu", "m:gpu")


def test_the_curve_that_a_finding_names_comes_first():
    assert curves_of(found("LossNotDecreasing", "accuracy"), KNOWN)[0] == "t:acc"


def test_of_a_vital_of_every_layer_the_layer_of_the_finding_comes_first():
    layers = [f"activation/block.{number}/dead_share" for number in range(20)]
    known = [KnownCurve(f"vitals/{name}", name, "vital") for name in layers]
    vitals = vitals_of(found("DeadLayer", "block.13"), known)
    assert vitals[0] == "vitals/activation/block.13/dead_share"
    assert len(vitals) == MOST_VITALS


def test_a_rule_of_the_user_is_shown_by_its_tensor():
    known = [KnownCurve("vitals/activation/fc1/std", "activation/fc1/std", "vital")]
    finding = found("TheirRule", "gradient/fc1.weight")
    assert vitals_of(finding, known) == ("vitals/activation/fc1/std",)
    assert heat_of(finding, FIGURES) == HeatRef("gradients", "abs_mean")


@pytest.mark.parametrize(
    ("rule", "tensor", "heat"),
    [
        ("DeadLayer", "relu1", HeatRef("gradients", "l2")),
        ("WeightDecayTooStrong", "", HeatRef("weights", "abs_mean")),  # l2 was not saved
        ("TheirRule", "fc1.bias", HeatRef("biases", "abs_mean")),
        ("TheirRule", "loss", None),
        ("UnnormalizedInput", "", None),  # activations are not among those of the job
    ],
)
def test_the_heat_map_is_one_that_the_job_has(rule, tensor, heat):
    assert heat_of(found(rule, tensor), FIGURES) == heat


def test_without_saved_tensors_there_is_no_heat_map():
    assert heat_of(found("DeadLayer", "relu1"), {}) is None


def test_the_layer_of_a_tensor():
    assert layer_of("gradient/model.fc1.weight") == "model.fc1"
    assert layer_of("vitals/activation/block/relu/std") == "block/relu"
    assert layer_of("") == ""


def test_batches_of_the_finding_s_mode_come_first():
    known = [
        KnownCurve("train", "input/mean", "vital", mode="TRAIN"),
        KnownCurve("eval", "input/mean", "vital", mode="EVAL"),
    ]
    evaluated = Finding(rule="EvaluationInputDiffers", message="", mode="EVAL")
    assert vitals_of(evaluated, known) == ("eval", "train")
    assert vitals_of(found("EvaluationInputDiffers"), known) == ("train", "eval")


def test_the_loss_of_the_script_comes_before_the_hook_s():
    hook = KnownCurve("hook", "loss_output_0_TRAIN", "vital", is_loss=True)
    assert curves_of(found("LossRising"), [hook, ACCURACY, LOSS]) == ("t:loss", "hook")
