"""Vitals against the same figures computed by hand, in healthy trainings and in broken ones."""

import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from torch import Tensor, nn
from torch._dynamo.utils import counters

import trackside.capture as tc
from tests.capture.networks import assert_no_failure, read
from trackside.capture.hook import Hook
from trackside.capture.modes import ModeKeys
from trackside.capture.selection.configuration import VitalsChoice
from trackside.capture.selection.save_config import SaveConfig
from trackside.capture.vitals.measures import judge_activation, sample_activation
from trackside.capture.vitals.schedule import (
    DENSE,
    FIRST,
    MOST_STEPS,
    MOST_STEPS_IF_LARGE,
    Schedule,
)

IMAGES = torch.from_numpy(load_digits().images).float().unsqueeze(1) / 16
LABELS = torch.from_numpy(load_digits().target).long()


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.conv(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.relu = nn.ReLU()
        self.block = Block()
        self.fc = nn.Linear(96, 16)
        self.tanh = nn.Tanh()
        self.out = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.block(self.relu(self.conv(x))).flatten(1)
        result: Tensor = self.out(self.tanh(self.fc(x)))
        return result


def batch(step: int, size: int = 32) -> tuple[Tensor, Tensor]:
    at = slice(step * size % 1600, step * size % 1600 + size)
    return IMAGES[at], LABELS[at]


def vital(out_dir: Path, name: str, mode: ModeKeys = ModeKeys.GLOBAL) -> list[float]:
    tensor = read(out_dir).tensor(f"vitals/{name}")
    return [float(tensor.value(step, mode)[0]) for step in tensor.steps(mode)]


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def global_norm(tensors: Iterable[Tensor | None]) -> float:
    parts = [t.detach().flatten().double() for t in tensors if t is not None]
    return float(torch.cat(parts).norm())


def anatomy_of(out_dir: Path) -> tc.Anatomy:
    anatomy = tc.read_anatomy(out_dir)
    assert anatomy is not None
    return anatomy


def test_the_figures_of_a_training_are_those_computed_by_hand(tmp_path):
    model = Net()
    groups: list[dict[str, Any]] = [
        {"params": model.conv.parameters()},
        {"params": [*model.parameters()][2:], "lr": 0.2},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    expected: dict[str, list[float]] = {}

    def expect(name: str, value: Any) -> None:
        number = value.item() if isinstance(value, Tensor) else value
        expected.setdefault(name, []).append(float(number))

    outputs: dict[str, Tensor] = {}
    for name in ("conv", "relu", "block", "fc", "tanh"):
        part = getattr(model, name)
        part.register_forward_hook(lambda _, __, out, name=name: outputs.update({name: out}))
    with tc.watch(model, out_dir=tmp_path / "t") as hook:
        for step in range(5):
            x, y = batch(step)
            optimizer.zero_grad()
            logits = model(x)
            F.cross_entropy(logits, y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            before = [p.detach().clone() for p in model.parameters()]
            expect("gradient_norm", global_norm([p.grad for p in model.parameters()]))
            expect("learning_rate/0", optimizer.param_groups[0]["lr"])
            expect("learning_rate/1", optimizer.param_groups[1]["lr"])
            optimizer.step()
            scheduler.step()
            moved = [a - b for a, b in zip(model.parameters(), before, strict=True)]
            expect("update_ratio", global_norm(moved) / global_norm(before))
            expect("batch_size", 32)
            expect("input/num_values", x.numel())
            for name in ("min", "max", "mean", "std"):
                expect(f"input/{name}", getattr(x, name)())
                if name in ("min", "max"):
                    expect(f"loss_input/{name}", getattr(logits, name)())
            predicted, counts = logits.argmax(1), torch.bincount(y)
            expect("accuracy", (predicted == y).float().mean())
            expect("labels/num_classes_seen", (counts > 0).sum())
            expect("labels/largest_share", counts.max() / 32)
            expect("predictions/largest_share", torch.bincount(predicted).max() / 32)
            expect("loss_input/row_sum_error", (logits.sum(1) - 1).abs().mean())
            for name in ("relu", "block"):
                out = outputs[name].detach()
                expect(f"activation/{name}/zero_share", (out == 0).float().mean())
                expect(f"activation/{name}/dead_share", (out.amax((0, 2, 3)) <= 0).float().mean())
            for name in ("conv", "relu", "fc", "tanh"):
                expect(f"activation/{name}/std", outputs[name].std())
            far = outputs["tanh"].abs() > 0.98
            expect("activation/tanh/saturated_share", far.float().mean())
            expect("gradient_missing", 0)

    assert_no_failure(hook)
    for name, values in expected.items():
        assert vital(tmp_path / "t", name) == pytest.approx(values, rel=1e-4, abs=1e-6), name
    assert vital(tmp_path / "t", "leftover_gradients") == [0.0] * 4
    assert len(set(vital(tmp_path / "t", "input/fingerprint"))) == 5


def test_vitals_are_separate_in_the_trial(tmp_path):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, out_dir=tmp_path / "t", every=2):
        for step in range(5):
            optimizer.zero_grad()
            F.cross_entropy(model(batch(step)[0]), batch(step)[1]).backward()
            optimizer.step()

    trial = read(tmp_path / "t")
    assert trial.steps() == [0, 2, 4]
    assert trial.tensor_names() == ["loss_output_0"]
    assert "vitals/gradient_norm" in trial.tensor_names(collection="vitals")
    assert trial.tensor_names(regex="^vitals/batch") == ["vitals/batch_size"]
    cube = trial.cube(["vitals/batch_size", "vitals/gradient_norm"], mode=ModeKeys.TRAIN)
    assert np.asarray(cube.values).shape == (5, 2)


def test_times_are_those_between_training_steps_and_leave_evaluation_out(tmp_path):
    model = Net()
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(2):
            model.train()
            for step in range(3):
                F.cross_entropy(model(batch(step)[0]), batch(step)[1]).backward()
            model.eval()
            with torch.no_grad():
                F.cross_entropy(model(batch(9, 100)[0]), batch(9, 100)[1])

    trial = read(tmp_path / "t")
    seconds = trial.tensor("vitals/step_seconds")
    assert seconds.steps(ModeKeys.TRAIN) == [1, 2, 4, 5]  # 3 follows an evaluation
    rate = trial.tensor("vitals/samples_per_second")
    for step in (1, 2, 4, 5):
        assert rate.value(step, ModeKeys.TRAIN)[0] == pytest.approx(
            32 / seconds.value(step, ModeKeys.TRAIN)[0]
        )
    assert vital(tmp_path / "t", "batch_size", ModeKeys.EVAL) == [100.0, 100.0]
    assert len(vital(tmp_path / "t", "accuracy", ModeKeys.EVAL)) == 2


def run_loop(out_dir: Path, body, steps: int = 4, **options) -> tuple[nn.Module, Hook]:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with tc.watch(model, out_dir=out_dir, **options) as hook:
        for step in range(steps):
            body(model, optimizer, *batch(step), step)
    assert_no_failure(hook)
    return model, hook


def usual(
    model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor, step: int
) -> None:
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()


def test_a_forgotten_zero_grad_is_seen(tmp_path):
    def forgotten(model, optimizer, x, y, step):
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    run_loop(tmp_path / "t", forgotten)

    assert vital(tmp_path / "t", "leftover_gradients") == [1.0, 1.0, 1.0]


def test_gradients_that_are_no_numbers_any_more_are_left_over_all_the_same(tmp_path):
    def forgotten(model, optimizer, x, y, step):
        (F.cross_entropy(model(x), y) * math.nan).backward()
        optimizer.step()

    run_loop(tmp_path / "t", forgotten)

    assert vital(tmp_path / "t", "leftover_gradients") == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("order", ["after step", "before backward", "in place", "accumulated"])
def test_every_right_place_of_zero_grad_is_right(tmp_path, order):
    def body(model, optimizer, x, y, step):
        loss = F.cross_entropy(model(x), y)
        if order == "before backward":
            optimizer.zero_grad()
        elif order == "in place":
            optimizer.zero_grad(set_to_none=False)
        loss.backward()
        if order != "accumulated":
            optimizer.step()
        elif step % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
        if order == "after step":
            optimizer.zero_grad()

    run_loop(tmp_path / "t", body, steps=9)

    assert set(vital(tmp_path / "t", "leftover_gradients")) == {0.0}
    if order == "accumulated":
        assert anatomy_of(tmp_path / "t").optimizers[0].backwards_per_step == {"3": 2}


def test_two_optimizers_that_take_turns_leave_nothing_over(tmp_path):
    maker, judge = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (maker, judge)]
    with tc.watch(maker, judge, out_dir=tmp_path / "t") as hook:
        for _ in range(4):
            made = maker(torch.randn(8, 4))
            optimizers[1].zero_grad()
            judge(made.detach()).mean().backward()  # the maker's last gradients are still there
            optimizers[1].step()
            optimizers[0].zero_grad()
            judge(made).mean().backward()
            optimizers[0].step()

    assert_no_failure(hook)
    assert not any(vital(tmp_path / "t", "leftover_gradients"))
    assert "vitals/learning_rate/1.0" in read(tmp_path / "t").tensor_names(collection="vitals")


def test_gradients_of_one_optimizer_of_two_that_nobody_clears(tmp_path):
    maker, judge = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (judge, maker)]
    with tc.watch(maker, judge, out_dir=tmp_path / "t") as hook:
        for _ in range(6):
            made = maker(torch.randn(8, 4))
            optimizers[0].zero_grad()
            judge(made).mean().backward()  # also reaches the maker
            optimizers[0].step()
            judge(maker(torch.randn(8, 4))).mean().neg().backward()
            optimizers[1].step()

    assert_no_failure(hook)
    assert not any(vital(tmp_path / "t", "leftover_gradients/0"))
    assert all(vital(tmp_path / "t", "leftover_gradients/1"))


