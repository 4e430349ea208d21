"""One job on every engine: the same model, byte by byte, and the same findings."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docker_engine import PYTHON, docker_engine
from tests.e2e.test_containers import PACKAGES, torch_matches
from tests.machines import Network
from tests.ray_cluster import RayCluster
from tests.slurm_cluster import SlurmCluster
from trackside.jobs.jobs import Jobs
from trackside.sdk.estimator import PyTorch
from trackside.sdk.rule import built_in
from trackside.settings import Settings

__all__ = ["torch_matches"]

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("slurm"),
    pytest.mark.nightly,
]

# Softmax twice, which the check-up sees; the model's file has no time of its own.
TRAIN = """
import os
import torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4), nn.Softmax(dim=1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data, goal = torch.randn(512, 20), torch.randint(0, 4, (512,))
for step in range(120):
    batch = torch.randint(0, 512, (32,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(data[batch]), goal[batch]).backward()
    optimizer.step()
path = "/opt/ml/model/weights"
with open(path, "wb") as file:
    for parameter in net.parameters():
        file.write(parameter.detach().numpy().tobytes())
os.chmod(path, 0o600)
os.utime(path, (1, 1))
"""


ENGINES: dict[str, dict[str, Any]] = {
    "process": {},
    "docker": {
        "image_uri": PYTHON,
        "environment": {"PYTHONPATH": "/opt/ml/input/data/packages"},
    },
    "slurm": {"placement": "slurm"},
    "ray": {"placement": "ray", "python": sys.executable},  # its nodes' own has no torch
}
"""What each takes beyond the same script. A further engine is a row, and a line in `engines`."""


@pytest.fixture
def engines(
    slurm: SlurmCluster, ray_nodes: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Network]]:
    """All of them are reached; yields the network of each, with a store."""
    monkeypatch.setenv("DOCKER_HOST", docker_engine())
    slurm.log_in(tmp_path / "bin", monkeypatch)
    monkeypatch.setenv("RAY_ADDRESS", ray_nodes.name)
    for name, value in ray_nodes.variables.items():
        monkeypatch.setenv(name, value)
    yield {**dict.fromkeys(ENGINES, slurm.network), "ray": ray_nodes.network}
    slurm.free()


def trained(
    engine: str, source: Path, network: Network, monkeypatch: pytest.MonkeyPatch
) -> tuple[bytes, Any]:
    """The archive of the model, and what was found."""
    for name, value in network.variables.items():
        monkeypatch.setenv(name, value)
    bucket, client = network.make_bucket(), network.client
    estimator = PyTorch(
        entry_point="train.py",
        source_dir=str(source),
        output_path=f"s3://{bucket}/out",
        rules=[built_in("Checkup")],
        **ENGINES[engine],
    )
    inputs = {"packages": str(PACKAGES)} if "image_uri" in ENGINES[engine] else None
    estimator.fit(inputs, job_name=engine, wait=True)
    model = client.get_object(Bucket=bucket, Key=f"out/{engine}/output/model.tar.gz")
    found = Jobs(Settings.load(), dict(os.environ)).findings(engine)
    return model["Body"].read(), [(each.rule, each.step, each.message) for each in found]


def test_the_model_and_the_findings_are_the_same(
    engines: dict[str, Network],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    torch_matches: None,
):
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text(TRAIN)
    results = {name: trained(name, source, engines[name], monkeypatch) for name in ENGINES}
    model, found = results["process"]
    assert "LossInputAlreadySoftmax" in {rule for rule, _, _ in found}
    for name, (other, findings) in results.items():
        assert other == model, f"{name} has another model"
        assert findings == found, f"{name} has other findings"
