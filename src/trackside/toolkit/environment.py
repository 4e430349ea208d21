"""The job's configuration: <base>/input/config and the process environment, read once.

The toolkit's only reader of os.environ; variables.py makes the SM_* texts. Records are named
tuples: dataclasses would cost every job 6 ms of import time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trackside.errors import InvalidSetting, ToolkitError
from trackside.texts.secret_names import hide_in_arguments, looks_secret, secrets_in_arguments
from trackside.toolkit import machine
from trackside.toolkit.arguments import Split, decode, split, to_arguments, to_text
from trackside.toolkit.masking import mask_arguments, secret_values

DEFAULT_BASE = "/opt/ml"
DEFAULT_GROUP = "homogeneousCluster"
DEFAULT_HOST = "algo-1"
HOST_WAIT_SECONDS = 900.0
LOG_VARIABLE = "TRACKSIDE_LOG_FD"

_DISTRIBUTIONS = (
    "sagemaker_mpi_enabled",
    "sagemaker_torch_distributed_enabled",
    "sagemaker_pytorch_ddp_enabled",
    "sagemaker_distributed_dataparallel_enabled",
    "sagemaker_pytorch_xla_multi_worker_enabled",
    "sagemaker_parameter_server_enabled",
    "sagemaker_multi_worker_mirrored_strategy_enabled",
)
_LOG_LEVELS = {"DEBUG": 10, "INFO": 20, "WARN": 30, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}


class Settings(NamedTuple):
    """The part of the process environment that the toolkit reads."""

    base: str
    """SAGEMAKER_BASE_DIR, else /opt/ml. Every path of the job is below it."""
    program: str | None
    """SAGEMAKER_PROGRAM: the entry point; overrides the hyperparameter if not empty."""
    framework_module: str | None
    """SAGEMAKER_TRAINING_MODULE: `module:function` that replaces the toolkit."""
    job_name: str | None
    """TRAINING_JOB_NAME."""
    region: str
    """AWS_REGION, else SAGEMAKER_REGION, else AWS_DEFAULT_REGION."""
    s3_endpoint: str | None
    """S3_ENDPOINT_URL, else AWS_ENDPOINT_URL_S3, else AWS_ENDPOINT_URL."""
    is_studio_local: bool
    """SM_STUDIO_LOCAL_MODE: host names are not waited for."""
    keeps_baked_code: bool
    """TRACKSIDE_KEEP_BAKED_CODE: as on AWS, a code folder that is not empty beats the source."""
    has_source_in_place: bool
    """TRACKSIDE_SOURCE_IN_PLACE: the platform has put the source into the code folder."""
    is_watched: bool
    """TRACKSIDE_CAPTURE is `auto`: capture watches the script without a change to it."""
    argument_order: str
    """TRACKSIDE_ARGUMENT_ORDER: `sorted`, as on AWS, or `request`."""
    host_wait_seconds: float
    """TRACKSIDE_HOST_WAIT_SECONDS: how long the job's other hosts may take to appear."""
    overlays: str | None
    """TRACKSIDE_OVERLAYS: folder of environments for requirements; without it pip installs into
    the running interpreter."""
    hosts_folder: str | None
    """TRACKSIDE_HOSTS_FOLDER: shared by the job's hosts, each of which leaves a file there."""
    library: str | None
    """TRACKSIDE_LIBRARY: the folder that a container has this package in, where nothing else is."""
    exit_record: str | None
    """TRACKSIDE_EXIT_RECORD: the file to write the script's own exit code to."""
    shares_machine: bool
    """TRACKSIDE_HOSTS_SHARED_MACHINE: all hosts of the job are processes of this machine."""
    master_address: str | None
    """MASTER_ADDR, for torchrun."""
    master_port: str | None
    """MASTER_PORT, for torchrun."""
    visible_gpus: str | None
    """CUDA_VISIBLE_DEVICES."""
    model_parallel: str | None
    """SM_HP_MP_PARAMETERS."""
    pip_options: Mapping[str, str]
    """All PIP_ and UV_ variables: they affect what a requirements file means."""


