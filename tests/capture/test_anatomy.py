"""Facts learnt of real trainings, read back as another process would."""

import json
import subprocess
import sys
from collections import UserDict
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import trackside.capture as tc
from tests.capture.networks import assert_no_failure
from trackside.capture.hook import Hook
from trackside.capture.reading.anatomy import AnatomyFile, parse_anatomy


class Tied(nn.Module):
    """A small language model: tied ends, a frozen part, dropout and batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.norm = nn.BatchNorm1d(8)
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        x = self.frozen(self.layer(self.embed(x)))
        return self.head(self.norm(x.transpose(1, 2)).transpose(1, 2))


def lm_loss(logits: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def tokens() -> tuple[Tensor, Tensor]:
    return torch.randint(0, 11, (4, 6)), torch.randint(0, 11, (4, 6))


def read(out_dir: Path) -> tc.Anatomy:
    anatomy = tc.read_anatomy(out_dir)
    assert anatomy is not None
    return anatomy


def test_a_healthy_training_is_described(tmp_path):
    model = Tied()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, weight_decay=0.02)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    with tc.watch(model, out_dir=tmp_path / "t") as hook:
        for _ in range(5):
            x, y = tokens()
            optimizer.zero_grad()
            lm_loss(model(x), y).backward()
            optimizer.step()
            scheduler.step()
        model.eval()
        with torch.no_grad():
            lm_loss(model(tokens()[0]), tokens()[1])
    assert_no_failure(hook)

    anatomy = read(tmp_path / "t")
    assert anatomy.models == ("Tied",)
    assert anatomy.holds_dropout
    assert anatomy.holds_batch_norm
    assert anatomy.num_forwards(training=True, grad=True) == 5
    assert anatomy.num_forwards(training=False, grad=False) == 1
    assert anatomy.num_backwards == anatomy.num_optimizer_steps == 5
    (described,) = anatomy.optimizers
    assert described.type == "AdamW"
    assert described.groups[0]["weight_decay"] == 0.02
    assert tuple(described.groups[0]["betas"]) == (0.9, 0.999)
    assert described.backwards_per_step == {"1": 4}  # the first is not known
    assert [each.name for each in anatomy.schedulers] == ["CosineAnnealingLR"]
    (loss,) = anatomy.losses
    assert (loss.num_classes, loss.shapes) == (11, ((24, 11), (24,)))
    assert (loss.label_min, loss.label_max) == (0, 10)
    assert anatomy.device == "cpu"
    assert {module.name: module.type for module in anatomy.modules}["norm"] == "BatchNorm1d"
    assert all(module.training for module in anatomy.modules)  # though it ended with evaluation
    by_name = {each.name: each for each in anatomy.parameters}
    assert by_name["Tied_head.weight"].tied_to == "Tied_embed.weight"
    assert not by_name["Tied_frozen.weight"].requires_grad
    assert not by_name["Tied_frozen.weight"].is_trained
    assert by_name["Tied_layer.linear1.weight"].is_trained
    assert by_name["Tied_layer.linear1.weight"].last_gradient_step == 4
    assert by_name["Tied_layer.linear1.weight"].shape == (16, 8)


def test_parameters_that_the_optimizer_lacks_are_named(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).sum().backward()
            optimizer.step()

    left_out = [p for p in read(tmp_path / "t").parameters if p.optimizer is None]
    assert [p.name for p in left_out] == ["Sequential_0.weight", "Sequential_0.bias"]
    assert all(p.ever_had_gradient and not p.is_trained for p in left_out)


def test_parameters_behind_a_detach_never_had_a_gradient(tmp_path):
    class Cut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.second(self.first(x).detach())
            return result

    model = Cut()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).sum().backward()
            optimizer.step()

    facts = {p.name: p.ever_had_gradient for p in read(tmp_path / "t").parameters}
    assert facts == {
        "Cut_first.weight": False,
        "Cut_first.bias": False,
        "Cut_second.weight": True,
        "Cut_second.bias": True,
    }
    missing = tc.create_trial(str(tmp_path / "t")).tensor("vitals/gradient_missing")
    assert missing.value(2)[0] == 2.0


def test_evaluation_in_training_mode_and_training_in_evaluation_mode_are_counted(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 2))
    with tc.watch(model, out_dir=tmp_path / "t"):
        model(torch.randn(8, 4)).sum().backward()
        with torch.no_grad():
            model(torch.randn(8, 4))
            model(torch.randn(8, 4))
        model.eval()
        model(torch.randn(8, 4)).sum().backward()

    anatomy = read(tmp_path / "t")
    assert anatomy.num_forwards(training=True, grad=False) == 2
    assert {(b.training, b.count) for b in anatomy.backwards} == {(True, 1), (False, 1)}


def test_a_frozen_base_in_evaluation_mode_is_not_what_is_trained_in_it(tmp_path):
    base, head = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), nn.Linear(4, 2)
    with tc.watch(base, out_dir=tmp_path / "t"):
        head(base(torch.randn(8, 4))).sum().backward()
        base.eval().requires_grad_(False)
        for _ in range(3):
            head(base(torch.randn(8, 4))).sum().backward()

    anatomy = read(tmp_path / "t")
    assert anatomy.num_forwards(training=False, grad=True) == 3
    assert [(b.training, b.count) for b in anatomy.backwards] == [(True, 4)]


def test_forwards_before_a_backward_are_counted_and_so_are_those_after_the_last(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.3), nn.Linear(4, 2))
    with tc.watch(model, out_dir=tmp_path / "t"):
        for count in (1, 1, 3):
            sum(model(torch.randn(8, 4)).sum() for _ in range(count)).backward()
        model(torch.randn(8, 4))
        with torch.no_grad():
            model(torch.randn(8, 4))

    anatomy = read(tmp_path / "t")
    assert anatomy.forwards_per_backward == {"1": 2, "3": 1}
    assert anatomy.forwards_since_backward == 1
    assert [module.dropped for module in anatomy.modules if module.type == "Dropout"] == [0.3]


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_target_that_broadcasts_is_a_fact(tmp_path):
    model = nn.Linear(4, 1)
    with tc.watch(model, out_dir=tmp_path / "t"):
        nn.MSELoss()(model(torch.randn(8, 4)), torch.randn(8)).backward()

    (loss,) = read(tmp_path / "t").losses
    assert loss.name == "MSELoss"
    assert loss.broadcasts
    assert loss.shapes == ((8, 1), (8,))


def test_it_is_there_while_the_training_runs_and_from_an_object_store(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKSIDE_HOME", str(tmp_path / "home"))
    hook = Hook("s3://bucket/run", vitals="on")
    model = nn.Linear(2, 2)
    hook.register_module(model)
    model(torch.ones(1, 2)).sum().backward()
    hook.close()

    anatomy = tc.read_anatomy("s3://bucket/run", "worker_0", home=tmp_path / "home")
    assert anatomy is not None
    assert anatomy.num_backwards == 1
    assert tc.read_anatomy("s3://bucket/run", "worker_7", home=tmp_path / "home") is None


def test_unknown_keys_are_left_out_and_missing_ones_have_defaults():
    anatomy, num_damaged = parse_anatomy(
        {"world_size": 4, "of_tomorrow": 1, "modules": [{"name": "a", "type": "B", "x": 1}]}
    )

    assert num_damaged == 0
    assert anatomy.world_size == 4
    assert anatomy.modules[0].name == "a"
    assert anatomy.parameters == ()


def test_a_damaged_fact_costs_itself():
    modules = [{"name": "a", "type": "B"}, {"name": "b"}, [1], {"name": "c", "type": 5}]
    anatomy, num_damaged = parse_anatomy(
        {"world_size": "4", "modules": modules, "losses": 3, "policy": [], "device": "cpu"}
    )
    assert [module.name for module in anatomy.modules] == ["a"]
    assert (anatomy.world_size, anatomy.losses, anatomy.device) == (1, (), "cpu")
    assert num_damaged == 6


@pytest.mark.parametrize("content", ["[1]", '{"world_size":', "[" * 100_000, '{"a": ' + "9" * 5000])
def test_a_damaged_file_is_none_and_logged_once(tmp_path, caplog, content: str):
    (tmp_path / "anatomy").mkdir()
    (tmp_path / "anatomy" / f"worker_{len(content)}.json").write_text(content)
    file = AnatomyFile(tmp_path)
    assert file.read() is None
    assert file.read() is None
    (message,) = caplog.messages
    assert f"worker_{len(content)}.json is damaged" in message


def test_who_reads_it_again_gets_the_same_until_it_changes(tmp_path):
    file = AnatomyFile(tmp_path)
    assert file.read() is None
    (tmp_path / "anatomy").mkdir()
    written = tmp_path / "anatomy" / "worker_0.json"
    written.write_text(json.dumps({"world_size": 2}))
    first = file.read()
    assert first is not None
    assert file.read() is first
    written.write_text(json.dumps({"world_size": 3}))
    again = file.read()
    assert again is not None
    assert again.world_size == 3


def test_reading_needs_no_torch(tmp_path):
    (tmp_path / "anatomy").mkdir()
    (tmp_path / "anatomy" / "worker_0.json").write_text(json.dumps({"world_size": 2}))
    code = f"""
