"""The resources of this job: CPUs, accelerators, the cgroup's limits and records."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_CGROUPS = "/sys/fs/cgroup"


class Process(NamedTuple):
    pid: int
    parent: int
    group: int
    state: str
    """Z and X have ended."""
    name: str


def num_cpus() -> int:
    """The CPUs this job may use; all of the machine's if nothing limits it."""
    try:
        usable = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        usable = os.cpu_count() or 1
    return max(1, min([usable, *_quotas()]))


def num_gpus(visible: str | None) -> int:
    """GPUs as `nvidia-smi` lists them, at most those in `visible` (CUDA_VISIBLE_DEVICES)."""
    listing = _output_of("nvidia-smi", "--list-gpus")
    count = sum(line.startswith("GPU ") for line in listing.splitlines())
    if visible is None:
        return count
    return min(count, len([device for device in visible.split(",") if device.strip()]))


def num_neurons(instance_type: str) -> int:
    """Neuron cores as `neuron-ls` lists them; 0 without the tool, whatever the type is called."""
    listing = _output_of("neuron-ls", "-j")
    if not listing:
        return 0
    if "trn2.48xlarge" in instance_type:
        return 64
    import json

    try:
        return sum(int(device["nc_count"]) for device in json.loads(listing))
    except (ValueError, KeyError, TypeError):
        return 0


def program(name: str, variables: Mapping[str, str] | None = None) -> str | None:
    """The full path of a program on PATH, of these variables or our own."""
    for folder in os.get_exec_path(variables):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return None


def processes() -> Iterator[Process]:
    """Visible processes; none without /proc."""
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return
    for pid in pids:
        line = _read(f"/proc/{pid}/stat")
        name, closing, rest = line.partition("(")[2].rpartition(")")
        if closing:
            state, parent, group = rest.split()[:3]
            yield Process(int(pid), int(parent), int(group), state, name)


def num_oom_kills() -> int | None:
    """How many processes of this cgroup the OOM killer killed; None if unknown."""
    for folder in _cgroup_folders("memory"):
        for name in ("memory.events", "memory.oom_control"):
            for line in _read(os.path.join(folder, name)).splitlines():
                key, _, count = line.partition(" ")
                if key == "oom_kill":
                    return int(count)
    return None


def _quotas() -> list[int]:
    """CPUs granted by each cgroup above us, rounded up."""
    found = []
    for folder in _cgroup_folders("cpu"):
        quota, _, period = _read(os.path.join(folder, "cpu.max")).strip().partition(" ")
        if not quota:
            quota = _read(os.path.join(folder, "cpu.cfs_quota_us")).strip()
            period = _read(os.path.join(folder, "cpu.cfs_period_us")).strip()
        if quota.isdigit() and period.isdigit():
            found.append(-(-int(quota) // int(period)))
    return found


def _cgroup_folders(controller: str) -> list[str]:
    """Our cgroup's folder and those above it, nearest first, for either cgroup version."""
    for line in _read("/proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            root = os.path.join(_CGROUPS, controller)
        elif not names and os.path.exists(os.path.join(_CGROUPS, "cgroup.controllers")):
            root = _CGROUPS
        else:
            continue
        # Inside a container the path is often the host's; only what exists below the root counts.
        parts = [part for part in path.split("/") if part and part != ".."]
        folders = [os.path.join(root, *parts[:depth]) for depth in range(len(parts), -1, -1)]
        return [folder for folder in folders if os.path.isdir(folder)]
    return []


def _read(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _output_of(name: str, *arguments: str) -> str:
    path = program(name)
    if path is None:
        return ""
    # Imported only if the tool exists: without it the import would be the whole cost.
    import subprocess

    try:
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
