"""Capture inside jobs: scripts written for smdebug, and scripts that know nothing of it."""

import json

import numpy as np
import pytest

from trackside import create_trial, modes
from trackside.records.layout import JobKeys
from trackside.records.status import Status

NET = """
import json
import torch
import torch.nn as nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3)
        self.conv2 = nn.Conv2d(4, 8, 3)
        self.fc1 = nn.Linear(32, 16)
        self.fc2 = nn.Linear(16, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.relu(self.conv2(x))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))

torch.manual_seed(0)
torch.set_num_threads(1)
model = Net()
criterion = nn.CrossEntropyLoss()
"""

TRAIN = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(30):
    x = torch.randn(16, 1, 10, 10)
    y = (x.mean((1, 2, 3)) * 40).long().clamp(0, 9)
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
total = sum(parameter.double().sum().item() for parameter in model.parameters())
print("WEIGHTS", json.dumps(total), flush=True)
"""

SMDEBUG = (
    "import smdebug.pytorch as smd\n"
    + NET
    + "hook = smd.Hook.create_from_json_file()\n"
    + "hook.register_hook(model)\nhook.register_loss(criterion)\n"
    + TRAIN
)

HOOK = {
    "S3OutputPath": "s3://bucket/debug",
    "HookParameters": {"save_interval": "10"},
    "CollectionConfigurations": [{"CollectionName": "gradients"}, {"CollectionName": "losses"}],
}

NAMES = [
    f"gradient/Net_{layer}.{kind}"
    for layer in ("conv1", "conv2", "fc1", "fc2")
    for kind in ("bias", "weight")
]


@pytest.fixture
def trial_of(machine):
    def find(job):
        where = JobKeys.of(job.spec).under(job.spec.debug_hook.uri, "debug-output")
        return create_trial(where, home=machine.settings.home)

    return find


@pytest.mark.parametrize("script", [SMDEBUG, NET + TRAIN], ids=["smdebug", "unchanged"])
def test_a_job_s_tensors_can_be_read_as_the_tutorial_does(machine, trial_of, script):
    job = machine.run(script, DebugHookConfig=HOOK)
    assert job.history().state.status is Status.COMPLETED, job.log()[-2000:]
    trial = trial_of(job)
    names = trial.tensor_names()
    assert [name for name in names if name.startswith("gradient/")] == NAMES
    assert trial.tensor_names(collection="losses") == [
        "CrossEntropyLoss_input_0",
        "CrossEntropyLoss_input_1",
        "CrossEntropyLoss_output_0",
    ]
    assert trial.steps() == [0, 10, 20]
    assert trial.loaded_all_steps
    gradient = trial.tensor("gradient/Net_fc2.weight").value(10)
    assert gradient.shape == (10, 16)
    assert np.isfinite(gradient).all()
    values = trial.tensor("gradient/Net_fc2.weight").values(mode=modes.GLOBAL)
    assert list(values) == [0, 10, 20]


@pytest.mark.nightly
def test_watching_does_not_change_what_is_learnt(machine):
    bare = machine.run(NET + TRAIN)
    watched = machine.run(NET + TRAIN, DebugHookConfig=HOOK)
    assert json.loads(bare.said("WEIGHTS")) == json.loads(watched.said("WEIGHTS"))
    assert "debug-output" not in str(bare.spec.to_request())


def test_a_default_hook_configuration_watches_nothing(machine):
    default = {"S3OutputPath": "s3://bucket/debug", "CollectionConfigurations": []}
    job = machine.run(NET + TRAIN, DebugHookConfig=default)
    assert job.history().state.status is Status.COMPLETED
    trial = machine.settings.layout.buckets / "bucket/debug" / job.name / "debug-output"
    assert [path.name for path in trial.iterdir()] == ["training_job_end.ts"]