@pytest.mark.parametrize("as_module", [True, False])
def test_softmax_before_cross_entropy_shows_in_the_row_sums(tmp_path, as_module):
    def body(model, optimizer, x, y, step):
        criterion = nn.CrossEntropyLoss() if as_module else F.cross_entropy
        optimizer.zero_grad()
        criterion(model(x).softmax(1), y).backward()
        optimizer.step()

    run_loop(tmp_path / "t", body)

    assert max(vital(tmp_path / "t", "loss_input/row_sum_error")) < 1e-5
    assert min(vital(tmp_path / "t", "loss_input/min")) >= 0
    (loss,) = anatomy_of(tmp_path / "t").losses
    assert (loss.name, loss.is_module) == (
        ("CrossEntropyLoss", True) if as_module else ("cross_entropy", False)
    )


def test_log_probabilities_are_what_nll_loss_wants(tmp_path):
    def body(model, optimizer, x, y, step):
        F.nll_loss(model(x).log_softmax(1), y).backward()

    run_loop(tmp_path / "t", body)

    assert max(vital(tmp_path / "t", "loss_input/row_sum_error")) < 1e-5


def test_a_binary_loss_has_labels_and_predictions(tmp_path):
    model = nn.Linear(4, 1)
    x, y = torch.randn(10, 4), (torch.arange(10) < 3).float().unsqueeze(1)
    with tc.watch(model, out_dir=tmp_path / "t"):
        logits = model(x)
        F.binary_cross_entropy_with_logits(logits, y).backward()

    predicted = (logits > 0).float()
    assert vital(tmp_path / "t", "accuracy") == pytest.approx(
        [float((predicted == y).float().mean())]
    )
    assert vital(tmp_path / "t", "labels/largest_share") == pytest.approx([0.7])