import sys
from collections import UserDict
from trackside.capture.reading.anatomy import read_anatomy
assert read_anatomy({str(tmp_path)!r}).world_size == 2
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_loaders_are_known_by_their_data_and_how_often_they_began(tmp_path):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(torch.randn(40, 4), torch.randn(40, 2))
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for x, y in loader:
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()
        for _ in range(3):
            x, y = next(iter(loader))
            model(x)
    (known,) = read(tmp_path / "t").loaders
    assert (known.num_samples, known.batch_size, known.sampler) == (40, 8, "SequentialSampler")
    assert (known.num_passes, known.num_batches) == (4, 8)
    assert known.values_per_sample == 4
    assert known.wait_seconds > 0
    assert known.median_wait_seconds is not None


class Unreadable(UserDict[str, Any]):
    def __iter__(self) -> Any:
        raise RuntimeError("not yet")


@pytest.mark.parametrize(
    ("collate", "expected"),
    [
        (lambda rows: {"x": torch.stack(rows), "n": len(rows)}, 4),
        (lambda rows: torch.stack(rows, 1), None),
        (lambda rows: [row.tolist() for row in rows], None),
        (len, None),
        (lambda rows: Unreadable(), None),
    ],
    ids=["dict", "another axis first", "no tensor", "a number", "a class of one's own"],
)
def test_a_sample_of_a_loader_has_a_size_if_batches_are_tensors(collate, expected, tmp_path):
    model = nn.Linear(4, 2)
    data = torch.utils.data.TensorDataset(torch.randn(40, 4))
    loader = torch.utils.data.DataLoader(
        data, batch_size=8, collate_fn=lambda rows: collate([row for (row,) in rows])
    )
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in loader:
            model(torch.ones(3, 4)).sum().backward()
    (known,) = read(tmp_path / "t").loaders
    assert known.values_per_sample == expected


