"""Lays out /opt/ml as in the contract: folders, and the JSON files below input/config."""

import json
from contextlib import suppress
from typing import Any

from trackside.files.json_record import DamagedRecord
from trackside.files.script_folder import ScriptFolder
from trackside.records import machine, script_packages
from trackside.records.layout import TENSORBOARD, HostFolder, JobKeys, curves_of, profile_of
from trackside.records.machine import Machine
from trackside.records.members import write
from trackside.records.spec import JobSpec, Profiler

_PROFILER_CONFIG = "profilerconfig.json"
_MOST_FAILURE_BYTES = 4096
_MOST_PACKAGES_BYTES = 1 << 20
_TOOLKIT_S = ("Arguments", "Module", "Command")
"""Options that the toolkit reads and that are not in the contract."""
INTERMEDIATE = "/opt/ml/output/intermediate"
GROUP = "homogeneousCluster"
"""The name of the one instance group of a job that has none of its own."""


def lay_out(folder: HostFolder, spec: JobSpec, host: str, interface: str) -> None:
    """Make the folders a script may expect and write the config files for this host."""
    for name in (
        "code",
        "input/config",
        "input/data",
        "model",
        "output/data",
        "output/intermediate",
        "output/metrics/sagemaker",
        "output/profiler",
    ):
        (folder.ml / name).mkdir(parents=True, exist_ok=True)
    for path in synced_folders(spec):
        folder.inside(path).mkdir(parents=True, exist_ok=True)
    config = folder.ml / "input" / "config"
    for name, content in config_files(spec, host, interface).items():
        (config / name).write_text(json.dumps(content))


def write_profiler_config(folder: HostFolder, profiler: Profiler) -> None:
    """Replace it, for a script that reads it again."""
    config = folder.script_folder(folder.ml / "input" / "config")
    config.write(_PROFILER_CONFIG, json.dumps(_profiler_config(profiler)).encode())


def synced_folders(spec: JobSpec) -> dict[str, str]:
    """Paths as the script sees them, and where their content is uploaded while the job runs."""
    keys = JobKeys.of(spec)
    folders = {} if spec.is_attached else {INTERMEDIATE: keys.intermediate}
    if spec.checkpoints:
        folders[spec.checkpoints.local_path.rstrip("/")] = spec.checkpoints.uri.rstrip("/")
    if spec.debug_hook:
        folders[spec.debug_hook.local_path.rstrip("/")] = keys.under(
            spec.debug_hook.uri, "debug-output"
        )
    if spec.tensorboard:
        folders[spec.tensorboard.local_path.rstrip("/")] = keys.under(
            spec.tensorboard.uri, "tensorboard-output"
        )
    if spec.profiler and (profile := profile_of(spec)):
        folders[spec.profiler.local_path.rstrip("/")] = profile
    folders.setdefault(TENSORBOARD, curves_of(spec))  # scripts write there by default
    return folders


def config_files(spec: JobSpec, host: str, interface: str) -> dict[str, Any]:
    request = spec.to_request()
    files: dict[str, Any] = {
        "hyperparameters.json": dict(spec.hyperparameters),
        "inputdataconfig.json": _input_data(spec, host),
        "resourceconfig.json": _resources(spec, host, interface),
        "metric-definition-regex.json": request.get("AlgorithmSpecification", {}).get(
            "MetricDefinitions", []
        ),
        "trainingjobconfig.json": request,
        "upstreamoutputdataconfig.json": [],
    }
    own = {name: request["Trackside"][name] for name in _TOOLKIT_S if name in request["Trackside"]}
    if own:
        files["tracksideconfig.json"] = own
    if spec.checkpoints:
        files["checkpointconfig.json"] = {"LocalPath": spec.checkpoints.local_path}
    if spec.debug_hook:
        hook = {"HookParameters": None, "CollectionConfigurations": None}
        files["debughookconfig.json"] = {**hook, **request["DebugHookConfig"]}
    if spec.tensorboard:
        where = JobKeys.of(spec).under(spec.tensorboard.uri, "tensorboard-output")
        files["tensorboardoutputconfig.json"] = {
            "S3OutputPath": where,
            "LocalPath": spec.tensorboard.local_path,
        }
    if spec.profiler:
        files[_PROFILER_CONFIG] = _profiler_config(spec.profiler)
    return files


def _profiler_config(profiler: Profiler) -> dict[str, Any]:
    return {"ProfilingParameters": {}, **write(profiler)}


def groups_of(spec: JobSpec) -> list[tuple[str, str, list[str]]]:
    """Name, instance type and hosts of each instance group."""
    if not spec.resources.groups:
        return [(GROUP, spec.resources.instance_type, list(spec.hosts))]
    hosts = list(spec.hosts)
    groups = []
    for group in spec.resources.groups:
        members, hosts = hosts[: group.count], hosts[group.count :]
        groups.append((group.name, group.instance_type, members))
    return groups


def _resources(spec: JobSpec, host: str, interface: str) -> dict[str, Any]:
    groups = groups_of(spec)
    name, instance_type, _ = next(group for group in groups if host in group[2])
    return {
        "current_host": host,
        "current_instance_type": instance_type,
        "current_group_name": name,
        "hosts": sorted(spec.hosts),
        "network_interface_name": interface,
        "instance_groups": [
            {"instance_group_name": name, "instance_type": kind, "hosts": hosts}
            for name, kind, hosts in groups
        ],
    }


def _input_data(spec: JobSpec, host: str) -> dict[str, Any]:
    group = next(name for name, _, hosts in groups_of(spec) if host in hosts)
    channels: dict[str, Any] = {}
    for channel in spec.inputs:
        if channel.instance_groups and group not in channel.instance_groups:
            continue
        channels[channel.name] = {
            "TrainingInputMode": channel.input_mode or spec.algorithm.input_mode,
            "S3DistributionType": channel.distribution,
            "RecordWrapperType": channel.record_wrapper,
        }
        if channel.content_type is not None:
            channels[channel.name]["ContentType"] = channel.content_type
    return channels


def keep_packages(folder: HostFolder, host: str) -> bool:
    """Store the toolkit's list of the script's packages with the job, if it can be read. Whether
    that was done."""
    with suppress(OSError, DamagedRecord):
        data = _toolkit_folder(folder).read(folder.packages.name, _MOST_PACKAGES_BYTES)
        script_packages.keep(folder.environment, host, data)
        return True
    return False


def keep_machine(folder: HostFolder, host: str) -> None:
    """Store the facts of this machine with the job."""
    from trackside.system.machine_facts import machine_facts  # once the script runs

    path = folder.machine(host)
    if not path.exists():
        machine.write(path, Machine(machine_facts()))


def _toolkit_folder(folder: HostFolder) -> ScriptFolder:
    is_apart = folder.private.is_dir()
    return folder.script_folder(folder.private if is_apart else folder.root)


def exit_record(folder: HostFolder) -> dict[str, int]:
    """The script's own `exit_code` or `signal`, if the toolkit recorded them."""
    place = _toolkit_folder(folder)
    try:
        found = json.loads(place.read(folder.exit_record.name, _MOST_FAILURE_BYTES))
        wanted = ("exit_code", "signal")
        return {name: int(found[name]) for name in wanted if found.get(name) is not None}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def failure_text(folder: HostFolder) -> str:
    """The reason of a failure, written by the script or the toolkit; '' without one."""
    output = folder.script_folder(folder.ml / "output")
    try:
        return output.read("failure", _MOST_FAILURE_BYTES).decode(errors="replace")
    except OSError:
        return ""