def test_targets_of_a_loss_over_amounts_are_described(tmp_path):
    classes = torch.tensor([0.0, 1.0, 2.0, 2.0])
    rows = torch.eye(3)[classes.long()]
    for name, target in (("numbers", classes.unsqueeze(1)), ("rows", rows)):
        model = nn.Linear(5, target.shape[1])
        with tc.watch(model, out_dir=tmp_path / name) as hook:
            loss = F.mse_loss(model(torch.randn(4, 5)), target)
            loss.backward()
        assert_no_failure(hook)
    numbers = {
        figure: vital(tmp_path / "numbers", f"target/{figure}")
        for figure in ("mean", "num_values", "largest_share", "whole_share")
    }
    assert numbers == {
        "mean": [1.25],
        "num_values": [3.0],
        "largest_share": [0.5],
        "whole_share": [1.0],
    }
    assert vital(tmp_path / "numbers", "target/std") == [pytest.approx(classes.numpy().std())]
    assert vital(tmp_path / "rows", "target/row_sum_error") == [0.0]
    assert vital(tmp_path / "rows", "loss_value") == [pytest.approx(loss.item())]


def test_what_the_script_does_between_an_update_and_the_next_forward_is_timed(tmp_path):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(4):
            time.sleep(0.05)
            model(torch.randn(8, 4)).sum().backward()
            optimizer.step()
    assert all(each >= 0.05 for each in vital(tmp_path / "t", "between_seconds"))
    assert len(vital(tmp_path / "t", "between_seconds")) == 3


