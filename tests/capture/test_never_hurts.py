"""The same seed trained with and without the hook: in every mode and way, the same bits.

Ranks of DDP and FSDP are compared in test_torch_distributed.py, scripted models and `torch.func`
in test_torch_transforms.py, scripts that know nothing of the hook in test_autohook.py.
"""

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.capture.networks import Net, assert_no_failure, batch, read
from tests.capture.test_writer import point_at
from tests.small_disk import fill, small_disk
from tests.wait import until
from trackside.capture.hook import Hook
from trackside.capture.selection.reduction_config import ReductionConfig
from trackside.capture.selection.save_config import SaveConfig
from trackside.capture.writing.writer import SegmentWriter

EVERY_STEP = SaveConfig(save_interval=1)
FIVE = ReductionConfig(reductions=["min", "max", "mean", "std"], norms=["l2"])
NUM_STEPS = 6

MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "raw": {"include_collections": ["weights", "biases", "gradients"], "save_config": EVERY_STEP},
    "reductions": {
        "include_collections": ["weights", "gradients"],
        "reduction_config": FIVE,
        "save_config": EVERY_STEP,
    },
    "reductions and raw": {
        "save_all": True,
        "reduction_config": ReductionConfig(["max", "prod"], ["std"], save_raw_tensor=True),
        "save_config": EVERY_STEP,
    },
    "everything": {"save_all": True, "save_config": EVERY_STEP},
    "now and then": {"save_all": True, "save_config": SaveConfig(save_steps=[1, 4], end_step=0)},
    "tensorboard": {"save_all": True, "save_config": EVERY_STEP, "export_tensorboard": True},
    "ring": {"save_all": True, "save_config": EVERY_STEP, "ring": 3},
    "optimizer": {
        "include_collections": ["gradients"],
        "gradients_at": "optimizer",
        "save_config": EVERY_STEP,
    },
    "no vitals": {"save_all": True, "save_config": EVERY_STEP, "vitals": "off"},
    "only vitals": {"vitals": "only"},
    "dry run": {"save_all": True, "save_config": EVERY_STEP, "dry_run": True},
}

Step = Callable[[nn.Module, nn.Module, torch.optim.Optimizer], None]


