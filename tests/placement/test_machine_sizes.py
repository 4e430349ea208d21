"""What the machines of an engine can never give, and what there is instead."""

from trackside.placement.machine_sizes import MachineSize, asked_of_each, never_fits
from trackside.placement.placement import HostRequest

SMALL = MachineSize(gpus=0, cores=4, memory_gb=15.5)
LARGE = MachineSize(gpus=8, cores=96, memory_gb=1100.0)
UNSAID = MachineSize(gpus=0, cores=4, memory_gb=0.0)
WHERE = "the partition 'gpu'"


def test_what_fits_is_no_problem():
    asked = MachineSize(gpus=8, cores=96, memory_gb=1036.8)
    assert never_fits(asked, 2, [LARGE, SMALL, LARGE], WHERE) == ""
    assert never_fits(MachineSize(0, 4, 64.0), 1, [UNSAID], WHERE) == "", "it is not counted there"


def test_what_never_fits_is_said_with_what_there_is():
    asked = MachineSize(gpus=8, cores=96, memory_gb=1036.8)
    assert never_fits(asked, 2, [LARGE, SMALL, SMALL], WHERE) == (
        "2 hosts are asked for, each with 96 cores, 1037 GB, 8 GPUs; the partition 'gpu' has 1 "
        "such machines of 3: 1 with 96 cores, 1100 GB, 8 GPUs; 2 with 4 cores, 15.5 GB; ask for "
        "less (--cores, --memory-gb, --gpus), or say in TRACKSIDE_INSTANCE_TYPES what the "
        "instance type has here"
    )
    text = never_fits(MachineSize(1, 1, 0.0), 1, [], WHERE)
    assert text.startswith("1 host is asked for, with 1 core, 1 GPU; ")
    assert "0 such machines of 0: none at all" in text


def test_many_sizes_are_not_all_listed():
    machines = [MachineSize(0, cores, 0.0) for cores in range(1, 11)]
    text = never_fits(MachineSize(0, 99, 0.0), 1, machines, WHERE)
    assert "1 with 10 cores" in text
    assert "and 6 smaller sizes" in text


def test_hosts_that_differ_get_the_most_that_one_of_them_asks_for():
    hosts = [
        HostRequest(name="algo-1", nonce="n", cores=8, memory_gb=4.0),
        HostRequest(name="algo-2", nonce="n", cores=2, memory_gb=64.0, gpus=1),
    ]
    assert asked_of_each(hosts) == MachineSize(gpus=1, cores=8, memory_gb=64.0)