def test_the_same_batch_again_has_the_same_fingerprint(tmp_path):
    def stuck(model, optimizer, x, y, step):
        usual(model, optimizer, *batch(7), step)

    run_loop(tmp_path / "t", stuck)

    assert len(set(vital(tmp_path / "t", "input/fingerprint"))) == 1


def test_dead_and_saturated_units_are_counted(tmp_path):
    model = Net()
    with torch.no_grad():
        model.conv.bias.copy_(torch.tensor([-100.0, -100.0, -100.0, 1.0]))  # type: ignore[union-attr]
        model.fc.bias.fill_(100.0)
    with tc.watch(model, out_dir=tmp_path / "t"):
        F.cross_entropy(model(batch(0)[0]), batch(0)[1]).backward()

    assert vital(tmp_path / "t", "activation/relu/dead_share") == [0.75]
    assert vital(tmp_path / "t", "activation/tanh/saturated_share") == [1.0]


def test_units_are_channels_of_images_and_features_of_everything_else():
    images = torch.zeros(4, 3, 5, 5)
    images[2, 1, 0, 0] = 1.0
    tokens = torch.zeros(2, 7, 4)
    tokens[1, 6, 2] = 1.0

    def dead(output: Tensor, axis: int) -> float:
        return judge_activation(sample_activation(output, axis).numpy(), axis, "relu")["dead_share"]

    assert dead(images, 1) == pytest.approx(2 / 3)
    assert dead(tokens, 2) == 0.75


def test_large_activations_are_sampled_and_the_result_is_about_right():
    output = torch.randn(64, 32, 40, 40).relu()
    sample = sample_activation(output, 1)

    assert sample.numel() < output.numel() / 50
    figures = judge_activation(sample.numpy(), 1, "relu")
    assert figures["zero_share"] == pytest.approx(0.5, abs=0.02)
    assert figures["std"] == pytest.approx(float(output.std()), rel=0.03)


def taken(num_values: int, num_steps: int) -> list[int]:
    """The sampled steps of a training of so many weights."""
    return sampled(Schedule(num_values), range(num_steps))


def sampled(schedule: Schedule, counts: range) -> list[int]:
    steps = []
    for count in counts:
        if schedule.is_due(count):
            schedule.take(count)
            steps.append(count)
    return steps


