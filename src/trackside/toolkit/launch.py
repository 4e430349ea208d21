"""Chooses how the script is started: directly, by torchrun, or by mpirun."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from enum import Enum

from trackside.errors import ToolkitError
from trackside.toolkit import log, machine
from trackside.toolkit.entry_point import EntryPoint, Interpreter, Kind
from trackside.toolkit.environment import Environment, Job
from trackside.toolkit.process import StopSignals
from trackside.toolkit.script import execute

MASTER_PORT = "7777"


class Launcher(Enum):
    PLAIN = "plain"
    TORCHRUN = "torchrun"
    MPI = "MPI"


def choose(environment: Environment) -> Launcher:
    """The first one enabled, in the order of SageMaker's images."""
    enabled = environment.additional_framework_parameters
    if environment.current_instance_group not in environment.distribution_instance_groups:
        return Launcher.PLAIN
    if enabled.get("sagemaker_mpi_enabled"):
        return Launcher.MPI
    if enabled.get("sagemaker_pytorch_ddp_enabled"):
        log.info(
            "sagemaker_pytorch_ddp_enabled: AWS's launcher is not available, torchrun is used."
        )
        return Launcher.TORCHRUN
    if enabled.get("sagemaker_torch_distributed_enabled"):
        return Launcher.TORCHRUN
    for name in (
        "sagemaker_distributed_dataparallel_enabled",
        "sagemaker_pytorch_xla_multi_worker_enabled",
    ):
        if enabled.get(name):
            raise ToolkitError(
                f"{name} needs a library that exists on AWS only. "
                "Use torch.distributed: sagemaker_torch_distributed_enabled starts torchrun."
            )
    log.warning("This distribution has no launcher here: the script is started once on each host.")
    return Launcher.PLAIN


def run_script(
    job: Job,
    entry_point: EntryPoint,
    interpreter: Interpreter,
    variables: dict[str, str],
    signals: StopSignals,
    started: Callable[[], None],
) -> None:
    """Run it in the current folder to its end; raises CommandFailed for a code other than 0.
    `started` is called while it runs, unless mpirun starts it."""
    if entry_point.kind is Kind.GIVEN and "/" not in entry_point.name:
        found = machine.program(entry_point.name, variables)
        entry_point = entry_point._replace(name=found or entry_point.name)
    launcher = choose(job.environment)
    if launcher is not Launcher.PLAIN:
        _name_interface(job.environment, variables)
    if launcher is Launcher.MPI:
        from trackside.toolkit import mpi  # sockets and pipes to ssh: for MPI jobs only

        mpi.run_script(job, entry_point, interpreter, variables, signals)
        return
    make = torchrun_command if launcher is Launcher.TORCHRUN else _plain
    execute(
        job,
        make(job, entry_point, interpreter.python, job.arguments),
        make(job, entry_point, interpreter.python, job.shown_arguments),
        variables,
        signals,
        started=started,
    )


def torchrun_command(
    job: Job, entry_point: EntryPoint, python: str, arguments: Sequence[str]
) -> list[str]:
    hosts = job.environment.distribution_hosts
    program = {
        Kind.PROGRAM: [entry_point.name],
        Kind.PACKAGE: ["-m", entry_point.module],
        Kind.MODULE: ["-m", entry_point.module],
    }.get(entry_point.kind)
    if program is None:
        raise ToolkitError(
            f"torchrun starts Python files only, and the entry point is {entry_point.name!r}. "
            "Name a .py file, or start torchrun in the script yourself."
        )
    settings = job.settings
    where = []
    if len(hosts) > 1 or settings.master_port is not None:
        master = job.environment.master_hostname if len(hosts) > 1 else "127.0.0.1"
        where = [
            "--master_addr",
            settings.master_address or master,
            "--master_port",
            settings.master_port or MASTER_PORT,
            "--node_rank",
            str(hosts.index(job.environment.current_host)),
        ]
    return [
        *(python, "-m", "torch.distributed.run"),
        *("--nnodes", str(len(hosts))),
        *("--nproc_per_node", str(job.environment.processes_per_host)),
        *where,
        *program,
        *arguments,
    ]


def _plain(_job: Job, entry_point: EntryPoint, python: str, arguments: Sequence[str]) -> list[str]:
    return entry_point.command(python, arguments)


def _name_interface(environment: Environment, variables: dict[str, str]) -> None:
    name = environment.network_interface_name
    if os.path.exists(f"/sys/class/net/{name}"):
        variables.setdefault("NCCL_SOCKET_IFNAME", name)
