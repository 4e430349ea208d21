"""Made `smdebug_trial` and what smdebug 1.0.34 itself reads from it. Not run by the tests.

Needs: smdebug==1.0.34 "numpy<2" protobuf==3.20.3 torch==2.13.0 boto3 requests "pandas<2.2"
    python make_smdebug_trial.py smdebug_trial smdebug_trial_as_smdebug_reads_it.json
"""
# mypy: ignore-errors

import json
import sys

import torch
from smdebug.pytorch import Hook, ReductionConfig, SaveConfig, create_trial, modes
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 2, 3)
        self.relu = nn.ReLU()
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        return self.fc(self.relu(self.conv1(x)).flatten(1))


def make_hook(out_dir):
    hook = Hook(
        out_dir=out_dir,
        save_config=SaveConfig(save_interval=2),
        include_collections=["weights", "gradients", "biases", "reduced", "shapes"],
    )
    reduced = hook.get_collection("reduced")
    reduced.include("relu_output|gradient/Net_fc")
    reduced.reduction_config = ReductionConfig(
        reductions=["min", "max", "mean", "std", "variance"],
        abs_reductions=["mean"],
        norms=["l1", "l2"],
    )
    hook.get_collection("biases").reduction_config = ReductionConfig(
        reductions=["mean"], norms=["l2"], save_raw_tensor=True
    )
    hook.get_collection("shapes").include("conv1_output")
    hook.get_collection("shapes").reduction_config = ReductionConfig(save_shape=True)
    return hook


def train(hook):
    torch.manual_seed(0)
    net, criterion = Net(), nn.CrossEntropyLoss()
    hook.register_module(net)
    hook.register_loss(criterion)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        hook.set_mode(modes.TRAIN)
        for i in range(3):
            labels = torch.tensor([0, 2])
            optimizer.zero_grad()
            criterion(net(torch.randn(2, 1, 4, 4)), labels).backward()
            optimizer.step()
            hook.save_scalar("accuracy", 0.25 * i)
            hook.save_tensor("labels", labels)
        hook.set_mode(modes.EVAL)
        with torch.no_grad():
            for _ in range(2):
                criterion(net(torch.randn(2, 1, 4, 4)), torch.tensor([1, 1]))
    hook.close()


def described(trial):
    return {
        "steps": trial.steps(),
        "train": trial.steps(mode=modes.TRAIN),
        "eval": trial.steps(mode=modes.EVAL),
        "names": trial.tensor_names(),
        "workers": trial.workers(),
        "collections": {k: trial.tensor_names(collection=k) for k in trial.collections()},
        "tensors": {name: tensor_described(trial.tensor(name)) for name in trial.tensor_names()},
    }


def tensor_described(tensor):
    found = {"steps": tensor.steps(), "values": {}, "reductions": {}, "shape": {}}
    for step in tensor.steps():
        try:
            value = tensor.value(step)
            found["values"][step], found["dtype"] = value.tolist(), str(value.dtype)
        except Exception as error:  # noqa: BLE001 the kind of error is what is recorded
            found["values"][step] = type(error).__name__
        try:
            found["shape"][step] = list(tensor.shape(step))
        except Exception as error:  # noqa: BLE001
            found["shape"][step] = type(error).__name__
        stored = tensor.reduction_values(step)
        if stored:
            found["reductions"][step] = {
                f"{'abs_' if absolute else ''}{name}": float(value)
                for (name, absolute), value in stored.items()
            }
    return found


if __name__ == "__main__":
    train(make_hook(sys.argv[1]))
    with open(sys.argv[2], "w") as file:
        json.dump(described(create_trial(sys.argv[1])), file, indent=0)