def test_the_start_of_a_small_model_is_sampled_densely_and_the_rest_ever_more_rarely():
    steps = taken(10_000, 5000)

    assert steps[:DENSE] == [*range(DENSE)]
    assert np.diff(steps)[-1] == MOST_STEPS
    assert len(steps) < DENSE + 5000 / MOST_STEPS + 30


def test_steps_after_a_return_to_a_checkpoint_are_all_sampled():
    schedule = Schedule(100_000_000)
    schedule.take(900)
    assert not schedule.is_due(901)
    schedule.begin_again(901)
    assert sampled(schedule, range(901, 960))[: FIRST + 1] == [
        *range(901, 901 + FIRST),
        900 + FIRST + MOST_STEPS_IF_LARGE,
    ]


def test_the_start_of_a_large_model_is_short_and_a_short_training_is_seen_all_the_same():
    steps = taken(100_000_000, 5000)

    assert steps[:FIRST] == [*range(FIRST)]
    assert len(steps[: steps.index(next(step for step in steps if step >= DENSE))]) < DENSE / 2
    assert len([step for step in steps if FIRST < step <= 100]) >= 10
    assert np.diff(steps)[-1] == MOST_STEPS_IF_LARGE


def sampled_steps(out_dir: Path, seconds: float) -> tuple[list[int], list[int]]:
    """Of a training whose every step takes so much longer: looks at losses, and at updates."""
    torch.manual_seed(0)
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hook = Hook(out_dir, save_config=SaveConfig(save_interval=1000))
    hook.register_module(model)
    for _ in range(130):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(4, 8)), torch.zeros(4).long()).backward()
        optimizer.step()
        time.sleep(seconds)
    hook.close()
    trial = read(out_dir)
    names = ("vitals/accuracy", "vitals/gradient_norm")
    looks, updates = ([*trial.tensor(name).steps()] for name in names)
    return looks, updates


def test_how_long_a_step_takes_does_not_decide_whether_it_is_sampled(tmp_path):
    assert sampled_steps(tmp_path / "fast", 0.0) == sampled_steps(tmp_path / "slow", 0.01)


def final_weights(out_dir: Path | None, vitals: VitalsChoice) -> list[Tensor]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(inplace=True), nn.Dropout(0.3), nn.Flatten())
    model.append(nn.Linear(144, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    hook = None
    if out_dir is not None:
        hook = Hook(out_dir, save_config=SaveConfig(save_interval=1000), vitals=vitals)
        hook.register_module(model)
    for step in range(60):
        optimizer.zero_grad()
        F.cross_entropy(model(batch(step)[0]), batch(step)[1]).backward()
        optimizer.step()
    if hook is not None:
        hook.close()
        assert_no_failure(hook)
    return [p.detach() for p in model.parameters()]


@pytest.mark.parametrize("vitals", ["on", pytest.param("only", marks=pytest.mark.nightly)])
def test_weights_are_bit_identical_with_and_without(tmp_path, vitals):
    plain, watched = final_weights(None, "off"), final_weights(tmp_path / "t", vitals)

    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))
    names = read(tmp_path / "t").tensor_names(collection="vitals")
    assert {"vitals/gradient_norm", "vitals/activation/0/std"} <= set(names)


def test_switched_off_nothing_of_torch_is_touched(tmp_path):
    functions = (F.cross_entropy, torch.autograd.backward)
    hook = Hook(tmp_path / "t", vitals="off")
    assert (F.cross_entropy, torch.autograd.backward) == functions
    hook.close()

    with tc.watch(Net(), out_dir=tmp_path / "u"):
        assert F.cross_entropy is not functions[0]
    assert (F.cross_entropy, torch.autograd.backward) == functions


