"""A finding names the step at which the fault began, not the start of the training."""

from pathlib import Path
from typing import Any

import pytest

from tests.rules.checkup.course import MODEL, course, flat
from tests.rules.checkup.test_checkup import ONE_PASS, model, moving, parameters, remarked
from tests.rules.recording import judge
from trackside.rules.checkup.checkup import Checkup
from trackside.rules.checkup.data_use import SameBatch
from trackside.rules.checkup.learning_rates import GradientClippedAway
from trackside.rules.checkup.model_design import FrozenByMistake

BEGINS, NUM_STEPS = 230, 600


def then(bad: Any, good: Any) -> Any:
    return lambda step: bad if step >= BEGINS else good


def not_finite(step: int) -> float:
    return float("nan") if step >= BEGINS else 2.3 - 0.004 * step


def modules(**changes: Any) -> list[dict[str, Any]]:
    return [{"name": "Net", "type": "Net"}, {"name": "drop", "type": "Dropout", **changes}]


FROZEN = {"requires_grad": False, "last_gradient_step": BEGINS - 1}
FAULTS: dict[str, dict[str, Any]] = {
    "LearningRateZero": {"vitals": {"learning_rate/0": then(0.0, 0.1)}},
    "DeadLayer": {"vitals": {"activation/relu/dead_share": then(1.0, 0.1)}},
    "ForgottenZeroGrad": {"vitals": {"leftover_gradients": then(1.0, 0.0)}},
    "RepeatedBatches": {
        "vitals": {"input/fingerprint": lambda step: 7 if step >= BEGINS else 1000 + step},
        "anatomy": model(loaders=[{**ONE_PASS, "num_batches": 600, "num_trained": 600}]),
    },
    "SameBatch": {"vitals": {"input/fingerprint": lambda step: 1000 + min(step, BEGINS)}},
    "InputNotFinite": {"vitals": {"input/mean": then(float("nan"), 0.0)}, "loss": not_finite},
    "LossNotFinite": {"loss": not_finite},
    "GradientClippedAway": {
        "vitals": {
            "gradient_norm": lambda step: 1e-6 if step >= BEGINS else 1 + 0.3 * (step % 7),
            "update_ratio": then(1e-9, 5e-3),
        },
        "anatomy": model(num_clipped=370),
    },
    "DropoutTooStrong": {
        "anatomy": model(modules=modules(dropped=0.99, dropped_since=BEGINS)),
        "loss": flat,
    },
    "FrozenByMistake": {
        "anatomy": model(parameters=parameters(a=FROZEN)),
        "vitals": {"update_ratio": 0.05},
        "loss": flat,
    },
    "UpdatesStop": {
        "anatomy": model(
            optimizers=[{**MODEL["optimizers"][0], "num_steps": BEGINS}],
            backwards=[{"training": True, "count": NUM_STEPS}],
        ),
        "vitals": {"update_ratio": then(None, 5e-3)},
        "weights": lambda name, step: moving(name, min(step, BEGINS)),
        "gradients": lambda name, step: (1.0, 0.01),
    },
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_step_of_a_fault_that_begins_late(name: str, tmp_path: Path):
    found = judge(Checkup(), course(tmp_path, num_steps=NUM_STEPS, **FAULTS[name]))
    steps = {each.rule: each.step for each in found}
    assert name in steps
    assert BEGINS <= (steps[name] or 0) <= BEGINS + 1


def test_clipping_that_adam_does_not_mind(tmp_path: Path):
    """Its updates do not depend on the scale of gradients."""
    clipped = FAULTS["GradientClippedAway"]
    vitals = {**clipped["vitals"], "update_ratio": 5e-3}
    trial = course(tmp_path, num_steps=NUM_STEPS, **{**clipped, "vitals": vitals})
    assert judge(Checkup(), trial) == []


def test_clipping_of_which_few_steps_are_checked(tmp_path: Path):
    """As a hook does: every 50th step later on."""

    def norm(step: int) -> float | None:
        is_checked = step < 50 or step % 50 == 0
        return (1e-6 if step >= BEGINS else 1 + 0.3 * (step % 7)) if is_checked else None

    clipped = FAULTS["GradientClippedAway"]
    vitals = {**clipped["vitals"], "gradient_norm": norm}
    trial = course(tmp_path, num_steps=800, **{**clipped, "vitals": vitals})
    assert [(each.rule, each.step) for each in judge(GradientClippedAway(), trial)] == [
        ("GradientClippedAway", 250)
    ]


HELD = {"requires_grad": False, "first_gradient_step": 0, "last_gradient_step": BEGINS - 1}
ON_THE_WAY: dict[str, Any] = remarked("FrozenByMistake", parameters=parameters(a=HELD))
LOADED = {"action": "load", "what": "model", "num_matched": 4}


def frozen_on_the_way(**changes: Any) -> dict[str, Any]:
    return {"anatomy": {**ON_THE_WAY, **changes}, "num_steps": NUM_STEPS}


def test_what_is_frozen_on_the_way_without_a_word(tmp_path: Path):
    (found,) = judge(FrozenByMistake(), course(tmp_path, **frozen_on_the_way()))
    assert found.step == BEGINS
    assert found.message.startswith("train.py:9")


PLANNED = {
    "the script has a word for it": frozen_on_the_way(remarks=[]),
    "a model that was loaded": frozen_on_the_way(checkpoints=[LOADED]),
    "another optimizer for the rest": frozen_on_the_way(
        parameters=parameters(a={**HELD, "optimizer": None})
    ),
    "the last steps only": frozen_on_the_way(
        parameters=parameters(a={**HELD, "last_gradient_step": 560})
    ),
    "frozen from the start": frozen_on_the_way(
        parameters=parameters(a={**HELD, "last_gradient_step": None})
    ),
    "a small part": frozen_on_the_way(parameters=parameters(a={**HELD, "numel": 25})),
    "one part after the other": frozen_on_the_way(
        parameters=[
            *parameters(a=HELD),
            {**parameters()[0], **HELD, "name": "Net_c.weight", "last_gradient_step": 300},
        ]
    ),
}


@pytest.mark.parametrize("name", PLANNED)
def test_what_is_frozen_as_planned(name: str, tmp_path: Path):
    assert judge(FrozenByMistake(), course(tmp_path, **PLANNED[name])) == []


def one_batch_since(first: int, num_steps: int, every: int = 1) -> Any:
    """Fingerprints of batches that are checked at every so manieth step after the first 50, as a
    hook does."""

    def fingerprint(step: int) -> int | None:
        is_checked = step < 50 or step % every == 0
        return 1000 + min(step, first) if is_checked else None

    return {"vitals": {"input/fingerprint": fingerprint}, "num_steps": num_steps}


@pytest.mark.parametrize("every", [1, 50])
def test_one_batch_from_some_step_on(every: int, tmp_path: Path):
    (found,) = judge(SameBatch(), course(tmp_path, **one_batch_since(400, 1200, every)))
    assert found.step == 400
    assert "From step 400 on" in found.message


TWO_OPTIMIZERS = {
    "optimizers": [{**MODEL["optimizers"][0], "index": n, "num_steps": 300} for n in (0, 1)]
}
NOT_FOR_LONG = one_batch_since(560, 600)
IN_ORDER = {
    # Ten batches in an epoch, in the same order each time, and every 50th step is checked.
    "vitals": {"input/fingerprint": lambda step: step % 10 if step < 50 or not step % 50 else None},
    "num_steps": 1000,
}
IN_TURNS = {"vitals": {"input/fingerprint": lambda step: step // 120}, "num_steps": 600}
SINCE = one_batch_since(BEGINS, NUM_STEPS)


def with_vitals(**changes: Any) -> dict[str, Any]:
    named = {name.replace("_of_", "/"): value for name, value in changes.items()}
    return {**SINCE, "vitals": {**SINCE["vitals"], **named}}


HEALTHY_KEPT = {
    "a last stage with another optimizer": {**SINCE, "anatomy": TWO_OPTIMIZERS},
    "the last steps only": NOT_FOR_LONG,
    "data in order": IN_ORDER,
    "each batch for many steps": IN_TURNS,
    "all samples at once at the end": with_vitals(batch_size=then(500, 32)),
    "two samples": with_vitals(batch_size=2),
    "other targets": with_vitals(target_of_fingerprint=lambda step: step),
    "an input that is trained": with_vitals(input_of_is_trained=1.0),
    "a policy": {**SINCE, "anatomy": {"num_scored_samples": NUM_STEPS}},
}


@pytest.mark.parametrize("name", HEALTHY_KEPT)
def test_what_is_no_batch_kept_by_mistake(name: str, tmp_path: Path):
    assert judge(SameBatch(), course(tmp_path, **HEALTHY_KEPT[name])) == []
