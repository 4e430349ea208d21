"""Built-in rules read the trials that smdebug wrote as they read ours."""

import pytest

from tests.capture.trials import SMDEBUG_TRIAL
from tests.rules.recording import judge
from trackside.capture.trial import create_trial
from trackside.rules.tensor.any_tensors import AllZero, ExplodingTensor, UnchangedTensor
from trackside.rules.tensor.losses import LossNotDecreasing
from trackside.rules.tensor.weights import VanishingGradient, WeightUpdateRatio


@pytest.mark.parametrize(
    ("rule", "fires"),
    [
        (VanishingGradient(), False),
        (VanishingGradient(threshold=10), True),
        (ExplodingTensor(), False),
        (WeightUpdateRatio(), False),
        (WeightUpdateRatio(large_threshold=1e-6), True),
        (AllZero(collection_names=("weights",)), False),
        (UnchangedTensor(collection_names=("weights",)), False),
        (UnchangedTensor(collection_names=("weights",), rtol=10), True),
        (LossNotDecreasing(num_steps=2, diff_percent=100), True),
    ],
)
def test_a_trial_of_smdebug_is_judged_like_any_other(rule, fires):
    assert bool(judge(rule, create_trial(str(SMDEBUG_TRIAL)))) is fires
