"""Facts of a machine, from the files of its kernel."""

import os
import socket
from pathlib import Path

from trackside.system.machine_facts import machine_facts

INFORMATION = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 211\n"
DRIVER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"


def test_this_machine_has_them():
    facts = machine_facts()
    assert facts["host"] == socket.gethostname()
    assert facts["kernel"] == f"Linux {os.uname().release}"
    assert int(facts["cores"]) >= 1
    assert facts["memory"].endswith(" GiB")


def write(root: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def test_processor_memory_gpus_and_system_are_named(tmp_path: Path):
    write(
        tmp_path,
        {
            "proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 7763 64-Core Processor\n",
            "proc/meminfo": "MemTotal:       65843200 kB\nMemFree: 1 kB\n",
            "proc/driver/nvidia/gpus/0000:01:00.0/information": INFORMATION,
            "proc/driver/nvidia/gpus/0000:02:00.0/information": INFORMATION,
            "proc/driver/nvidia/version": DRIVER,
            "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
            "sys/class/kfd/kfd/topology/nodes/0/gpu_id": "0\n",
            "sys/class/kfd/kfd/topology/nodes/1/gpu_id": "5312\n",
            "sys/class/kfd/kfd/topology/nodes/1/name": "gfx942\n",
        },
    )
    facts = machine_facts(tmp_path)
    assert facts["processor"] == "AMD EPYC 7763 64-Core Processor"
    assert facts["memory"] == "62.8 GiB"
    assert facts["gpus"] == "2 × NVIDIA H100 80GB HBM3, 1 × gfx942"
    assert facts["driver"] == "550.54.15"
    assert facts["distribution"] == "Debian GNU/Linux 12 (bookworm)"


def test_what_is_not_there_or_is_no_text_is_left_out(tmp_path: Path):
    write(tmp_path, {"proc/cpuinfo": b"\xff\xfe", "etc/os-release": ""})
    (tmp_path / "proc/driver/nvidia/gpus/1").mkdir(parents=True)
    facts = machine_facts(tmp_path)
    assert facts["gpus"] == "1 × NVIDIA GPU"
    assert {"processor", "memory", "driver", "distribution"}.isdisjoint(facts)
