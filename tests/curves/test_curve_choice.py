"""Which curves are shown: their names, their order, each once, and train beside validation."""

import numpy
import pytest

from trackside.curves.curve_choice import Curve, Origin, all_curves, best, groups, headline
from trackside.curves.event_reader import Curves, Series

RNG = numpy.random.default_rng(7)


def curves_of(**runs: dict[str, list[float]]) -> Curves:
    """By run, whose slashes are written `__`."""
    found = Curves()
    for name, tags in runs.items():
        run = name.replace("__", "/").replace("TOP", ".")
        for tag, values in tags.items():
            steps = numpy.arange(len(values))
            times = 1e9 + steps.astype(float)
            found.scalars[run, tag] = Series(run, tag, steps, times, numpy.array(values))
    return found


def names(curves: Curves) -> list[str]:
    return [curve.name for curve in all_curves(curves) if not curve.same_as]


def noisy(count: int) -> list[float]:
    return RNG.standard_normal(count).cumsum().tolist()


def test_the_folder_that_all_runs_are_in_is_no_part_of_a_name():
    assert names(curves_of(runs__exp1={"loss": noisy(5)})) == ["loss"]
    found = names(curves_of(runs__a={"loss": noisy(5)}, runs__b__c={"loss": noisy(5)}))
    assert found == ["a/loss", "b/c/loss"]
    assert names(curves_of(TOP={"loss": noisy(5)}, runs={"loss": noisy(5)})) == [
        "loss",
        "runs/loss",
    ]


def test_losses_come_first_and_the_machine_last():
    drawn = curves_of(
        trackside__algo_1={"epoch_time": noisy(4)},
        runs={"zeta": noisy(4), "acc/val": noisy(4), "box_loss": noisy(4), "loss": noisy(4)},
        TRAIN={"Net_output_0": noisy(4)},
        **{"system__algo-1": {"cpu/total_percent": noisy(4)}},
    )
    assert names(drawn) == [
        "loss",
        "box_loss",
        "acc/val",
        "zeta",
        "algo_1/epoch_time",
        "TRAIN/Net_output_0",
        "system/algo-1/cpu/total_percent",
    ]


@pytest.mark.parametrize(
    ("train", "validation"),
    [
        ("loss/train", "loss/val"),
        ("train_loss", "valid_loss"),
        ("train/loss", "eval/loss"),
        ("loss", "val_loss"),
        ("training loss", "validation loss"),
        ("train-logloss", "validation_0-logloss"),
        ("train_loss_step", "val_loss"),
        ("Loss.train", "Loss.test"),
    ],
)
def test_train_and_validation_of_one_metric_are_one_chart(train: str, validation: str):
    drawn = curves_of(runs={train: noisy(5), validation: noisy(5), "lr": noisy(5)})
    shown = [[curve.name for curve in group] for group in groups(all_curves(drawn))]
    assert shown == [[train, validation], ["lr"]]


def test_runs_that_are_called_train_and_validation_are_one_chart():
    drawn = curves_of(
        logs__train={"epoch_loss": noisy(5)}, logs__validation={"epoch_loss": noisy(5)}
    )
    (group,) = groups(all_curves(drawn))
    assert [curve.phase for curve in group] == ["train", "val"]


def same_as(curves: Curves) -> dict[str, str]:
    return {curve.name: curve.same_as for curve in all_curves(curves)}


def test_what_was_printed_of_a_curve_is_that_curve():
    values = noisy(50)
    printed = [round(each, 3) for each in values[::10]]
    drawn = curves_of(runs={"loss/val": values}, **{"trackside__algo-1": {"val_loss": printed}})
    assert same_as(drawn) == {"loss/val": "", "val_loss": "loss/val"}


def test_what_was_printed_by_another_name_or_of_another_phase_is_its_own():
    values = noisy(50)
    printed = {"train_loss": values[::10], "val_accuracy": values[::10]}
    drawn = curves_of(runs={"loss/val": values}, **{"trackside__algo-1": printed})
    assert set(same_as(drawn).values()) == {""}


def test_the_hook_s_loss_is_the_script_s_whatever_that_calls_it():
    values = noisy(50)
    drawn = curves_of(
        runs={"objective": values}, **{"trackside__algo-1": {"NLL_output_0_TRAIN": values[:20]}}
    )
    assert same_as(drawn)["NLL_output_0_TRAIN"] == "objective"


def test_two_logs_of_a_script_that_say_the_same_are_one():
    values = noisy(50)
    rounded = numpy.array(values, numpy.float32).astype(float).tolist()
    drawn = curves_of(runs={"loss": values}, wandb={"loss": rounded, "lr": [0.1] * 50})
    assert same_as(drawn) == {"runs/loss": "", "wandb/loss": "runs/loss", "wandb/lr": ""}


def test_level_curves_of_different_metrics_are_not_the_same():
    drawn = curves_of(runs={"dropout": [0.1] * 9}, TRAIN={"vitals/learning_rate/0": [0.1] * 9})
    assert set(same_as(drawn).values()) == {""}


def test_a_metric_of_the_log_with_the_name_of_another_curve_gets_its_own():
    drawn = curves_of(runs={"loss": noisy(5)}, **{"trackside__algo-1": {"loss": noisy(5)}})
    assert names(drawn) == ["loss", "log/loss"]


def test_points_that_a_resumed_script_wrote_again_count_once():
    drawn = Curves()
    steps = numpy.array([0, 1, 2, 3, 2, 3, 4])
    values = numpy.array([9.0, 8, 7, 6, 70, 60, 50])
    drawn.scalars[".", "loss"] = Series(".", "loss", steps, 1e9 + steps, values)
    (curve,) = all_curves(drawn)
    assert curve.series.values.tolist() == [9, 8, 7, 70, 60, 50]


def test_the_best_of_a_curve_without_a_finite_value_is_none():
    values = numpy.array([float("nan")])
    assert best(Series(".", "loss", numpy.array([1]), numpy.array([1.0]), values)) is None


def test_a_long_curve_is_compared_in_little_time():
    """By what is compared: a curve unlike the others is recognized after a few points."""
    whole = RNG.standard_normal(200_000).cumsum().tolist()
    other = RNG.standard_normal(200_000).cumsum().tolist()
    drawn = curves_of(runs={"loss": whole}, TRAIN={"Net_output_0": other})
    found: list[Curve] = all_curves(drawn)
    assert [curve.origin for curve in found] == [Origin.SCRIPT, Origin.HOOK]
    assert not found[1].same_as


HOOK = {"CrossEntropyLoss_output_0_EVAL": [7.0, 6.0]}


def test_the_headline_is_what_a_person_chose():
    own = {"lr": [0.1, 0.1], "train/loss": [3.0, 2.0]}
    own |= {"val/loss": [3.1, 2.1], "val/accuracy": [0.1, 0.9]}
    curves = curves_of(runs=own, **{"trackside/algo-1": HOOK})
    found = [curve.name for curve in headline(all_curves(curves), 3)]
    assert found == ["val/accuracy", "val/loss", "train/loss"]


def test_the_headline_is_the_hook_s_only_where_the_script_has_none():
    curves = curves_of(runs={"lr": [0.1, 0.1]}, **{"trackside/algo-1": HOOK})
    assert [curve.name for curve in headline(all_curves(curves), 3)] == [*HOOK]