def test_only_vitals_and_no_other_tensor(tmp_path):
    hook = Hook(
        tmp_path / "t", save_config=SaveConfig(save_interval=1), save_all=True, vitals="only"
    )
    model = Net()
    hook.register_module(model)
    F.cross_entropy(model(batch(0)[0]), batch(0)[1]).backward()
    hook.close()

    trial = read(tmp_path / "t")
    assert trial.tensor_names() == []
    assert trial.steps() == []
    assert vital(tmp_path / "t", "batch_size") == [32.0]


def test_a_scaled_loss_gives_the_norm_the_optimizer_sees(tmp_path):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    norms = []
    with tc.watch(model, out_dir=tmp_path / "t") as hook:
        for step in range(3):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(batch(step)[0]), batch(step)[1])
            scaler.scale(loss).backward()
            norms.append(global_norm([p.grad for p in model.parameters()]) / 1024)
            scaler.step(optimizer)
            scaler.update()

    assert_no_failure(hook)
    assert vital(tmp_path / "t", "gradient_norm") == pytest.approx(norms, rel=1e-4)
    anatomy = anatomy_of(tmp_path / "t")
    assert (anatomy.autocast, anatomy.grad_scaler) == ("bfloat16", "GradScaler")
    assert anatomy.grad_scale == 1024.0


def test_a_closure_is_sampled_like_any_other_step(tmp_path):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    norms, ratios = [], []
    with tc.watch(model, out_dir=tmp_path / "t") as hook:
        for step in range(3):

            def closure(step: int = step) -> Tensor:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(batch(step)[0]), batch(step)[1])
                loss.backward()
                norms.append(global_norm([p.grad for p in model.parameters()]))
                return loss

            before = [p.detach().clone() for p in model.parameters()]
            optimizer.step(closure)
            moved = [a - b for a, b in zip(model.parameters(), before, strict=True)]
            ratios.append(global_norm(moved) / global_norm(before))

    assert_no_failure(hook)
    assert vital(tmp_path / "t", "gradient_norm") == pytest.approx(norms, rel=1e-4)
    assert vital(tmp_path / "t", "update_ratio") == pytest.approx(ratios, rel=1e-4)


def test_the_first_figures_are_curves_in_tensorboard(tmp_path):
    event_accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="TensorBoard is the judge"
    )
    run_loop(tmp_path / "t", usual, tensorboard=tmp_path / "tb")

    events = event_accumulator.EventAccumulator(str(tmp_path / "tb" / "TRAIN"))
    events.Reload()
    assert set(events.Tags()["scalars"]) >= {
        "vitals/learning_rate/0",
        "vitals/gradient_norm",
        "vitals/step_seconds",
        "vitals/samples_per_second",
        "vitals/batch_size",
    }
    assert len(events.Scalars("vitals/gradient_norm")) == 4
    assert "vitals/accuracy" not in events.Tags()["scalars"]


@pytest.mark.parametrize("when", ["wrapped", pytest.param("in place", marks=pytest.mark.nightly)])
def test_a_compiled_model_keeps_its_one_graph(tmp_path, when):
    torch._dynamo.reset()
    counters.clear()
    model = Net()
    if when == "in place":
        model.compile(backend="aot_eager")
    called: nn.Module = model
    if when == "wrapped":
        wrapped = torch.compile(model, backend="aot_eager")
        assert isinstance(wrapped, nn.Module)
        called = wrapped
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(called, out_dir=tmp_path / "t") as hook:
        for step in range(DENSE + 10):  # taken and not taken
            usual(called, optimizer, *batch(step), step)

    assert_no_failure(hook)
    assert int(counters["stats"]["unique_graphs"]) == 1
    assert not counters["graph_break"]
    assert math.isfinite(vital(tmp_path / "t", "gradient_norm")[-1])
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_a_loss_may_still_be_scripted(tmp_path):
    with tc.watch(Net(), out_dir=tmp_path / "t"):
        scripted = torch.jit.script(nn.CrossEntropyLoss())
        loss = scripted(torch.zeros(2, 4), torch.tensor([0, 1])).item()
    assert loss == pytest.approx(math.log(4))
