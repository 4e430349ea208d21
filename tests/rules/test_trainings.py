"""Each rule at real trainings: silent at healthy ones, awake at one that is really broken."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.rules.recording import judge
from tests.rules.trainings import mlp, run, watching
from tests.wait import until
from trackside.capture.hook import Hook
from trackside.capture.selection.save_config import SaveConfig
from trackside.capture.trial import Trial, create_trial
from trackside.records.finding import Finding
from trackside.rules.builtin import TensorRule
from trackside.rules.saved.evidence import Evidence
from trackside.rules.tensor.activations import DeadRelu, SaturatedActivation
from trackside.rules.tensor.any_tensors import (
    AllZero,
    ExplodingTensor,
    TensorVariance,
    UnchangedTensor,
)
from trackside.rules.tensor.classes import ClassImbalance, Confusion
from trackside.rules.tensor.comparisons import SimilarAcrossRuns
from trackside.rules.tensor.inputs import CheckInputImages, NLPSequenceRatio
from trackside.rules.tensor.losses import LossNotDecreasing, Overfit, Overtraining
from trackside.rules.tensor.progress import StalledTrainingRule
from trackside.rules.tensor.weights import (
    PoorWeightInitialization,
    VanishingGradient,
    WeightUpdateRatio,
)

Trained = Callable[[str], Trial]


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The trial of a training by its name, trained once."""
    folders: dict[str, Path] = {}

    def find(name: str) -> Trial:
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp("training") / "trial"
            run(name, folders[name])
        return create_trial(str(folders[name]))

    return find


WEIGHTS = ("weights",)
ANY_NETWORK: list[Callable[[], TensorRule]] = [
    VanishingGradient,
    ExplodingTensor,
    WeightUpdateRatio,
    lambda: AllZero(collection_names=("weights", "gradients")),
    lambda: UnchangedTensor(collection_names=WEIGHTS),
    lambda: TensorVariance(collection_names=WEIGHTS, max_threshold=2),
    lambda: LossNotDecreasing(num_steps=80, mode="TRAIN"),
    Overfit,
    lambda: Overtraining(patience_train=20, patience_validation=20),
    lambda: ClassImbalance(threshold_misprediction=0.97),
]
ANY_RELUS: list[Callable[[], TensorRule]] = [
    DeadRelu,
    CheckInputImages,
    lambda: PoorWeightInitialization(distribution_range=1e-4),
]
HEALTHY: dict[str, list[Callable[[], TensorRule]]] = {
    "mlp": [*ANY_NETWORK, *ANY_RELUS],
    "cnn": [*ANY_NETWORK, *ANY_RELUS],
    "transformer": [*ANY_NETWORK, SaturatedActivation, NLPSequenceRatio],
    "half frozen": [
        VanishingGradient,
        WeightUpdateRatio,
        lambda: AllZero(collection_names=("gradients",)),
    ],
    "trained mlp": [lambda: Confusion(min_diag=0.8)],
}


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        pytest.param(name, make(), id=f"{name}-{make().name()}")
        for name, makers in HEALTHY.items()
        for make in makers
    ],
)
def test_a_healthy_training_is_left_in_peace(trained: Trained, name: str, rule: TensorRule):
    trial = trained(name)
    assert judge(rule, trial) == []
    evidence = Evidence(trial)
    evidence.advance()
    assert rule.missing(evidence) == "", "it had nothing to check"


SICK: list[tuple[str, TensorRule, str]] = [
    ("deep sigmoids", VanishingGradient(), "gradient/Sequential_1.weight"),
    ("exploding", ExplodingTensor(), "gradient/Sequential_1.weight"),
    ("giant steps", WeightUpdateRatio(), "Sequential_1.weight"),
    ("no learning rate", WeightUpdateRatio(), "Sequential_1.weight"),
    ("zero weights", AllZero(collection_names=("gradients",)), "gradient/Sequential_1.weight"),
    ("no learning rate", UnchangedTensor(collection_names=WEIGHTS), "Sequential_1.weight"),
    (
        "giant steps",
        TensorVariance(collection_names=WEIGHTS, max_threshold=2),
        "Sequential_1.weight",
    ),
    ("no learning rate", LossNotDecreasing(), "CrossEntropyLoss_output_0"),
    ("overfit", Overfit(), "CrossEntropyLoss_output_0"),
    ("too long", Overtraining(), "CrossEntropyLoss_output_0"),
    ("imbalanced", ClassImbalance(threshold_misprediction=1), "CrossEntropyLoss_input_1"),
    ("wrong labels", Confusion(), "CrossEntropyLoss_input_1"),
    ("dead by bias", DeadRelu(), "2_output_0"),
    ("saturated", SaturatedActivation(), "2_input_0"),
    ("poor start", PoorWeightInitialization(distribution_range=0), "8_input_0"),
    ("raw images", CheckInputImages(), "Cnn_input_0"),
    ("padded", NLPSequenceRatio(), "tokens_input_0"),
]


@pytest.mark.parametrize(
    ("name", "rule", "tensor"),
    [pytest.param(*each, id=f"{each[0]}-{each[1].name()}") for each in SICK],
)
def test_an_unhealthy_training_is_found(trained: Trained, name: str, rule: TensorRule, tensor: str):
    found = judge(rule, trained(name))
    assert tensor in {each.tensor for each in found}
    for each in found:
        check_reported(each)


def check_reported(found: Finding) -> None:
    """A sentence with the numbers in it, and something to try."""
    assert found.message.endswith((".", ".)"))
    assert found.advice
    assert found.step is not None
    assert found.value is not None
    if found.threshold is not None:
        assert f"{found.threshold:g}" in found.message or f"{found.threshold:.4g}" in found.message


def test_a_frozen_weight_is_known_without_its_gradient(tmp_path: Path):
    hook = Hook(tmp_path, save_config=SaveConfig(save_interval=1), include_collections=["weights"])
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    hook.register_module(model)
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().sum().backward()
        optimizer.step()
    hook.close()
    assert judge(WeightUpdateRatio(), create_trial(str(tmp_path))) == []


def test_the_confused_class_is_named(trained: Trained):
    found = judge(Confusion(), trained("wrong labels"))
    assert found[0].mode == "EVAL"
    assert "class 4 is predicted as it" in found[0].message


def test_runs_of_one_seed_are_the_same_and_of_another_are_not(trained: Trained):
    trial = trained("same seed")
    same = SimilarAcrossRuns(other_trials=(trained("same seed again").path,))
    assert judge(same, trial) == []
    other = SimilarAcrossRuns(collection_names=WEIGHTS, other_trials=(trained("other seed").path,))
    assert {each.step for each in judge(other, trial)} == {0}


def test_a_loop_that_stalls_is_found_while_it_runs(tmp_path: Path):
    model = nn.Sequential(nn.Flatten(), mlp())
    hook = watching(tmp_path, model)
    for _ in range(3):
        model(torch.randn(4, 1, 8, 8)).sum().backward()
    hook.dump()  # the writer's own age limit would do, in a second or two
    evidence = Evidence(create_trial(str(tmp_path)))
    rule = StalledTrainingRule(threshold=0.2)
    start = time.monotonic()
    until(evidence.advance)
    until(lambda: [*rule.check(evidence)])
    assert time.monotonic() - start >= 0.2
    hook.close()
    until(lambda: evidence.advance() and evidence.is_all)
    assert [*rule.check(evidence)] == []
