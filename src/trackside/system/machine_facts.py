"""Facts of this machine that decide how a script runs: processor, memory, GPUs, system.

Read from files of the kernel: no program is started and no package imported.
"""

import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

_MOST_BYTES = 64 * 1024
_MODEL = re.compile(r"^(?:model name|Model|cpu model)\s*:\s*(?P<model>.+)$", re.MULTILINE)
_MEMORY = re.compile(r"^MemTotal:\s*(?P<kib>\d+) kB$", re.MULTILINE)
_GPU = re.compile(r"^Model:\s*(?P<model>.+)$", re.MULTILINE)
_DRIVER = re.compile(r"Kernel Module\s+(?:for \S+\s+)?(?P<version>\d[\d.]+)")
_SYSTEM = re.compile(r'^PRETTY_NAME="?(?P<name>[^"\n]+)', re.MULTILINE)


def machine_facts(root: Path = Path("/")) -> dict[str, str]:
    """By name; what cannot be found out is left out. `root` is for tests."""
    system = os.uname()
    facts = {
        "host": socket.gethostname(),
        "processor": _matched(_MODEL, root / "proc/cpuinfo", "model"),
        "cores": str(_num_cores()),
        "memory": _memory(root),
        "gpus": ", ".join(_counted(_gpus(root))),
        "driver": _matched(_DRIVER, root / "proc/driver/nvidia/version", "version"),
        "kernel": f"{system.sysname} {system.release}",
        "distribution": _matched(_SYSTEM, root / "etc/os-release", "name"),
        "architecture": system.machine,
        "python": sys.version.split()[0],
    }
    return {name: fact for name, fact in facts.items() if fact}


def _num_cores() -> int:
    """That this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory(root: Path) -> str:
    kib = _matched(_MEMORY, root / "proc/meminfo", "kib")
    return f"{int(kib) / 2**20:.1f} GiB" if kib else ""


def _gpus(root: Path) -> Iterator[str]:
    """By the drivers of NVIDIA and of AMD."""
    for folder in sorted(root.glob("proc/driver/nvidia/gpus/*")):
        yield _matched(_GPU, folder / "information", "model") or "NVIDIA GPU"
    for folder in sorted(root.glob("sys/class/kfd/kfd/topology/nodes/*")):
        if (_text(folder / "gpu_id").strip() or "0") != "0":
            yield _text(folder / "name").strip() or "AMD GPU"


def _counted(names: Iterator[str]) -> Iterator[str]:
    found = [*names]
    for name in dict.fromkeys(found):
        yield f"{found.count(name)} × {name}"


def _matched(pattern: re.Pattern[str], path: Path, group: str) -> str:
    found = pattern.search(_text(path))
    return found[group].strip() if found else ""


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