class Environment(NamedTuple):
    """One job on one host. The fields are the keys of SM_TRAINING_ENV."""

    additional_framework_parameters: dict[str, object]
    channel_input_dirs: dict[str, str]
    current_host: str
    current_instance_group: str
    current_instance_group_hosts: list[str]
    current_instance_type: str
    distribution_hosts: list[str]
    distribution_instance_groups: list[str]
    framework_module: str | None
    hosts: list[str]
    hyperparameters: dict[str, object]
    input_config_dir: str
    input_data_config: dict[str, object]
    input_dir: str
    instance_groups: list[str]
    instance_groups_dict: dict[str, object]
    is_hetero: bool
    is_master: bool
    is_modelparallel_enabled: object
    is_smddpmprun_installed: bool
    is_smddprun_installed: bool
    job_name: str | None
    log_level: int
    master_hostname: str
    model_dir: str
    module_dir: str
    module_name: str
    network_interface_name: str
    num_cpus: int
    num_gpus: int
    num_neurons: int
    output_data_dir: str
    output_dir: str
    output_intermediate_dir: str
    resource_config: dict[str, object]
    topology: list[object]
    user_entry_point: str | None

    @property
    def processes_per_host(self) -> int:
        """For both torchrun and MPI, whatever the parameter's name."""
        requested = self.additional_framework_parameters.get(
            "sagemaker_mpi_num_of_processes_per_host"
        )
        if isinstance(requested, (int, float, str)) and requested:
            return int(requested)
        return self.num_gpus or self.num_neurons or 1


class Job(NamedTuple):
    """Everything known before anything is run."""

    settings: Settings
    environment: Environment
    module: str | None
    """Run instead of a script."""
    program: str | None
    """The first word of a command run instead of a script; the others are its arguments."""
    source: str | None
    """`sagemaker_submit_directory`, when the request names one."""
    s3_output: str | None
    """`sagemaker_s3_output`: where intermediate output goes if no platform uploads it."""
    arguments: list[str]
    """Those made from the hyperparameters, then those given verbatim."""
    shown_arguments: list[str]
    """The same without secrets."""
    secrets: list[str]
    """Values of arguments that must not be shown."""
    exports: dict[str, str]
    """Variables besides SM_*: SAGEMAKER_JOB_NAME, SAGEMAKER_REGION, CURRENT_HOST."""

    @property
    def code_dir(self) -> str:
        return code_dir(self.settings.base)


def base_folder() -> str:
    return os.environ.get("SAGEMAKER_BASE_DIR") or DEFAULT_BASE


def code_dir(base: str) -> str:
    return os.path.join(base, "code")


