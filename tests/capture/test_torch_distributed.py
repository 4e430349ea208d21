"""Two real processes over gloo: replicated (DDP) and sharded (`fully_shard`, FSDP) training."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from tests.capture.networks import read

SCRIPT = """
import sys, torch, torch.distributed as dist
from torch import nn
from trackside.capture.hook import Hook
from trackside.capture.selection.reduction_config import ReductionConfig
from trackside.capture.selection.save_config import SaveConfig

how, out_dir, workers, literal = sys.argv[1:]

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4, bias=False)
        self.out = nn.Linear(4, 1, bias=False)

    def forward(self, x):
        return self.out(self.fc(x))

dist.init_process_group("gloo")
torch.manual_seed(0)
model = Net()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.fill_(1.0)
if how == "ddp":
    model = nn.parallel.DistributedDataParallel(model)
else:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
hook = Hook(
    out_dir,
    save_config=SaveConfig(save_interval=1),
    include_collections=["weights", "gradients"],
    include_regex=["output"],
    reduction_config=ReductionConfig(["max", "sum"], save_raw_tensor=True),
    include_workers=workers,
    literal_names=literal == "literal",
)
hook.register_module(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.full((1, 4), 1.0 + dist.get_rank())).sum().backward()
    optimizer.step()
hook.close()
assert hook.failures.count == 0, hook.failures._kinds
dist.destroy_process_group()
"""

FIRST_FSDP = """
import sys, torch, torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from trackside.capture.hook import Hook
from trackside.capture.selection.reduction_config import ReductionConfig
from trackside.capture.selection.save_config import SaveConfig

out_dir, original_parameters = sys.argv[1], sys.argv[2] == "original"

def trained(hook=None):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 2))
    model = FullyShardedDataParallel(
        net, use_orig_params=original_parameters, device_id=torch.device("cpu")
    )
    if hook is not None:
        hook.register_module(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.full((1, 4), 1.0 + step + dist.get_rank())).sum().backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]

dist.init_process_group("gloo")
hook = Hook(
    out_dir,
    save_config=SaveConfig(save_interval=1),
    save_all=True,
    reduction_config=ReductionConfig(["max", "sum"], save_raw_tensor=True),
    include_workers="all",
)
watched = trained(hook)
hook.close()
assert hook.failures.count == 0, hook.failures._kinds
assert all(map(torch.equal, watched, trained())), "the hook changed the training"
dist.destroy_process_group()
"""


IDENTICAL = """
import sys, torch, torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from trackside.capture.hook import Hook
from trackside.capture.selection.reduction_config import ReductionConfig
from trackside.capture.selection.save_config import SaveConfig

out_dir = sys.argv[1]

def trained(how, hook=None):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 2))
    if how == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    else:
        fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    if hook is not None:
        hook.register_module(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(4):
        optimizer.zero_grad()
        model(torch.full((1, 4), 1.0 + step + dist.get_rank())).sum().backward()
        optimizer.step()
    return [getattr(p, "_local_tensor", p).detach().clone() for p in model.parameters()]

dist.init_process_group("gloo")
for how in ("ddp", "fsdp2"):
    plain = trained(how)
    for mode, arguments in {
        "default": {},
        "raw": {"save_all": True, "save_config": SaveConfig(save_interval=1)},
        "reductions": {
            "save_all": True,
            "save_config": SaveConfig(save_interval=2),
            "reduction_config": ReductionConfig(["max", "sum"], norms=["l2"]),
        },
        "ring": {"save_all": True, "save_config": SaveConfig(save_interval=1), "ring": 2},
        "optimizer": {"include_collections": ["gradients"], "gradients_at": "optimizer"},
    }.items():
        hook = Hook(f"{out_dir}/{how}-{mode}", include_workers="all", **arguments)
        watched = trained(how, hook)
        hook.close()
        assert hook.failures.count == 0, hook.failures._kinds
        assert all(map(torch.equal, watched, plain)), f"{mode} changed the training by {how}"
dist.destroy_process_group()
"""


def launch(how: str, out_dir: Path, workers: str, names: str = "clean") -> None:
    run_twice(SCRIPT, how, str(out_dir), workers, names)


def run_twice(script: str, *arguments: str) -> None:
    """The ranks meet where this process listens, as torchrun's do: no port is chosen twice."""
    meeting = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with ExitStack() as stack:
        ranks = []
        for rank in range(2):
            environment = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(meeting.port),
                "TORCHELASTIC_USE_AGENT_STORE": "True",
                "TORCHELASTIC_RESTART_COUNT": "0",
                "OMP_NUM_THREADS": "1",
            }
            command = [sys.executable, "-c", script, *arguments]
            process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
            ranks.append(stack.enter_context(process))
            stack.callback(process.kill)
        for each in ranks:
            _, errors = each.communicate()
            assert each.returncode == 0, errors


