"""Rules about losses on what a script logs itself."""

from pathlib import Path

import pytest

from tests.rules.recording import steps_of
from trackside import SummaryWriter
from trackside.records.finding import Finding
from trackside.rules.builtin import TensorRule
from trackside.rules.saved.loss_curves import LossCurves
from trackside.rules.tensor.losses import LossNotDecreasing, Overfit, Overtraining
from trackside.storage.locate import locate


def curves(folder: Path) -> LossCurves:
    found = LossCurves(locate(folder, home=folder), folder)
    found.is_wanted = True
    return found


def write(folder: Path, **losses: list[float]) -> None:
    """By tag, `__` for a slash; a value for each step."""
    with SummaryWriter(str(folder / "runs" / "exp1")) as writer:
        for tag, values in losses.items():
            for step, value in enumerate(values):
                writer.add_scalar(tag.replace("__", "/"), value, step)


def judged(rule: TensorRule, evidence: LossCurves) -> list[Finding]:
    evidence.end()
    assert evidence.advance()
    return list(rule.check(evidence))  # type: ignore[arg-type]  # answers what these rules ask


def test_a_loss_that_stands_still(tmp_path: Path):
    write(tmp_path, loss=[1.0] * 21, accuracy=[0.5] * 21, glossary=[1.0] * 21)
    [found] = judged(LossNotDecreasing(), curves(tmp_path))
    assert (found.tensor, found.step, found.mode) == ("runs/exp1/loss", 10, "TRAIN")


def test_a_loss_that_falls(tmp_path: Path):
    write(tmp_path, loss=[0.9**step for step in range(50)])
    assert judged(LossNotDecreasing(), curves(tmp_path)) == []


def test_training_and_evaluation_are_known_by_name(tmp_path: Path):
    falling = [0.9**step for step in range(30)]
    write(tmp_path, train__loss=falling, val_loss=[*falling[:5], *[0.6] * 25])
    found = judged(Overfit(), curves(tmp_path))
    assert found
    assert found[0].tensor == "runs/exp1/val_loss"
    assert steps_of(judged(Overtraining(patience_validation=10), curves(tmp_path)))
    assert judged(LossNotDecreasing(mode="TRAIN"), curves(tmp_path)) == []


def test_each_point_is_given_once_and_nothing_before_it_is_wanted(tmp_path: Path):
    write(tmp_path, loss=[3.0, 2.0])
    found = LossCurves(locate(tmp_path, home=tmp_path), tmp_path)
    assert not found.advance()
    assert found.has_been_there(0)
    found.is_wanted = True
    assert found.advance()
    assert [*found.steps] == [0, 1]
    assert not found.advance()
    with SummaryWriter(str(tmp_path / "b")) as writer:
        writer.add_scalar("eval_loss", 1.0, 7)
    assert found.advance()
    assert [*found.steps] == [7]
    assert found.mode(7).name == "EVAL"


@pytest.mark.parametrize("tag", ["train/loss", "Loss", "loss_D", "losses/policy_loss", "trainLoss"])
def test_names_of_losses(tmp_path: Path, tag: str):
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalar(tag, 1.0, 0)
    found = curves(tmp_path)
    found.advance()
    assert found.seen_at is not None


@pytest.mark.parametrize("tag", ["accuracy", "lossless", "lr"])
def test_names_of_others(tmp_path: Path, tag: str):
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalar(tag, 1.0, 0)
    found = curves(tmp_path)
    found.advance()
    assert found.seen_at is None


def test_only_rules_about_losses_alone_check_at_them():
    assert LossNotDecreasing().judges_losses()
    assert not LossNotDecreasing(use_losses_collection=False).judges_losses()
    assert not LossNotDecreasing(collection_names=("weights",)).judges_losses()
