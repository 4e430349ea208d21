from tests.rules.recording import Recording, judge
from trackside.rules.onsets import WELL_LOOKS
from trackside.rules.tensor.gradients import VanishingGradient


def test_a_vanished_gradient_is_found_where_it_begins(tmp_path):
    recording = Recording(tmp_path)
    for step, size in enumerate([1e-3, 1e-6, 1e-8, 1e-9, 1e-5, 1e-8, *[1e-5] * WELL_LOOKS, 1e-8]):
        recording.step(step * 10, {"gradient/deep": [size, -size], "gradient/near": [0.1, 0.2]})
    found = judge(VanishingGradient(), recording.end())
    assert [(each.tensor, each.step) for each in found] == [
        ("gradient/deep", 20),
        ("gradient/deep", 60 + 10 * WELL_LOOKS),
    ]
    assert found[0].value is not None
    assert abs(found[0].value - 1e-8) < 1e-12
    assert found[0].mode == "TRAIN"


def test_the_threshold_itself_is_still_healthy(tmp_path):
    recording = Recording(tmp_path)
    recording.step(0, {"gradient/a": [0.5]})
    assert judge(VanishingGradient(threshold=0.5), recording.end()) == []
