"""What lines of training scripts say, and what others do not."""

import pytest

from trackside.curves.loggers.printed_lines import Bar, Printed, parse

TRAINER = "{'loss': '3.033', 'grad_norm': '0.9', 'learning_rate': '2.08e-05', 'epoch': '1.25'}"
KERAS = (
    "\x1b[1m3/3\x1b[0m \x1b[32m━━━━\x1b[0m \x1b[1m0s\x1b[0m 51ms/step - acc: 0.6 - val_loss: 0.7"
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "training:  80%|████  | 48/60 [00:02<00:00, 12.89it/s, loss=0.3519, lr=1e-3]",
            Bar("training", 48, 60, {"loss": 0.3519, "lr": 0.001}),
        ),
        (
            "Epoch 2/10 [val]: 100%|##| 5/5 [00:00<00:00, 9it/s, loss=0.1]",
            Bar("val", 5, 5, {"loss": 0.1}),
        ),
        ("Epoch 1: 50%|#  | 2/4 [00:01<?, ?it/s]", Bar("", 2, 4)),
        ("loss 0.35: 50%|#  | 2/4 [00:01<00:01, 1.1s/it]", Bar("", 2, 4, {"loss": 0.35})),
        ("Epoch 0: 50%|#| 2/4 [00:01<00:01, 9it/s, v_num=0, loss=0.1]", Bar("", 2, 4)),
        (
            f"     {TRAINER}",
            Printed({"loss": 3.033, "grad_norm": 0.9, "learning_rate": 2.08e-05}, None, True),
        ),
        ("{'loss': 0.5, 'step': 12}", Printed({"loss": 0.5}, 12)),
        (
            "[3]\ttrain-rmse:0.65\tval-rmse:1e-3",
            Printed({"train-rmse": 0.65, "val-rmse": 0.001}, 3),
        ),
        ("[10]\tvalid_1's l2: 0.6", Printed({"valid_1's l2": 0.6}, 10)),
        (KERAS, Printed({"acc": 0.6, "val_loss": 0.7})),
        (KERAS.replace("3/3", "1/3"), Printed({})),
        (
            "step 20: train loss 1.9, val loss 1.8",
            Printed({"train loss": 1.9, "val loss": 1.8}, 20),
        ),
        ("iter 7: loss 1.9488, time 45.90ms", Printed({"loss": 1.9488}, 7)),
        ("Train Epoch: 2 [0/512 (0%)]\tLoss: 1.958", Printed({"Loss": 1.958})),
        (
            "Test set: Average loss: 1.1252, Accuracy: 128/128 (100%)",
            Printed({"Average loss": 1.1252}),
        ),
        ("Epoch 3 | train_loss=0.12 | acc = 98%", Printed({"train_loss": 0.12, "acc": 98.0})),
        ("global_step=734, episodic_return=72.0", Printed({"episodic_return": 72.0}, 734)),
        ("Loss 0.5 (0.6) at -1", Printed({"Loss": 0.5})),
    ],
)
def test_a_line_is_parsed(line: str, expected: object):
    assert parse(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "python train.py --loss 0.3 --acc=2",
        "a glossary 3 of loss-free words, accessed 12 times",
        "{'a': 1, 'b': 2}",
        "{'epoch': {'loss': 3}}",
        "[1, 2, 3]",
        "[2026-11-17 08:53:02] started",
        "loss: none",
        "accuracy 3/4",
        'SM_HPS={"loss":0.5}',
    ],
)
def test_a_line_has_no_metric(line: str):
    assert parse(line) is None


def test_nan_is_seen():
    parsed = parse("loss: nan")
    assert isinstance(parsed, Printed)
    assert parsed.values["loss"] != parsed.values["loss"]


@pytest.mark.parametrize(
    "unit", ["a", "a ", "loss ", "{'a': 1, ", "1/", "a-loss_", "%|1/2 [", "0:"]
)
def test_no_line_takes_long(unit: str):
    """Each of these would, were a pattern's time to grow with the line's square."""
    for _ in range(50):
        parse(unit * (100_000 // len(unit)))
