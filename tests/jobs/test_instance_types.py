"""What an instance type has."""

import pytest

from trackside.errors import InvalidSetting
from trackside.jobs.instance_types import is_possible, of_type
from trackside.jobs.machine_resources import MachineResources


@pytest.mark.parametrize(
    ("name", "room"),
    [
        ("local", MachineResources(1)),
        ("local_gpu", MachineResources(1, 0, 1)),
        ("ml.m5.large", MachineResources(2, 8)),
        ("ml.m5.24xlarge", MachineResources(96, 384)),
        ("ml.c5.2xlarge", MachineResources(8, 16)),
        ("ml.r5.xlarge", MachineResources(4, 32)),
        ("ml.g4dn.xlarge", MachineResources(4, 16, 1)),
        ("ml.g4dn.12xlarge", MachineResources(48, 192, 4)),
        ("ml.g5.48xlarge", MachineResources(192, 768, 8)),
        ("ml.p3.2xlarge", MachineResources(8, 61, 1)),
        ("ml.p3.16xlarge", MachineResources(64, 488, 8)),
        ("ml.p4d.24xlarge", MachineResources(96, 1152, 8)),
        ("ml.p5.48xlarge", MachineResources(192, 2048, 8)),
        ("ml.p6-b200.48xlarge", MachineResources(192, 2048, 8)),
        ("ml.p6e-gb200.36xlarge", MachineResources(144, 960, 4)),
        ("ml.nobody-knows", MachineResources(1)),
    ],
)
def test_an_instance_type_is_known_by_its_size(name: str, room: MachineResources):
    assert of_type(name) == room


def test_names_of_one_s_own_come_first(monkeypatch: pytest.MonkeyPatch):
    table = "small: cores=4, memory_gb=16; ml.p4d.24xlarge: cores=64,gpus=8; ml.ours: gpus=1;"
    monkeypatch.setenv("TRACKSIDE_INSTANCE_TYPES", table)
    assert of_type("small") == MachineResources(4, 16)
    assert of_type("ml.p4d.24xlarge") == MachineResources(64, 0, 8)
    assert of_type("ml.ours") == MachineResources(1, 0, 1)
    assert of_type("ml.m5.large") == MachineResources(2, 8)
    assert is_possible("ml.ours")
    assert not is_possible("ml.theirs")


@pytest.mark.parametrize("text", ["small", "small: cores", "small: cores=0", ": cores=1", "a:"])
def test_a_table_that_cannot_be_read_is_refused(text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRACKSIDE_INSTANCE_TYPES", text)
    with pytest.raises(InvalidSetting, match="TRACKSIDE_INSTANCE_TYPES = "):
        of_type("local")
