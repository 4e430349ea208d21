"""Training and validation of one metric are one chart; what a person chose comes first."""

import pytest

from trackside.curves.chart_groups import groups, headline, is_of_hook


def titles(**tags: int) -> list[str]:
    return [group.title for group in groups({("runs", tag): last for tag, last in tags.items()})]


def lines(*tags: str) -> list[dict[str, str]]:
    found = groups(dict.fromkeys((("runs", tag) for tag in tags), 100))
    return [{name: tag for name, (_, tag) in group.lines.items()} for group in found]


@pytest.mark.parametrize(
    ("train", "validation", "title"),
    [
        ("train/loss", "val/loss", "loss"),
        ("train_loss", "eval_loss", "loss"),
        ("loss/train", "loss/validation", "loss"),
        ("Training loss", "Validation loss", "loss"),
        ("train/head/loss", "valid/head/loss", "head/loss"),
        ("acc-train", "acc-dev", "acc"),
    ],
)
def test_training_and_validation_of_a_metric_are_one_chart(train, validation, title):
    (group,) = groups({("runs", train): 100, ("runs", validation): 99})
    assert group.title == title
    assert group.lines == {"train": ("runs", train), "validation": ("runs", validation)}


def test_a_curve_alone_keeps_its_name():
    assert titles(**{"train/learning_rate": 9}) == ["train/learning_rate"]
    assert lines("train/loss") == [{"runs": "train/loss"}]


def test_curves_over_steps_and_over_epochs_are_not_drawn_over_one_axis():
    assert titles(**{"train/loss": 15_000, "val/loss": 3}) == ["train/loss", "val/loss"]


def test_words_that_only_look_like_a_phase_are_left_alone():
    assert titles(train=1, test=1) == ["test", "train"]
    assert titles(train_val_gap=1, gap=1) == ["gap", "train_val_gap"]
    assert titles(trainable=1, able=1) == ["able", "trainable"]


def test_what_lightning_logs_twice_is_one_chart():
    (found,) = lines("train_loss_step", "train_loss_epoch", "val_loss")
    assert found == {
        "train per epoch": "train_loss_epoch",
        "train per step": "train_loss_step",
        "validation": "val_loss",
    }


def test_runs_of_one_tag_are_lines_by_their_runs():
    (group,) = groups({("train", "epoch_loss"): 9, ("validation", "epoch_loss"): 9})
    assert group.title == "epoch_loss"
    assert [*group.lines] == ["train", "validation"]


def test_losses_come_first_then_quality_then_the_rest():
    tags = dict.fromkeys(["lr", "val/accuracy", "val/loss", "grad_norm", "train/loss"], 10)
    assert titles(**tags) == ["loss", "val/accuracy", "grad_norm", "lr"]


def test_the_machine_is_left_out():
    assert groups({("system/algo-1", "cpu/total_percent"): 10}) == []


def test_losses_of_the_hook_lead_only_where_the_script_has_none():
    hook = ("trackside/algo-1", "CrossEntropyLoss_output_0_EVAL")
    assert is_of_hook(hook)
    last = {hook: 2, ("runs", "lr"): 9}
    assert [each.title for each in groups(last)] == [hook[1], "lr"]
    last[("runs", "loss")] = 9
    assert [each.title for each in groups(last)] == ["loss", "lr", hook[1]]


def test_the_headline_is_what_a_person_chose():
    hook = ("trackside/algo-1", "CrossEntropyLoss_output_0_EVAL")
    last = dict.fromkeys(
        [hook, *(("runs", tag) for tag in ("lr", "train/loss", "val/loss", "val/accuracy"))], 10
    )
    assert [name for name, _ in headline(last)] == ["val/accuracy", "val/loss", "train/loss"]
    assert headline({hook: 1}) == [(hook[1], hook)]
    assert headline({("runs", "lr"): 1}) == []


def test_curves_of_one_name_that_cannot_share_an_axis_are_told_apart():
    last = {("a", "loss"): 3, ("b", "loss"): 1000}
    found = groups(last)
    assert sorted(key for group in found for key in group.lines.values()) == sorted(last)
    assert len({group.title for group in found}) == 2