def test_what_batches_of_a_loader_are_used_for_is_counted(tmp_path):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(torch.randn(40, 4), torch.randn(40, 2))
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for x, y in loader:
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()
        model.eval()
        for x, _ in list(loader)[:3]:
            model(x)
        for x, _ in loader:
            with torch.no_grad():
                model(x)
    (known,) = read(tmp_path / "t").loaders
    assert (known.num_trained, known.num_evaluated) == (5, 6)


def test_models_of_one_class_that_share_a_step_are_distinguished(tmp_path):
    members = [nn.Sequential(nn.Linear(4, 2), nn.ReLU()) for _ in range(3)]
    hook = tc.Hook(out_dir=tmp_path / "t")
    for member in members:
        hook.register_module(member)
    x = torch.randn(8, 4)
    for _ in range(3):
        sum(member(x).sum() for member in members).backward()
    hook.close()
    modules = [each.name for each in read(tmp_path / "t").modules]
    assert modules == [
        *("Sequential", "0", "1"),
        *("Sequential2", "Sequential2.0", "Sequential2.1"),
        *("Sequential3", "Sequential3.0", "Sequential3.1"),
    ]


def test_an_optimizer_that_is_gone_by_the_end_is_still_described(tmp_path):
    model = nn.Linear(4, 2)

    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            F.mse_loss(model(torch.randn(8, 4)), torch.zeros(8, 2)).backward()
            optimizer.step()

    with tc.watch(model, out_dir=tmp_path / "t"):
        train()
    anatomy = read(tmp_path / "t")
    assert [(each.type, each.num_steps) for each in anatomy.optimizers] == [("SGD", 5)]
    assert all(each.optimizer == 0 for each in anatomy.parameters)