def read_settings() -> Settings:
    variables = os.environ
    return Settings(
        base=base_folder(),
        program=variables.get("SAGEMAKER_PROGRAM"),
        framework_module=variables.get("SAGEMAKER_TRAINING_MODULE"),
        job_name=variables.get("TRAINING_JOB_NAME"),
        region=_first(variables, "AWS_REGION", "SAGEMAKER_REGION", "AWS_DEFAULT_REGION") or "",
        s3_endpoint=_first(variables, "S3_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        is_studio_local=_is_on(variables, "SM_STUDIO_LOCAL_MODE"),
        keeps_baked_code=_is_on(variables, "TRACKSIDE_KEEP_BAKED_CODE"),
        has_source_in_place=_is_on(variables, "TRACKSIDE_SOURCE_IN_PLACE"),
        is_watched=variables.get("TRACKSIDE_CAPTURE") == "auto",
        argument_order=_choice(variables, "TRACKSIDE_ARGUMENT_ORDER", "sorted", "request"),
        host_wait_seconds=_seconds(variables, "TRACKSIDE_HOST_WAIT_SECONDS", HOST_WAIT_SECONDS),
        overlays=variables.get("TRACKSIDE_OVERLAYS") or None,
        hosts_folder=variables.get("TRACKSIDE_HOSTS_FOLDER") or None,
        library=variables.get("TRACKSIDE_LIBRARY") or None,
        exit_record=exit_record(),
        shares_machine=_is_on(variables, "TRACKSIDE_HOSTS_SHARED_MACHINE"),
        master_address=variables.get("MASTER_ADDR") or None,
        master_port=variables.get("MASTER_PORT") or None,
        visible_gpus=variables.get("CUDA_VISIBLE_DEVICES"),
        model_parallel=variables.get("SM_HP_MP_PARAMETERS"),
        pip_options={
            name: value for name, value in variables.items() if name.startswith(("PIP_", "UV_"))
        },
    )


def exit_record() -> str | None:
    return os.environ.get("TRACKSIDE_EXIT_RECORD") or None


def take_log() -> int | None:
    """TRACKSIDE_LOG_FD: the descriptor to read the log from, if the platform sets it. It is ours
    alone: no script inherits or sees it.
    """
    named = os.environ.pop(LOG_VARIABLE, "")
    try:
        descriptor = int(named)
        os.set_inheritable(descriptor, False)
    except (ValueError, OSError):
        return None
    return descriptor


def read_job(settings: Settings) -> Job:
    config = os.path.join(settings.base, "input", "config")
    parts = split(decode(_read_config(config, "hyperparameters.json")))
    ours = _read_config(config, "tracksideconfig.json")
    module, command = to_text(ours.get("Module")) or None, _texts(ours.get("Command"))
    program = command[0] if command else None
    if module or program:
        parts.own.setdefault("sagemaker_program", program or module)
    environment = _environment(
        settings,
        parts,
        _read_config(config, "inputdataconfig.json"),
        _read_config(config, "resourceconfig.json"),
    )
    own = parts.own
    source = own.get("sagemaker_submit_directory")
    paired = to_arguments(parts.user, sort=settings.argument_order == "sorted")
    given = _texts(ours.get("Arguments"))
    if command:  # as typed: hyperparameters are in its variables only
        paired, given = [], [*command[1:], *given]
    return Job(
        settings=settings,
        environment=environment,
        module=module,
        program=program,
        source=str(source) if source and not settings.has_source_in_place else None,
        s3_output=to_text(own.get("sagemaker_s3_output")) or None,
        arguments=[*paired, *given],
        shown_arguments=[*mask_arguments(paired), *hide_in_arguments(given)],
        secrets=[*secret_values(paired), *secrets_in_arguments(given)],
        exports={
            "SAGEMAKER_JOB_NAME": to_text(own.get("sagemaker_job_name")),
            "SAGEMAKER_REGION": to_text(own.get("sagemaker_region")) or settings.region,
            "CURRENT_HOST": environment.current_host,
        },
    )


def process_variables(additions: Mapping[str, str]) -> dict[str, str]:
    """Our own environment, with these as defaults."""
    return {**additions, **os.environ}


def script_variables(
    additions: Mapping[str, str],
    *,
    code: str,
    ahead: Sequence[str] = (),
    aliases: Sequence[str] = (),
    programs: Sequence[str] = (),
) -> dict[str, str]:
    """The script's complete environment: ours, the additions, and the code folder importable.

    `ahead` goes to the front of PYTHONPATH, `aliases` to its end, `programs` to the front of PATH.
    """
    variables = {**process_variables({"PYTHONUNBUFFERED": "1"}), **additions}
    variables.pop("TRACKSIDE_EXIT_RECORD", None)
    paths = [*ahead, code, variables.get("PYTHONPATH"), *aliases]
    variables["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    if programs:
        variables["PATH"] = os.pathsep.join([*programs, variables.get("PATH", os.defpath)])
        variables["VIRTUAL_ENV"] = os.path.dirname(programs[0])
    return variables


def export(variables: Mapping[str, str]) -> None:
    """Into our own process, for a framework's function that runs inside it."""
    os.environ.update(variables)


def secrets_of_process() -> list[str]:
    return [value for name, value in os.environ.items() if looks_secret(name)]


def _environment(
    settings: Settings, parts: Split, channels: dict[str, object], resources: dict[str, object]
) -> Environment:
    base, own = settings.base, parts.own
    hosts = _texts(resources.get("hosts")) or [DEFAULT_HOST]
    current_host = to_text(resources.get("current_host")) or hosts[0]
    groups = _groups(resources)
    group = to_text(resources.get("current_group_name")) or DEFAULT_GROUP
    distributed = _distributed_groups(parts.framework, group)
    distribution_hosts = [host for name in distributed for host in _group_hosts(groups, name)]
    if not groups:
        distribution_hosts = hosts
    master = (distribution_hosts or hosts)[0]
    instance_type = to_text(resources.get("current_instance_type")) or "local"
    source = own.get("sagemaker_submit_directory")
    named = to_text(own.get("sagemaker_program")) or None
    program = settings.program if settings.program is not None else str(named)
    return Environment(
        additional_framework_parameters=parts.framework,
        channel_input_dirs={name: os.path.join(base, "input", "data", name) for name in channels},
        current_host=current_host,
        current_instance_group=group,
        current_instance_group_hosts=_group_hosts(groups, group),
        current_instance_type=instance_type,
        distribution_hosts=distribution_hosts,
        distribution_instance_groups=distributed,
        framework_module=settings.framework_module,
        hosts=hosts,
        hyperparameters=parts.user,
        input_config_dir=os.path.join(base, "input", "config"),
        input_data_config=channels,
        input_dir=os.path.join(base, "input"),
        instance_groups=list(groups),
        instance_groups_dict=dict(groups),
        is_hetero=len(groups) > 1,
        is_master=current_host == master,
        is_modelparallel_enabled=settings.model_parallel and settings.model_parallel != "{}",
        is_smddpmprun_installed=machine.program("smddpmprun") is not None,
        is_smddprun_installed=machine.program("smddprun") is not None,
        job_name=settings.job_name,
        log_level=_log_level(own.get("sagemaker_container_log_level")),
        master_hostname=master,
        model_dir=os.path.join(base, "model"),
        module_dir=str(source) if source else code_dir(base),
        module_name=program[:-3] if program.endswith(".py") else program,
        network_interface_name=to_text(resources.get("network_interface_name")) or "eth0",
        num_cpus=machine.num_cpus(),
        num_gpus=machine.num_gpus(settings.visible_gpus),
        num_neurons=machine.num_neurons(instance_type),
        output_data_dir=os.path.join(base, "output", "data"),
        output_dir=os.path.join(base, "output"),
        output_intermediate_dir=os.path.join(base, "output", "intermediate"),
        resource_config=resources,
        topology=_list(resources.get("topology")),
        user_entry_point=settings.program or named,
    )


def _read_config(folder: str, name: str) -> dict[str, object]:
    """One of the platform's files; empty if it does not exist."""
    path = os.path.join(folder, name)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except FileNotFoundError:
        return {}
    except ValueError as wrong:
        raise ToolkitError(f"{path} is not JSON: {wrong}. The platform writes it.") from wrong
    if not isinstance(content, dict):
        raise ToolkitError(f"{path} holds {content!r:.80}. It has to be a JSON object.")
    return content


def _groups(resources: dict[str, object]) -> dict[str, dict[str, object]]:
    listed = [group for group in _list(resources.get("instance_groups")) if isinstance(group, dict)]
    return {to_text(group.get("instance_group_name")): group for group in listed}


def _group_hosts(groups: dict[str, dict[str, object]], name: str) -> list[str]:
    return _texts(groups.get(name, {}).get("hosts"))


def _distributed_groups(framework: dict[str, object], current: str) -> list[str]:
    named = framework.get("sagemaker_distribution_instance_groups")
    if named:
        return _texts(named)
    return [current] if any(framework.get(name) for name in _DISTRIBUTIONS) else []


def _log_level(given: object) -> int:
    if isinstance(given, str):
        return _LOG_LEVELS.get(given.strip().upper(), 20)
    return int(given) if isinstance(given, (int, float)) else 20


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    return [to_text(item) for item in _list(value)]


def _first(variables: Mapping[str, str], *names: str) -> str | None:
    return next((variables[name] for name in names if variables.get(name)), None)


def _is_on(variables: Mapping[str, str], name: str) -> bool:
    return variables.get(name, "").strip().lower() in ("1", "true", "yes", "on")


def _choice(variables: Mapping[str, str], name: str, *choices: str) -> str:
    value = variables.get(name) or choices[0]
    if value not in choices:
        raise InvalidSetting(f"{name} = {value!r}. It can be {' or '.join(choices)}.")
    return value


def _seconds(variables: Mapping[str, str], name: str, default: float) -> float:
    value = variables.get(name) or str(default)
    try:
        return float(value)
    except ValueError:
        raise InvalidSetting(f"{name} = {value!r}. It takes a number of seconds.") from None