def plain(model: nn.Module, criterion: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    inputs, targets = batch()
    optimizer.zero_grad()
    criterion(model(inputs), targets).backward()
    optimizer.step()


def accumulating(model: nn.Module, criterion: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    for _ in range(3):
        inputs, targets = batch()
        (criterion(model(inputs), targets) / 3).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()


def evaluating(model: nn.Module, criterion: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    plain(model, criterion, optimizer)
    model.eval()
    with torch.no_grad():
        model(batch()[0])
    model.train()


def wide(model: nn.Module, criterion: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """In float64, which the compiled reductions leave to torch."""
    inputs, targets = batch()
    optimizer.zero_grad()
    criterion(model.double()(inputs.double()), targets).backward()
    optimizer.step()


def scaling() -> Step:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def step(model: nn.Module, criterion: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        inputs, targets = batch()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    return step


def checkpointing(model: nn.Module, criterion: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    inputs, targets = batch()
    optimizer.zero_grad()
    output = checkpoint(model, inputs.requires_grad_(), use_reentrant=False)
    assert isinstance(output, Tensor)
    criterion(output, targets).backward()
    optimizer.step()


WAYS: dict[str, Callable[[], Step]] = {
    "plain": lambda: plain,
    "accumulation and clipping": lambda: accumulating,
    "evaluation between": lambda: evaluating,
    "float64": lambda: wide,
    "autocast and a scaler": scaling,
    "checkpointing": lambda: checkpointing,
}


def trained(step: Step, hook: Hook | None, compiles: bool = False) -> bytes:
    torch.manual_seed(3)
    model, criterion = Net(), nn.CrossEntropyLoss()
    model.sub.add_module("relu", nn.Dropout(0.5))  # draws random numbers
    called = torch.compile(model, backend="aot_eager") if compiles else model
    assert isinstance(called, nn.Module)
    if hook is not None:
        hook.register_module(called)
        hook.register_loss(criterion)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(NUM_STEPS):
        step(called, criterion, optimizer)
    state = [*model.parameters(), *model.buffers(), torch.get_rng_state()]
    return b"".join(tensor.detach().numpy().tobytes() for tensor in state)


def combinations() -> Iterator[Any]:
    """CI has time for each mode in one way, so that each way is tried by two modes, and for all
    ways with everything saved."""
    for (number, mode), (at, way) in product(enumerate(MODES), enumerate(WAYS)):
        is_for_ci = number % len(WAYS) == at or mode == "everything"
        marks = () if is_for_ci else pytest.mark.nightly
        yield pytest.param(mode, way, marks=marks)


@pytest.mark.parametrize(("mode", "way"), [*combinations()])
def test_training_is_bit_identical_with_and_without_the_hook(tmp_path, mode, way):
    hook = Hook(tmp_path / "t", **MODES[mode])
    watched = trained(WAYS[way](), hook)
    hook.close()

    assert_no_failure(hook)
    assert watched == trained(WAYS[way](), None)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, activation=nn.ReLU(), batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        output = self.head(self.encoder(tokens).mean(1))
        assert isinstance(output, Tensor)
        return output


@pytest.mark.parametrize("mode", ["default", "everything", "only vitals"])
def test_an_encoder_is_still_fused_in_evaluation(tmp_path, mode):
    """Its numbers would differ in the last digits: torch fuses no layer that has a hook."""
    hook, model = Hook(tmp_path / "t", **MODES[mode]), Encoder()
    hook.register_module(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens, targets = torch.randn(8, 5, 16), torch.zeros(8, dtype=torch.long)
    with torch.profiler.profile() as profile:
        for _ in range(3):
            model.train()
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(tokens), targets).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                model(tokens)
    hook.close()

    fused = [each for each in profile.key_averages() if "encoder_layer_fwd" in each.key]
    assert [each.count for each in fused] == [6]
    assert_no_failure(hook)


# Dynamo itself reads `.grad` of the tensors that pass a graph break.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
@pytest.mark.parametrize(
    "mode",
    [
        *("default", "now and then"),  # the second alone changes between the steps
        *(pytest.param(mode, marks=pytest.mark.nightly) for mode in ("reductions", "ring")),
        pytest.param("only vitals", marks=pytest.mark.nightly),
    ],
)
def test_a_compiled_training_is_bit_identical(tmp_path, mode):
    torch._dynamo.reset()
    hook = Hook(tmp_path / "t", **MODES[mode])
    watched = trained(plain, hook, compiles=True)
    hook.close()
    torch._dynamo.reset()

    assert_no_failure(hook)
    assert watched == trained(plain, None, compiles=True)
    torch._dynamo.reset()


def test_a_full_disk_costs_data_and_nothing_else(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        hook = Hook(disk / "t", save_all=True, save_config=EVERY_STEP, export_tensorboard=True)
        fill(disk)
        watched = trained(plain, hook)
        hook.close()

    assert hook.failures.count > 0
    assert watched == trained(plain, None)


def test_a_folder_that_cannot_be_written_costs_data_and_nothing_else(tmp_path):
    hook = Hook(tmp_path / "t", save_all=True, save_config=EVERY_STEP)
    segments: Path = tmp_path / "t" / "segments"
    if segments.exists():
        segments.rename(tmp_path / "gone")
    segments.write_text("a file where a folder should be")
    watched = trained(plain, hook)
    hook.close()

    assert hook.failures.count > 0
    assert watched == trained(plain, None)


def test_a_store_that_is_away_costs_nothing_but_disk(tmp_path, monkeypatch):
    point_at("http://127.0.0.1:9", monkeypatch)  # the discard port: nothing listens
    monkeypatch.setenv("TRACKSIDE_HOME", str(tmp_path))
    monkeypatch.setitem(SegmentWriter.close.__kwdefaults__, "timeout", 1.0)
    hook = Hook("s3://bucket/run", save_all=True, save_config=EVERY_STEP)
    watched = trained(plain, hook)
    hook.close()

    assert watched == trained(plain, None)
    assert until(lambda: [*tmp_path.glob("capture/*/segments/worker_0/*.safetensors")])


def test_nothing_is_on_the_modules_between_saved_steps(tmp_path):
    model, criterion = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    save_config = SaveConfig(save_steps=[3], end_step=0)
    hook = Hook(tmp_path / "t", save_all=True, save_config=save_config, vitals="off")
    hook.register_module(model)
    hook.register_loss(criterion)
    taps = []
    for _ in range(6):
        plain(model, criterion, optimizer)
        taps.append(sum(len(m._forward_hooks) for m in [*model.modules(), criterion]))
    hook.close()

    num_modules = len([*model.modules()]) + 1
    assert taps == [0, 0, 0, num_modules, 0, 0]
    assert read(tmp_path / "t").steps() == [3]
    assert "sub.fc_output_0" in read(tmp_path / "t").tensor_names(step=3)
