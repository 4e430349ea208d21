import copy
import io
import json
import math
import pickle
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.capture.networks import Net, assert_no_failure, batch, read, train
from trackside.capture.current_hook import del_hook, set_hook
from trackside.capture.exceptions import (
    SMDebugError,
    SMDebugRuntimeError,
    SMDebugTypeError,
    SMDebugValueError,
)
from trackside.capture.hook import Hook, get_hook
from trackside.capture.modes import ModeKeys
from trackside.capture.selection.collection import Collection
from trackside.capture.selection.reduction_config import ReductionConfig
from trackside.capture.selection.save_config import SaveConfig, SaveConfigMode
from trackside.capture.trial_layout import FAILURES

EVERY_STEP = SaveConfig(save_interval=1)
FIVE = ReductionConfig(["min", "max", "mean", "std"], norms=["l2"])


@pytest.fixture(autouse=True)
def _no_hook_left_over():
    torch.manual_seed(0)
    yield
    hook = get_hook()
    if hook is not None:
        hook.close()
    del_hook()


def watched(out_dir: Path, model: nn.Module, **arguments: Any) -> tuple[Hook, nn.Module]:
    hook = Hook(out_dir, **{"save_config": EVERY_STEP, **arguments})
    criterion = nn.CrossEntropyLoss()
    hook.register_module(model)
    hook.register_loss(criterion)
    return hook, criterion


def test_every_tensor_has_the_name_of_the_reference_listing(tmp_path):
    hook, criterion = watched(tmp_path / "t", Net(), save_all=True)
    model = next(iter(hook._stepper.models.values())).root
    train(model, 2, criterion=criterion)
    hook.close()

    parameters = [
        f"Net_{part}.{kind}"
        for part in ("conv1", "seq.0", "sub.fc", "bn", "out")
        for kind in ("weight", "bias")
    ]
    sides = ("input", "output")
    modules = ("seq", "seq.0", "seq.1", "sub.fc", "sub.relu", "conv1", "bn", "out", "Net")
    expected = [
        *(f"CrossEntropyLoss_{place}" for place in ("input_0", "input_1", "output_0")),
        *parameters,
        *(f"gradient/{name}" for name in parameters),
        *(f"relu_{side}_{index}" for side in sides for index in (0, 1)),
        *(f"{module}_{side}_0" for module in modules for side in sides),
        *("sub_input_0", "sub_output_0", "sub_output_1"),
    ]
    assert read(tmp_path / "t").tensor_names() == sorted(expected)
    assert_no_failure(hook)


LOSS = ["CrossEntropyLoss_input_0", "CrossEntropyLoss_input_1", "CrossEntropyLoss_output_0"]
"""A loss module's predictions, labels and value."""


def test_with_nothing_configured_the_trial_is_the_loss(tmp_path):
    hook, criterion = watched(tmp_path / "t", Net(), save_config=None)
    train(next(iter(hook._stepper.models.values())).root, 3, criterion=criterion)
    hook.close()

    trial = read(tmp_path / "t")
    assert trial.tensor_names() == LOSS
    assert trial.steps() == [0]
    assert trial.tensor_names(collection="losses") == LOSS


def test_what_a_collection_excludes_is_not_saved(tmp_path):
    chosen = Collection("gradients", exclude_regex=["bias$"])
    hook = Hook(tmp_path / "t", include_collections=["gradients", "losses"])
    hook.get_collection("losses").exclude("_input_")
    hook.add_collection(chosen)
    model, criterion = Net(), nn.CrossEntropyLoss()
    hook.register_module(model)
    hook.register_loss(criterion)
    train(model, 1, criterion=criterion)
    hook.close()

    trial = read(tmp_path / "t")
    assert trial.tensor_names(collection="losses") == ["CrossEntropyLoss_output_0"]
    gradients = trial.tensor_names(collection="gradients")
    assert gradients == trial.tensor_names(regex="^gradient")
    assert gradients
    assert not [name for name in gradients if name.endswith("bias")]