pytestmark = [pytest.mark.timeout(400), pytest.mark.xdist_group("gloo")]


def test_ddp_saves_the_local_gradients_of_every_rank(tmp_path):
    launch("ddp", tmp_path / "t", "all")

    trial = read(tmp_path / "t")
    assert trial.workers() == ["worker_0", "worker_1"]
    gradient = trial.tensor("gradient/Net_out.weight")
    assert gradient.value(0, worker="worker_0").tolist() == [[4.0] * 4]
    assert gradient.value(0, worker="worker_1").tolist() == [[8.0] * 4]
    assert gradient.reduction_value(0, "max", worker="worker_1") == 8.0
    assert "fc_output_0" in trial.tensor_names()
    assert trial.steps() == [0, 1]


def test_one_worker_writes_for_all_and_names_may_be_literal(tmp_path):
    launch("ddp", tmp_path / "t", "one", "literal")

    trial = read(tmp_path / "t")
    assert trial.workers() == ["worker_0"]
    assert trial.num_workers == 1
    assert {
        "gradient/DistributedDataParallel_module.fc.weight",
        "DistributedDataParallel_module.fc.weight",
        "module.fc_output_0",
        "module_output_0",
        "DistributedDataParallel_output_0",
    } <= set(trial.tensor_names())


def test_sharded_models_save_the_shard_of_every_rank(tmp_path):
    launch("fsdp", tmp_path / "t", "all")

    trial = read(tmp_path / "t")
    names = trial.tensor_names()
    assert {"Net_fc.weight", "gradient/Net_fc.weight", "Net_output_0", "fc_output_0"} <= set(names)
    weight = trial.tensor("Net_fc.weight")
    shards = [weight.value(0, worker=f"worker_{rank}") for rank in range(2)]
    np.testing.assert_array_equal(np.concatenate(shards), np.ones((4, 4)))
    gradient = trial.tensor("gradient/Net_fc.weight")
    shards = [gradient.value(0, worker=f"worker_{rank}") for rank in range(2)]
    np.testing.assert_array_equal(np.concatenate(shards), np.full((4, 4), 1.5))
    assert gradient.reduction_value(0, "sum", worker="worker_0") == 12.0


def test_ddp_and_fsdp2_train_as_if_unwatched(tmp_path):
    run_twice(IDENTICAL, str(tmp_path))

    for how in ("ddp", "fsdp2"):
        assert read(tmp_path / f"{how}-raw").workers() == ["worker_0", "worker_1"]
        assert read(tmp_path / f"{how}-raw").steps() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("parameters", "weight"), [("original", "Sequential_0.weight"), ("flat", "_flat_param")]
)
def test_the_first_fsdp_trains_as_if_unwatched(tmp_path, parameters, weight):
    run_twice(FIRST_FSDP, str(tmp_path / "t"), parameters)

    trial = read(tmp_path / "t")
    assert trial.workers() == ["worker_0", "worker_1"]
    assert trial.steps() == [0, 1, 2]
    assert trial.tensor_names(regex=weight)
    gradients = [name for name in trial.tensor_names(regex="^gradient/") if weight in name]
    assert gradients
    for name in gradients:
        shards = [trial.tensor(name).value(2, worker=f"worker_{rank}") for rank in (0, 1)]
        assert sum(shard.size for shard in shards) >= 32  # the weight of the first layer
        assert any(shard.any() for shard in shards)
    assert "0_output_0" in trial.tensor_names()


def test_the_names_of_a_checkpoint_wrapper_are_seen_through(tmp_path):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    from trackside.capture.model.names import Names

    model = torch.nn.Sequential(checkpoint_wrapper(torch.nn.Linear(2, 2)))

    assert [name for name, _ in Names(model).parameters()] == [
        "Sequential_0.weight",
        "Sequential_0.bias",
    ]
    assert [name for name, _ in Names(model).modules()] == ["Sequential", "0"]
