"""Printed numbers as curves: their steps, and when they count."""

from pathlib import Path

import pytest

from trackside import curves
from trackside.curves.loggers.printed_metrics import PrintedMetrics, bar_steps, total_steps


class Log:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.logs_elsewhere = False
        (root / "log").touch()
        self.keeper = self.taken_over()

    def taken_over(self) -> PrintedMetrics:
        return PrintedMetrics(
            self.root / "log",
            self.root / "times",
            self.root / "curves",
            "trackside/algo-1",
            self.root / "state.json",
            logs_elsewhere=lambda: self.logs_elsewhere,
        )

    def print(self, text: str) -> None:
        with (self.root / "log").open("a") as log:
            log.write(text)
        with (self.root / "times").open("a") as times:
            times.write(f"{(self.root / 'log').stat().st_size} 1794905311.500\n")

    def points(self, tag: str = "loss") -> list[tuple[int, float]]:
        if not (self.root / "curves").exists():
            return []
        series = curves.read(str(self.root / "curves")).scalars["trackside/algo-1", tag]
        assert set(series.times) == {1794905311.5}
        return [
            (step, round(float(value), 6))
            for step, value in zip(series.steps, series.values, strict=True)
        ]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_points_come_while_the_script_prints(log: Log):
    log.print("loss: 0.5\nloss: 0.4\nlo")
    log.keeper.tick()
    log.keeper.tick()
    assert log.points() == [(0, 0.5), (1, 0.4)]
    log.print("ss: 0.3")
    log.keeper.tick(last=True)
    assert log.points() == [(0, 0.5), (1, 0.4), (2, 0.3)]


def test_a_bar_s_steps_go_on_with_the_next_epoch_and_the_last_drawing_counts(log: Log):
    bar = "\rEpoch {}: 50%|#| {}/3 [00:00<00:01, 9it/s, loss={}]"
    for epoch in range(2):
        for at in (1, 2, 3):
            log.print(bar.format(epoch, at - 1, 9))
            log.print(bar.format(epoch, at, epoch + at / 10))
    log.keeper.tick(last=True)
    found = dict(log.points())
    assert found == {0: 9, 1: 9, 2: 9, 3: 9, 4: 9, 5: 9, 6: 1.3}
    assert total_steps(log.root / "state.json") is None  # of an epoch


def test_the_trainer_s_steps_are_those_of_its_bar(log: Log):
    bar = "\r 50%|#| {}/{} [00:00<00:01, 9it/s]"
    for step in (2, 4):
        log.print(bar.format(step, 4) + f"\n{{'loss': '{step}', 'epoch': '1'}}\n")
        log.print(bar.format(step, 4))
    log.print("\n{'eval_loss': '7', 'epoch': '1'}\n" + bar.format(8, 8) + bar.format(4, 4))
    log.print("\n{'train_loss': '3', 'epoch': '1'}\n")
    log.keeper.tick(last=True)
    assert log.points() == [(2, 2), (4, 4)]
    assert log.points("eval_loss") == [(4, 7)]
    assert total_steps(log.root / "state.json") == 4
    assert log.points("train_loss") == [(0, 3)]


BAR = "\r{}: 50%|#| {}/{} [00:00<00:01, 9it/s, loss={}]"


@pytest.mark.parametrize(
    ("bars", "total"),
    [
        ([("training", 1, 500), ("training", 2, 500)], 500),
        ([("", 7, 500)], 500),
        ([("Epoch 1/4", 3, 50), ("Epoch 2/4 [train]", 1, 50)], 200),
        ([("epoch 2 of 3", 1, 50)], 150),
        ([("Epoch 2", 1, 50)], None),  # of how many?
        ([("train", 50, 50), ("train", 1, 50)], None),  # it was an epoch's, and there are more
        ([("train", 9, 500), ("val", 1, 20)], 500),
        ([("Validation", 1, 20)], None),
    ],
)
def test_a_bar_of_the_script_s_own_says_how_many_steps_there_are(
    log: Log, bars: list[tuple[str, int, int]], total: int | None
):
    for about, at, of in bars:
        log.print(BAR.format(about, at, of, 0.5))
    log.print("\n")
    log.keeper.tick(last=True)
    assert bar_steps(log.root / "state.json") == total
    assert total_steps(log.root / "state.json") is None


def test_a_bar_without_a_loss_says_nothing_of_the_training(log: Log):
    log.print("\rTokenizing: 50%|#| 5/10 [00:00<00:01, 9it/s]\nloss: 0.5\n")
    log.keeper.tick(last=True)
    assert bar_steps(log.root / "state.json") is None


def test_it_is_not_read_if_the_script_logs_otherwise(log: Log):
    log.print("loss: 0.5\n")
    log.keeper.tick()
    log.logs_elsewhere = True  # a file that it began before it printed, seen only now
    log.keeper.tick()
    log.keeper.tick(last=True)
    assert log.points() == []


def test_a_curve_that_has_started_continues(log: Log):
    log.print("loss: 0.5\n")
    log.keeper.tick()
    log.keeper.tick()
    log.logs_elsewhere = True
    log.print("loss: 0.25\n")
    log.taken_over().tick(last=True)
    assert log.points() == [(0, 0.5), (1, 0.25)]


def test_the_toolkit_s_own_output_has_no_metrics(log: Log):
    banner = "2026-11-17 08:49:01,469 trackside-toolkit INFO     Invoking user script\n"
    log.print(banner + "  SM_HP_LOSS=0.3\n  python -- train.py a.loss=3\nloss: 1\n  loss: 2\n")
    log.keeper.tick(last=True)
    assert log.points() == [(0, 1), (1, 2)]


def test_who_takes_over_counts_on(log: Log):
    log.print("loss: 0.5\n")
    log.print("\r50%|#| 3/9 [00:00<00:01, 9it/s, acc=1]\r60%|#| 4/9 [00:00<00:01, 9it/s, acc=2]\n")
    log.keeper.tick()
    log.keeper.tick()
    log.print("loss: 0.25\n\r0%|#| 1/9 [00:00<00:01, 9it/s, acc=3]")
    log.taken_over().tick(last=True)
    assert log.points() == [(0, 0.5), (1, 0.25)]
    assert log.points("acc") == [(3, 1), (5, 3)]