def test_the_ranges_of_predictions_and_targets_are_vitals_of_a_loss_over_amounts(tmp_path):
    model = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(3):
            optimizer.zero_grad()
            F.mse_loss(model(torch.randn(8, 4)), torch.full((8, 1), 30.0)).backward()
            optimizer.step()
    trial = tc.create_trial(tmp_path / "t")
    assert trial.tensor("vitals/target/max").value(0) == 30.0
    assert 0 < trial.tensor("vitals/loss_input/max").value(0) < 1


def test_gradients_that_are_cleared_unused_are_counted(tmp_path):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, out_dir=tmp_path / "t") as hook:
        for _ in range(6):
            for _ in range(4):
                optimizer.zero_grad()
                model(torch.randn(3, 4)).sum().backward()
            optimizer.step()
    assert_no_failure(hook)
    (described,) = read(tmp_path / "t").optimizers
    assert described.backwards_per_step == {"4": 5}  # the first is not known
    assert described.num_discarded == 15


def test_gradients_that_add_up_and_those_of_a_closure_are_used(tmp_path):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (model(torch.ones(3, 4)) - 1).square().mean()
        loss.backward()
        return loss

    adding = torch.optim.SGD(model.parameters(), lr=0.01)
    with tc.watch(model, out_dir=tmp_path / "t") as hook:
        for _ in range(5):
            optimizer.step(closure)
        for _ in range(5):
            adding.zero_grad()
            for _ in range(3):
                model(torch.randn(3, 4)).sum().backward()
            adding.step()
    assert_no_failure(hook)
    assert [each.num_discarded for each in read(tmp_path / "t").optimizers] == [0, 0]


def test_gradients_that_are_gathered_one_by_one_are_used(tmp_path):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, out_dir=tmp_path / "t") as hook:
        for _ in range(6):
            kept = [torch.zeros_like(p) for p in model.parameters()]
            for _ in range(4):
                optimizer.zero_grad()
                model(torch.randn(1, 4)).sum().backward()
                for total, parameter in zip(kept, model.parameters(), strict=True):
                    assert parameter.grad is not None
                    total += parameter.grad.clamp(-1, 1)
            for total, parameter in zip(kept, model.parameters(), strict=True):
                parameter.grad = total
            optimizer.step()
    assert_no_failure(hook)
    (described,) = read(tmp_path / "t").optimizers
    assert described.num_discarded == 0


def test_optimizers_made_for_the_same_parameters_are_counted(tmp_path):
    first, second = nn.Linear(4, 4), nn.Linear(4, 1)
    model = nn.Sequential(first, nn.ReLU(), second)
    with tc.watch(model, out_dir=tmp_path / "t") as hook:
        for step in range(6):
            turn = (first, second)[step % 2] if step >= 4 else model
            optimizer = torch.optim.Adam(turn.parameters())
            optimizer.zero_grad()
            model(torch.randn(3, 4)).sum().backward()
            optimizer.step()
    assert_no_failure(hook)
    assert read(tmp_path / "t").num_remade == 4


def test_how_the_loss_was_computed_is_described(tmp_path):
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            return torch.softmax(self.b(self.a(x)), dim=0)

    model = Net()
    with tc.watch(model, out_dir=tmp_path / "t") as hook:
        for _ in range(5):
            F.cross_entropy(model(torch.randn(6, 4)), torch.zeros(6).long()).backward()
    assert_no_failure(hook)
    anatomy = read(tmp_path / "t")
    (output,) = anatomy.outputs
    assert (output.loss, output.activation, output.axis) == ("cross_entropy", "softmax", 0)
    (pair,) = anatomy.pairs
    assert (pair.first, pair.second, pair.widths) == ("Net_a.weight", "Net_b.weight", (4, 8, 3))
    assert not anatomy.asks_for_others
    assert anatomy.broadcast is None