def test_saved_steps_follow_the_mode_steps(tmp_path):
    model, criterion = Net(), nn.CrossEntropyLoss()
    hook = Hook(tmp_path / "t", save_config=SaveConfig(save_interval=2))
    hook.register_module(model)
    hook.register_loss(criterion)
    for _ in range(2):
        for mode, count in ((ModeKeys.TRAIN, 3), (ModeKeys.EVAL, 2)):
            hook.set_mode(mode)
            for _ in range(count):
                inputs, targets = batch()
                criterion(model(inputs), targets)
    hook.close()

    trial = read(tmp_path / "t")
    assert trial.steps() == [0, 2, 3, 6, 8]
    assert [trial.mode_modestep(step) for step in trial.steps()] == [
        (ModeKeys.TRAIN, 0),
        (ModeKeys.TRAIN, 2),
        (ModeKeys.EVAL, 0),
        (ModeKeys.TRAIN, 4),
        (ModeKeys.EVAL, 2),
    ]
    assert hook.step == 9
    assert hook.mode_steps[ModeKeys.TRAIN] == 5
    assert hook.last_saved_step == 8


def gradient_of(layer: nn.Linear) -> Tensor:
    assert layer.weight.grad is not None
    return layer.weight.grad.clone()


def test_parameters_are_those_before_the_update_and_gradients_those_of_the_backward(tmp_path):
    model = Net()
    before: list[Tensor] = []
    gradients: list[Tensor] = []
    hook, criterion = watched(tmp_path / "t", model, include_collections=["weights", "gradients"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        before.append(model.out.weight.detach().clone())
        inputs, targets = batch()
        criterion(model(inputs), targets).backward()
        gradients.append(gradient_of(model.out))
        nn.utils.clip_grad_norm_(model.parameters(), 1e-6)
        optimizer.step()
    hook.close()

    trial = read(tmp_path / "t")
    for step in range(3):
        saved = trial.tensor("Net_out.weight").value(step)
        np.testing.assert_array_equal(saved, before[step].numpy())
        saved = trial.tensor("gradient/Net_out.weight").value(step)
        np.testing.assert_array_equal(saved, gradients[step].numpy())


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return (self.weight * x).sum()


@pytest.mark.parametrize(
    "config", [ReductionConfig(save_raw_tensor=True), ReductionConfig(["max"])]
)
@pytest.mark.parametrize(
    ("gradients_at", "expected"), [("backward", [1.0, 2.0]), ("optimizer", [None, 3.0])]
)
def test_accumulated_micro_batches_are_saved_in_the_chosen_sense(
    tmp_path, config, gradients_at, expected
):
    model = Scale()
    hook = Hook(
        tmp_path / "t",
        save_config=EVERY_STEP,
        include_collections=["gradients"],
        reduction_config=config,
        gradients_at=gradients_at,
    )
    hook.register_module(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for value in (1.0, 2.0):
        model(torch.full((3,), value)).backward()
    optimizer.step()
    hook.close()

    assert_no_failure(hook)
    tensor = read(tmp_path / "t").tensor("gradient/Scale_weight")
    steps = [step for step, value in enumerate(expected) if value is not None]
    assert tensor.steps() == steps
    for step in steps:
        assert tensor.reduction_value(step, "max") == expected[step]


def test_reductions_are_those_of_the_tensors(tmp_path):
    model = Net()
    hook, criterion = watched(
        tmp_path / "t",
        model,
        include_collections=["weights", "gradients"],
        reduction_config=FIVE,
    )
    inputs, targets = batch()
    criterion(model(inputs), targets).backward()
    hook.close()

    trial = read(tmp_path / "t")
    for name, tensor in (
        ("Net_sub.fc.weight", model.sub.fc.weight.detach()),
        ("gradient/Net_sub.fc.weight", gradient_of(model.sub.fc)),
    ):
        saved = trial.tensor(name)
        assert saved.reduction_value(0, "l2") == pytest.approx(tensor.norm().item())
        assert saved.reduction_value(0, "std") == pytest.approx(tensor.std().item())
        assert set(saved.reduction_values(0)) == {
            (column, False) for column in ("min", "max", "mean", "std", "l2")
        }
    assert trial.tensor("CrossEntropyLoss_output_0").value(0).shape == ()


def test_a_scalar_is_filed_at_the_step_and_mode_of_the_call(tmp_path):
    model = Net()
    hook, criterion = watched(tmp_path / "t", model, save_config=SaveConfig(save_interval=100))
    hook.set_mode(ModeKeys.TRAIN)
    train(model, 3, criterion=criterion, each=lambda step: hook.save_scalar("accuracy", step / 10))
    hook.set_mode(ModeKeys.EVAL)
    model(batch()[0])
    hook.save_scalar("accuracy", torch.tensor(0.9))
    hook.close()

    accuracy = read(tmp_path / "t").tensor("scalar/accuracy")
    assert accuracy.steps(ModeKeys.TRAIN) == [0, 1, 2]
    assert [accuracy.value(s, ModeKeys.TRAIN).item() for s in (0, 1, 2)] == [0.0, 0.1, 0.2]
    assert accuracy.value(0, ModeKeys.EVAL).item() == pytest.approx(0.9)


def test_a_tensor_of_the_scripts_own_goes_into_any_collection(tmp_path):
    model = Net()
    hook, criterion = watched(tmp_path / "t", model, save_config=SaveConfig(save_interval=2))
    train(
        model,
        3,
        criterion=criterion,
        each=lambda step: hook.save_tensor("mine", torch.full((2,), step), ["new", "other"]),
    )
    hook.close()

    trial = read(tmp_path / "t")
    assert trial.tensor("mine").steps() == [0, 2]
    assert trial.tensor_names(collection="new") == ["mine"]
    assert trial.tensor_names(collection="other") == ["mine"]


def test_a_functional_loss_is_recorded_under_its_name(tmp_path):
    model = Net()
    hook = Hook(tmp_path / "t", save_config=EVERY_STEP)
    hook.register_module(model)
    inputs, targets = batch()
    loss = nn.functional.cross_entropy(model(inputs), targets)
    hook.record_tensor_value("nll_loss", loss)
    hook.close()

    trial = read(tmp_path / "t")
    assert trial.tensor_names(collection="losses") == ["nll_loss_output_0"]
    assert float(trial.tensor("nll_loss_output_0").value(0)) == loss.item()


class Odd(nn.Module):
    """Dict and keyword values, a loss inside, a parameter not called weight, no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(2))
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        self.inner = Inner()
        self.criterion = nn.MSELoss()
        self.weight_net = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        parts = self.inner(x, scale=self.gamma)
        loss: Tensor = self.criterion(self.weight_net(parts["a"]), parts["b"])
        return loss


class Inner(nn.Module):
    def forward(self, x: Tensor, *, scale: Tensor) -> dict[str, Tensor]:
        return {"a": x * scale, "b": x}


def test_dicts_keywords_inner_losses_and_odd_parameters_are_seen(tmp_path):
    model = Odd()
    hook = Hook(tmp_path / "t", save_config=EVERY_STEP, save_all=True)
    hook.register_module(model)
    model(torch.ones(2)).backward()
    hook.close()

    trial = read(tmp_path / "t")
    names = trial.tensor_names()
    assert {"inner_input_0", "inner_input_1", "inner_output_0", "inner_output_1"} <= set(names)
    collections = trial.collections()
    assert collections["weights"].tensor_names == {"Odd_gamma", "Odd_frozen"}
    assert collections["gradients"].tensor_names == {"gradient/Odd_gamma"}
    assert "criterion_output_0" in collections["losses"].tensor_names


def test_a_collection_may_name_a_module(tmp_path):
    model = Net()
    hook, criterion = watched(tmp_path / "t", model, include_collections=["mine"])
    hook.get_collection("mine").add_module_tensors(model.sub, inputs=True)
    train(model, 1, criterion=criterion)
    hook.close()

    assert read(tmp_path / "t").tensor_names(collection="mine") == [
        "sub_input_0",
        "sub_output_0",
        "sub_output_1",
    ]


def test_configuration_comes_from_the_platforms_file(tmp_path, monkeypatch):
    path = tmp_path / "debughookconfig.json"
    path.write_text(
        json.dumps(
            {
                "LocalPath": str(tmp_path / "t"),
                "HookParameters": {"save_interval": "2"},
                "CollectionConfigurations": [
                    {"CollectionName": "gradients"},
                    {
                        "CollectionName": "relu",
                        "CollectionParameters": {"include_regex": "relu_output"},
                    },
                ],
            }
        )
    )
    monkeypatch.setenv("SMDEBUG_CONFIG_FILE_PATH", str(path))
    model = Net()
    hook = get_hook(create_if_not_exists=True)
    assert hook is not None
    hook.register_hook(model)
    train(model, 3)
    hook.close()

    trial = read(tmp_path / "t")
    assert trial.steps() == [0, 2]
    assert trial.tensor_names(collection="relu") == [
        "relu_output_0",
        "relu_output_1",
        "sub.relu_output_0",
    ]


def test_what_scripts_read_of_a_hook_is_there(tmp_path):
    model = Net()
    hook = Hook(tmp_path / "t", save_config=EVERY_STEP)
    assert (hook.step, hook.last_saved_step, hook.mode) == (-1, None, ModeKeys.GLOBAL)
    assert not hook.has_registered_module
    assert not hook.has_registered_loss_module
    assert hook.has_default_hook_configuration()
    criterion = nn.CrossEntropyLoss()
    hook.register_hook(model)
    hook.register_loss(criterion)
    hook.set_mode(ModeKeys.TRAIN)
    train(model, 2, criterion=criterion)
    assert hook.has_registered_module
    assert hook.has_registered_loss_module
    assert (hook.step, hook.mode, hook.worker) == (1, ModeKeys.TRAIN, "worker_0")
    assert hook.mode_steps == {ModeKeys.GLOBAL: -1, ModeKeys.TRAIN: 1}
    assert (hook.out_dir, hook.tensorboard_dir) == (str(tmp_path / "t"), None)
    assert hook.collection_manager.get_collections() is hook.get_collections()
    hook.close()
    assert hook.last_saved_step == 1


def test_what_frameworks_call_of_a_hook_does_nothing_and_fails_never(tmp_path):
    hook = Hook(tmp_path / "t", include_collections=["weights"])
    assert not hook.has_default_hook_configuration()
    assert not hook.should_save_dataloader_metrics("DataLoaderIter")
    hook.record_trace_events(1.0, "Forward", "conv1", phase="X", duration=0.1, layer=3)
    hook.export_collections()
    hook.close()

    assert_no_failure(hook)


def test_one_pattern_needs_no_list(tmp_path):
    model = Net()
    hook, criterion = watched(tmp_path / "t", model, include_regex="sub.relu_output")
    train(model, 1, criterion=criterion)
    hook.close()

    trial = read(tmp_path / "t")
    assert trial.tensor_names(collection="default") == ["sub.relu_output_0"]
    assert trial.tensor_names(regex="relu") == ["sub.relu_output_0"]


def test_the_singleton_is_a_thin_shell(tmp_path, monkeypatch):
    monkeypatch.setenv("SMDEBUG_CONFIG_FILE_PATH", str(tmp_path / "absent.json"))
    assert get_hook() is None
    assert get_hook(create_if_not_exists=True) is None
    with pytest.raises(FileNotFoundError):
        Hook.create_from_json_file()
    first = Hook(tmp_path / "a")
    assert get_hook() is first
    second = Hook(tmp_path / "b")
    assert get_hook() is second
    set_hook(first)
    second.close()
    assert get_hook() is first
    first.close()
    assert get_hook() is None


def test_use_smdebug_false_means_no_hook(tmp_path, monkeypatch):
    path = tmp_path / "hook.json"
    path.write_text(json.dumps({"LocalPath": str(tmp_path / "t")}))
    with monkeypatch.context() as off:
        off.setenv("USE_SMDEBUG", "false")
        assert get_hook(str(path), create_if_not_exists=True) is None
        hook = Hook(tmp_path / "t")
        assert get_hook() is None

    assert get_hook() is hook


def test_a_watched_model_is_copied_and_pickled_without_the_hook(tmp_path):
    model = Net()
    hook, criterion = watched(tmp_path / "t", model, save_all=True)
    train(model, 1, criterion=criterion)
    model.hook = hook  # type: ignore[assignment]
    twin = copy.deepcopy(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    twin(batch()[0])
    loaded(batch()[0])

    assert hook.step == 0
    assert twin.hook is None
    assert b"trackside" not in pickle.dumps(model).replace(b"trackside.tap", b"").replace(
        b"tests.capture", b""
    )


class TestBadInput:
    def test_no_out_dir(self):
        with pytest.raises(RuntimeError, match="out_dir is a required argument"):
            Hook()

    def test_a_finished_trial_in_out_dir(self, tmp_path):
        Hook(tmp_path / "t").close()
        with pytest.raises(SMDebugRuntimeError, match="finished trial"):
            Hook(tmp_path / "t")

    def test_something_that_is_no_module(self, tmp_path):
        hook = Hook(tmp_path / "t")
        with pytest.raises(SMDebugError, match="'net'"):
            hook.register_module("net")  # type: ignore[arg-type]
        with pytest.raises(AssertionError, match="record_tensor_value"):
            hook.register_loss(nn.ReLU())

    def test_registering_twice(self, tmp_path):
        hook, model = Hook(tmp_path / "t"), Net()
        hook.register_module(model)
        with pytest.raises(AssertionError, match="Net or a part of it"):
            hook.register_module(model)
        with pytest.raises(AssertionError, match="Sub or a part of it"):
            hook.register_module(model.sub)

    def test_an_unknown_mode(self, tmp_path):
        with pytest.raises(SMDebugValueError, match=r"'train'.*modes.TRAIN"):
            Hook(tmp_path / "t").set_mode("train")  # type: ignore[arg-type]

    def test_a_scalar_of_two_elements(self, tmp_path):
        with pytest.raises(SMDebugTypeError, match="2 elements"):
            Hook(tmp_path / "t").save_scalar("x", torch.ones(2))

    @pytest.mark.parametrize(
        "value", ["high", "0.5", b"1", None, [0.5], 1j, np.array("0.5"), np.array(None)], ids=repr
    )
    def test_a_scalar_that_is_no_number_is_not_saved_and_training_continues(self, tmp_path, value):
        model = Net()
        hook, criterion = watched(tmp_path / "t", model)
        train(model, 2, criterion=criterion, each=lambda step: hook.save_scalar("x", value))
        hook.save_scalar("y", 1)
        hook.close()

        (problem,) = json.loads((tmp_path / "t" / FAILURES).read_text())["errors"]
        assert (problem["kind"], problem["count"]) == ("SMDebugTypeError", 2)
        assert f"scalar/x was given {value!r}, which is not a number" in problem["message"]
        assert read(tmp_path / "t").tensor_names(regex="^scalar/") == ["scalar/y"]

    @pytest.mark.parametrize(
        "value",
        [
            Decimal("0.5"),
            Fraction(1, 2),
            np.float32(0.5),
            np.array([[0.5]]),
            torch.tensor([0.5], dtype=torch.bfloat16, requires_grad=True),
        ],
        ids=repr,
    )
    def test_every_number_is_a_scalar(self, tmp_path, value):
        hook = Hook(tmp_path / "t")
        hook.save_scalar("x", value)
        hook.close()

        assert read(tmp_path / "t").tensor("scalar/x").value(0).tolist() == [0.5]

    def test_wrong_collections_and_values(self, tmp_path):
        hook = Hook(tmp_path / "t")
        with pytest.raises(SMDebugTypeError):
            hook.add_collection("weights")  # type: ignore[arg-type]
        with pytest.raises(SMDebugTypeError):
            hook.record_tensor_value("x", 3.0)  # type: ignore[arg-type]

    def test_a_collection_without_a_pattern_is_reported_and_the_rest_is_saved(self, tmp_path):
        hook, criterion = watched(tmp_path / "t", Net(), include_collections=["mine", "weights"])
        train(next(iter(hook._stepper.models.values())).root, 1, criterion=criterion)
        hook.close()

        marker = json.loads((tmp_path / "t" / FAILURES).read_text())
        assert "'mine'" in marker["errors"][0]["message"]
        assert read(tmp_path / "t").tensor_names(collection="weights")

    def test_two_hooks_in_one_process(self, tmp_path):
        model = Net()
        hooks = [Hook(tmp_path / name, save_config=EVERY_STEP) for name in "ab"]
        for hook in hooks:
            hook.register_module(model)
            hook.get_collection("weights").save_config = EVERY_STEP
            hook.include_collections.append("weights")
        train(model, 2)
        for hook in hooks:
            hook.close()
            assert_no_failure(hook)
        assert read(tmp_path / "a").steps() == read(tmp_path / "b").steps() == [0, 1]

    def test_a_model_without_parameters(self, tmp_path):
        model = nn.Sequential(nn.ReLU())
        hook = Hook(tmp_path / "t", save_config=EVERY_STEP, save_all=True)
        hook.register_module(model)
        model(torch.ones(2))
        hook.close()

        assert_no_failure(hook)
        assert "0_output_0" in read(tmp_path / "t").tensor_names()

    @pytest.mark.parametrize("config", [ReductionConfig(save_raw_tensor=True), FIVE])
    @pytest.mark.parametrize(
        "value",
        [
            torch.ones(2, device="meta"),
            torch.ones(0, 3),
            torch.tensor(2.0),
            torch.ones(3, 3).to_sparse(),
            torch.ones(3, dtype=torch.complex64),
            torch.tensor([True, False]),
            torch.ones(3, dtype=torch.bfloat16),
            torch.ones(3).to(torch.float8_e5m2),
        ],
        ids=str,
    )
    @pytest.mark.filterwarnings("ignore")
    def test_odd_tensors_are_saved_as_far_as_they_go(self, tmp_path, config, value):
        model = nn.Identity()
        hook = Hook(tmp_path / "t", save_config=EVERY_STEP, save_all=True, reduction_config=config)
        hook.register_module(model)
        model(value)
        hook.close()

        assert_no_failure(hook)
        assert "Identity_output_0" in read(tmp_path / "t").tensor_names()

    def test_names_with_slashes_blanks_and_unicode(self, tmp_path):
        names = ["a/b/../c", "with blank", "größe-層", "x" * 300, "", "../../etc"]
        hook = Hook(tmp_path / "t", save_config=EVERY_STEP)
        for name in names:
            hook.save_tensor(name, torch.ones(2))
            hook.save_scalar(name, 1.0)
        hook.close()

        assert_no_failure(hook)
        saved = read(tmp_path / "t").tensor_names()
        assert set(names) | {f"scalar/{name}" for name in names} == set(saved)

    def test_a_defect_is_reported_once_and_training_continues(self, tmp_path, caplog):
        class Explosive(Tensor):
            @property
            def is_meta(self) -> bool:  # type: ignore[override]
                raise ZeroDivisionError("boom")

        hook = Hook(tmp_path / "t", save_config=EVERY_STEP, save_all=True, vitals="off")
        model = nn.Identity()
        hook.register_module(model)
        for _ in range(5):
            model(torch.ones(2).as_subclass(Explosive))
        hook.close()

        marker = json.loads((tmp_path / "t" / FAILURES).read_text())
        assert hook.failures.count == 5
        assert marker["errors"][0]["kind"] == "ZeroDivisionError"
        assert sum("boom" in record.message for record in caplog.records) == 1

    def test_an_out_dir_that_is_a_file(self, tmp_path):
        (tmp_path / "t").write_text("x")
        with pytest.raises(SMDebugRuntimeError, match=r"/t' is a file\. Name a folder"):
            Hook(tmp_path / "t")

    def test_an_out_dir_that_cannot_be_made_costs_the_data_and_nothing_else(self, tmp_path):
        (tmp_path / "file").write_text("x")
        model = Net()
        hook, criterion = watched(tmp_path / "file" / "t", model, save_all=True)
        losses = train(model, 3, criterion=criterion)
        hook.close()

        assert all(math.isfinite(loss) for loss in losses)
        assert hook.failures.count > 0

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"ring": -2}, r"ring=-2 .* 0 switches it off"),
            ({"vitals": "maybe"}, r"vitals='maybe' is not one of 'on', 'off', 'only'"),
            (
                {"gradients_at": "noon"},
                r"gradients_at='noon' is not one of 'backward', 'optimizer'",
            ),
            ({"include_regex": ["("]}, r"Pattern '\(' of collection 'default'"),
        ],
    )
    def test_an_argument_that_cannot_be_meant(self, tmp_path, arguments, message):
        with pytest.raises(SMDebugValueError, match=message):
            Hook(tmp_path / "t", **arguments)

    def test_one_collection_by_its_name_alone(self, tmp_path):
        hook = Hook(tmp_path / "t", include_collections="weights")
        assert hook.include_collections == ["weights", "losses"]

    @pytest.mark.parametrize("state", ['[{"training-run": 1}]', "[3]", '{"torn'])
    def test_a_damaged_state_beside_the_checkpoints_is_reported(self, tmp_path, monkeypatch, state):
        (tmp_path / "metadata.json").write_text(state)
        (tmp_path / "config").write_text(json.dumps({"LocalPath": str(tmp_path)}))
        monkeypatch.setenv("CHECKPOINT_CONFIG_FILE_PATH", str(tmp_path / "config"))
        hook = Hook(tmp_path / "t")

        assert hook.step == -1
        assert hook.failures.count == 1
        assert (
            "metadata.json"
            in json.loads((tmp_path / "t" / FAILURES).read_text())["errors"][0]["where"]
        )

    def test_an_unwritable_out_dir_costs_the_data_and_nothing_else(self, tmp_path):
        model = Net()
        hook, criterion = watched(tmp_path / "t", model, save_all=True)
        (tmp_path / "t" / "segments").rename(tmp_path / "gone") if (
            tmp_path / "t" / "segments"
        ).exists() else None
        (tmp_path / "t" / "segments").write_text("a file where a folder should be")
        losses = train(model, 3, criterion=criterion)
        hook.close()

        assert all(math.isfinite(loss) for loss in losses)
        assert hook.failures.count > 0


def test_a_second_process_leaves_the_writing_to_the_first(tmp_path, caplog):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "claim.smd").write_text("1")  # the init process is always alive
    hook = Hook(tmp_path / "t", save_config=EVERY_STEP, save_all=True)
    model = Net()
    hook.register_module(model)
    train(model, 2)
    hook.close()

    assert hook.step == 1
    assert "Another process writes" in caplog.text
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["claim.smd"]


def test_the_step_counters_resume_from_the_checkpoints(tmp_path, monkeypatch):
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    config = tmp_path / "checkpointconfig.json"
    config.write_text(json.dumps({"LocalPath": str(checkpoints)}))
    monkeypatch.setenv("CHECKPOINT_CONFIG_FILE_PATH", str(config))
    hook, model = Hook(tmp_path / "a", save_config=EVERY_STEP), Net()
    hook.register_module(model)
    hook.set_mode(ModeKeys.TRAIN)
    train(model, 3, each=lambda step: (checkpoints / f"{step}.pt").write_text("x"))
    hook.close()
    resumed = Hook(tmp_path / "b")

    assert resumed.step == 2
    assert resumed.mode_steps[ModeKeys.TRAIN] == 2


def test_the_step_counters_resume_where_no_step_was_saved_since(tmp_path, monkeypatch):
    (tmp_path / "config").write_text(json.dumps({"LocalPath": str(tmp_path / "checkpoints")}))
    monkeypatch.setenv("CHECKPOINT_CONFIG_FILE_PATH", str(tmp_path / "config"))
    (tmp_path / "checkpoints").mkdir()
    hook, model = Hook(tmp_path / "a"), Net()
    hook.register_module(model)
    train(model, 7)
    (tmp_path / "checkpoints" / "7.pt").write_text("x")
    hook.close()

    assert Hook(tmp_path / "b").step == 6


def test_the_metrics_file_gets_losses_and_chosen_scalars(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINING_JOB_NAME", "job")
    monkeypatch.setenv("SAGEMAKER_METRICS_DIRECTORY", str(tmp_path / "metrics"))
    model = Net()
    hook, criterion = watched(tmp_path / "t", model)
    hook.set_mode(ModeKeys.TRAIN)
    train(model, 2, criterion=criterion)
    hook.save_scalar("accuracy", 0.5, sm_metric=True)
    hook.save_scalar("other", 0.5)
    hook.close()

    (file,) = (tmp_path / "metrics").iterdir()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["MetricName"] for line in lines].count("CrossEntropyLoss_output_0_TRAIN") == 2
    assert {"scalar/accuracy_TRAIN"} == {
        line["MetricName"] for line in lines if "scalar" in line["MetricName"]
    }
    assert not (tmp_path / "t" / "training_job_end.ts").exists()


def test_save_all_covers_a_collection_added_by_the_script(tmp_path):
    model = Net()
    hook, criterion = watched(tmp_path / "t", model, include_collections=["all"])
    hook.add_collection(Collection("outs", include_regex=["^out_output"]))
    train(model, 1, criterion=criterion)
    hook.close()

    assert read(tmp_path / "t").tensor_names(collection="outs") == ["out_output_0"]


def test_a_save_config_of_one_mode_leaves_the_others_at_the_default(tmp_path):
    hook = Hook(tmp_path / "t", save_config={ModeKeys.EVAL: SaveConfigMode(save_interval=1)})

    assert not hook.save_config.should_save_step(ModeKeys.TRAIN, 1)
    assert hook.save_config.should_save_step(ModeKeys.EVAL, 1)
