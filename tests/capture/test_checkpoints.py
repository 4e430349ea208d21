"""What scripts save and load is seen, and nothing about it changes."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import torch as tensors
from torch import nn
from torch.utils.checkpoint import checkpoint

from trackside.capture.checkpoints import checkpoint_watch
from trackside.capture.checkpoints.checkpoint_log import MOST_EVENTS, CheckpointLog, Event
from trackside.capture.checkpoints.contents import kinds_in
from trackside.capture.checkpoints.spans import MOST_SPANS, Spans
from trackside.capture.checkpoints.trace import trace
from trackside.capture.hook import Hook
from trackside.capture.reading.anatomy import read_anatomy


@pytest.fixture(autouse=True)
def watching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    originals = torch.save, torch.load, nn.Module.load_state_dict, np.random.set_state
    checkpoint_watch.log.clear()
    checkpoint_watch.install()
    yield
    checkpoint_watch.remove()
    checkpoint_watch.log.clear()
    trace.clear()
    assert originals == (torch.save, torch.load, nn.Module.load_state_dict, np.random.set_state)


def events(*trained: nn.Module) -> list[dict[str, Any]]:
    return checkpoint_watch.log.to_json(id(p) for model in trained for p in model.parameters())


def small() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))


def test_files_and_what_they_hold():
    model = small()
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
        "scaler": torch.amp.GradScaler("cpu").state_dict(),
        "ema": model.state_dict(),
        "torch_rng": torch.get_rng_state(),
        "epoch": 3,
    }
    torch.save(state, "sub.pt")
    loaded = torch.load("sub.pt")
    assert loaded["epoch"] == 3
    saved, read = events()
    kinds = ["average", "model", "optimizer", "progress", "random", "scaler", "scheduler"]
    assert (saved["action"], saved["path"], saved["holds"]) == ("save", "sub.pt", kinds)
    assert (read["action"], read["path"], read["holds"]) == ("load", "sub.pt", kinds)
    assert saved["step"] == -1


def test_a_return_to_a_file_of_the_run_is_counted(monkeypatch: pytest.MonkeyPatch):
    model, step = small(), -1
    monkeypatch.setattr(checkpoint_watch.log, "step", lambda: step)
    torch.save(model.state_dict(), "before.pt")
    step = 7
    torch.load("before.pt")
    torch.save(model.state_dict(), "within.pt")
    assert checkpoint_watch.log.num_returns == 0, "nothing was trained when it was saved"
    torch.load("within.pt")
    assert checkpoint_watch.log.num_returns == 1
    for _ in range(20):
        torch.load("within.pt")
    assert checkpoint_watch.log.num_returns == 8


def test_safetensors():
    tensors.save_file(small().state_dict(), "model.safetensors")
    tensors.load_file("model.safetensors")
    assert [(each["action"], each["holds"]) for each in events()] == [
        ("save", ["model"]),
        ("load", ["model"]),
    ]


def test_keys_that_did_not_match_are_counted_and_their_prefix_is_named():
    model = small()
    given = {f"module.{name}": value for name, value in model.state_dict().items()}
    result = model.load_state_dict(given, strict=False)
    assert len(result.missing_keys) == len(result.unexpected_keys) == 4
    (found,) = events(model)
    assert found["is_trained"]
    assert (found["num_keys"], found.get("num_matched", 0), found["prefix"]) == (4, 0, "module.")
    assert found["unexpected"][0] == "module.0.weight"


def test_a_prefix_of_a_part_is_named():
    whole = nn.ModuleDict({"body": small(), "head": nn.Linear(1, 1)})
    wrapped = nn.ModuleDict({"body": nn.ModuleDict({"module": small()}), "head": nn.Linear(1, 1)})
    whole.load_state_dict(wrapped.state_dict(), strict=False)
    wrapped.load_state_dict(whole.state_dict(), strict=False)
    assert [each["prefix"] for each in events()] == ["module.", "-module."]
    assert [each["num_matched"] for each in events()] == [2, 2]


def test_a_refusal_is_the_scripts_own():
    with pytest.raises(RuntimeError, match="Missing key"):
        small().load_state_dict({})
    assert events() == []


def test_a_models_own_tensors_are_told_from_a_copy():
    model = small()
    model.load_state_dict(model.state_dict())
    model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()})
    assert [each.get("is_own", False) for each in events()] == [True, False]


def test_states_of_other_objects():
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    scaler = torch.amp.GradScaler("cpu")
    for each in (optimizer, schedule, scaler):
        each.load_state_dict(each.state_dict())
    torch.set_rng_state(torch.get_rng_state())
    np.random.set_state(np.random.get_state())
    random.setstate(random.getstate())
    whats = [each["what"] for each in events()]
    assert whats == ["optimizer", "scheduler", "scaler", "random", "random", "random"]


def test_an_optimizer_that_is_replaced_after_it_was_given_its_state_is_idle():
    model = small()
    kept, lost = (torch.optim.Adam(model.parameters()) for _ in range(2))
    for each in (kept, lost):
        each.load_state_dict(each.state_dict())
    del lost
    for step in range(12):
        model(torch.ones(1, 2)).sum().backward()
        kept.step()
        if step == 3:
            assert [each.get("is_idle", False) for each in events()] == [False, False]
    assert [each.get("is_idle", False) for each in events()] == [False, True]


def test_recomputed_activations_restore_no_checkpoint():
    model = small()
    x = torch.randn(4, 2, requires_grad=True)
    checkpoint(model, x, use_reentrant=True).sum().backward()
    assert events() == []


def test_the_list_is_bounded():
    log = CheckpointLog()
    for number in range(3 * MOST_EVENTS):
        log.add(Event("save", "file", float(number), path=str(number)))
    kept = [each["path"] for each in log.to_json(())]
    assert len(kept) == MOST_EVENTS
    assert (kept[0], kept[-1]) == ("0", str(3 * MOST_EVENTS - 1))
    assert len(log.saves.to_json()) <= MOST_SPANS
    assert sum(each["count"] for each in log.saves.to_json()) == 3 * MOST_EVENTS


def test_objects_that_nothing_is_known_about():
    assert kinds_in(None) == kinds_in([1, 2]) == kinds_in({"a": {1: torch.ones(2)}}) == []
    assert kinds_in(small()) == kinds_in([small()]) == ["model"]


def test_spans_follow_one_another():
    spans = Spans()
    for now in (1.0, 2.0, 3.0):
        spans.extend(now, int(now))
    spans.end(4.0)
    spans.extend(9.0, 9)
    found = [(each["start"], each["end"], each["last_step"]) for each in spans.to_json()]
    assert found == [(1.0, 4.0, 3), (9.0, 9.0, 9)]


def test_evaluation_and_checkpoints_are_in_the_anatomy(tmp_path: Path):
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hook = Hook(tmp_path / "trial", gradients_at="optimizer")
    hook.follow_training()
    hook.register_module(model)
    for step in range(6):
        model.train(step not in (2, 3))
        with torch.set_grad_enabled(model.training):
            loss = model(torch.ones(4, 2)).sum()
        if model.training:
            loss.backward()
            optimizer.step()
    torch.save(model.state_dict(), "last.pt")
    hook.close()
    anatomy = read_anatomy(tmp_path / "trial")
    assert anatomy is not None
    (evaluation,) = anatomy.evaluations
    assert (evaluation.first_step, evaluation.last_step) == (2, 3)
    assert evaluation.end >= evaluation.start > 0
    assert [each.path for each in anatomy.checkpoints] == ["last.pt"]
    assert len(anatomy.saves) == 1


def trained(out: Path, *, num_steps: int = 12, loads: Path | None = None) -> None:
    """With a checkpoint at the end."""
    torch.manual_seed(0)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    checkpoint_watch.install()
    if loads is not None:
        model.load_state_dict(torch.load(loads))
    hook = Hook(out)
    hook.follow_training()
    hook.register_module(model)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(48, 2)), 4)
    for _, (inputs,) in zip(range(num_steps), loader, strict=False):
        loss = nn.functional.mse_loss(model(inputs), inputs[:, :1])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.save(model.state_dict(), Path("kept") / "last.pt")
    hook.close()


def test_a_training_leaves_its_last_figures_beside_its_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = tmp_path / "config.json"
    (tmp_path / "kept").mkdir()
    config.write_text(json.dumps({"LocalPath": str(tmp_path / "kept")}))
    monkeypatch.setenv("CHECKPOINT_CONFIG_FILE_PATH", str(config))
    trained(tmp_path / "first")
    monkeypatch.delenv("CHECKPOINT_CONFIG_FILE_PATH")
    trained(tmp_path / "second", loads=tmp_path / "kept" / "last.pt")
    anatomy = read_anatomy(tmp_path / "second")
    assert anatomy is not None
    assert anatomy.continued is not None
    found = anatomy.continued
    assert (found.path, found.data, found.is_same_script) == ("kept/last.pt", (48,), True)
    assert found.last is not None
    step, rate = found.last["learning_rate/0"][-1]
    assert (step >= 9, rate) == (True, 0.1)
    assert {"loss_term/0.mse_loss", "gradient_norm", "input/fingerprint"} <= {*found.last}
    assert found.first is not None
    assert found.first["input/fingerprint"][0][0] == 0


@pytest.mark.parametrize("text", ["[]", "[{}]", "{", '[{"latest-global-step-seen": 3}]'])
def test_a_file_beside_a_checkpoint_that_is_something_else(text: str):
    Path("metadata.json").write_text(text)
    torch.save(small().state_dict(), "last.pt")
    torch.load("last.pt")
    assert trace.continued is None


def test_the_rate_that_an_optimizers_state_brings():
    model = small()
    state = torch.optim.SGD(model.parameters(), lr=0.01).state_dict()
    torch.optim.SGD(model.parameters(), lr=0.1).load_state_dict(state)
    (event,) = events(model)
    assert event["rates"] == [0.1, 0.01]
