"""MPI jobs: the master host runs mpirun over all hosts, the others wait for its result.

Between machines mpirun and the result use ssh, as in SageMaker's images. If all hosts are processes
of one machine, all ranks are the master's children and no ssh is needed.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial

from trackside.errors import CommandFailed, ToolkitError
from trackside.toolkit import log, machine
from trackside.toolkit.entry_point import EntryPoint, Interpreter, Kind
from trackside.toolkit.environment import Job
from trackside.toolkit.install import interpreter_paths
from trackside.toolkit.mpi_outcome import OutcomeChannel, open_channel
from trackside.toolkit.overlay import packages_of
from trackside.toolkit.process import StopSignals
from trackside.toolkit.script import SCRIPT_ERROR, execute

_LAUNCHERS = frozenset({"mpirun", "mpirun.real", "orterun", "orted", "prterun", "prted"})
_NOT_RANKS = _LAUNCHERS | {"ssh"}
_EXPORTED = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "PYTHONUNBUFFERED"),
)


def run_script(
    job: Job,
    entry_point: EntryPoint,
    interpreter: Interpreter,
    variables: dict[str, str],
    signals: StopSignals,
) -> None:
    if len(job.environment.distribution_hosts) == 1:
        _run_mpirun(job, entry_point, interpreter, variables, signals)
        return
    with closing(open_channel(job)) as channel:
        if not job.environment.is_master:
            _wait_for_master(channel, job, signals)
            return
        with _reported_on(channel):
            _run_mpirun(job, entry_point, interpreter, variables, signals)


def _run_mpirun(
    job: Job,
    entry_point: EntryPoint,
    interpreter: Interpreter,
    variables: dict[str, str],
    signals: StopSignals,
) -> None:
    mpirun = machine.program("mpirun")
    if mpirun is None:
        raise ToolkitError("sagemaker_mpi_enabled needs mpirun, which is not on PATH.")

    def command(arguments: Sequence[str]) -> list[str]:
        start = _rank_command(entry_point, interpreter, arguments)
        return [mpirun, *_options(job, variables), *start]

    # Otherwise mpirun queries ten X servers on this machine for GPUs, display :6 at TensorBoard's
    # own port, and waits for a response that never comes.
    variables.setdefault("HWLOC_COMPONENTS", "-gl")
    # Ranks write to a terminal of mpirun's, line by line; unbuffered, each piece would be tagged.
    variables.pop("PYTHONUNBUFFERED", None)
    hidden = command(job.shown_arguments)
    deliver = partial(_signal_ranks, below=os.getpid())
    execute(job, command(job.arguments), hidden, variables, signals, deliver=deliver)


def _signal_ranks(number: int, *, below: int) -> None:
    """A stop signal for this host's ranks. mpirun itself would kill them one second later."""
    known = {process.pid: process for process in machine.processes()}
    for process in known.values():
        parent = known.get(process.parent)
        if parent is None or parent.name not in _LAUNCHERS or process.name in _NOT_RANKS:
            continue
        if _is_below(below, process, known):
            send = os.killpg if process.group == process.pid else os.kill
            with suppress(ProcessLookupError):
                send(process.pid, number)


def _is_below(root: int, process: machine.Process, known: Mapping[int, machine.Process]) -> bool:
    step: machine.Process | None = process
    while step is not None and step.pid != root:
        step = known.get(step.parent)
    return step is not None


def _options(job: Job, variables: dict[str, str]) -> list[str]:
    environment, parameters = job.environment, job.environment.additional_framework_parameters
    per_host = environment.processes_per_host
    names = environment.distribution_hosts
    total = int(str(parameters.get("sagemaker_mpi_num_processes") or per_host * len(names)))
    is_local = len(names) == 1 or job.settings.shares_machine
    custom, nccl_debug = _custom_options(parameters.get("sagemaker_mpi_custom_mpi_options"))
    where = f"localhost:{total}" if is_local else ",".join(f"{name}:{per_host}" for name in names)
    exported = [name for name in sorted(variables) if name.startswith("SM_") or name in _EXPORTED]
    return [
        *("--host", where, "-np", str(total)),
        *("--allow-run-as-root", "--tag-output", "--oversubscribe"),
        *("-bind-to", "none", "-map-by", "slot"),
        *_mca("pml", "ob1"),
        *_mca("btl", "^openib"),
        *_mca("btl_vader_single_copy_mechanism", "none"),
        *_mca("orte_abort_on_non_zero_status", "1"),
        *_network(environment.network_interface_name, is_local),
        *("-x", f"NCCL_DEBUG={nccl_debug}"),
        *custom,
        *[part for name in exported for part in ("-x", name)],
    ]


def _custom_options(given: object) -> tuple[list[str], str]:
    """The user's own options; `--NCCL_DEBUG LEVEL` among them is meant for NCCL."""
    options = shlex.split(str(given or ""))
    if "--NCCL_DEBUG" not in options:
        return options, "WARN"
    at = options.index("--NCCL_DEBUG")
    level = options[at + 1 : at + 2] or ["WARN"]
    return options[:at] + options[at + 2 :], level[0]


def _mca(name: str, value: str) -> list[str]:
    return ["-mca", name, value]


def _network(interface: str, is_local: bool) -> list[str]:
    if is_local:
        return _mca("btl_tcp_if_include", "lo") + _mca("oob_tcp_if_include", "lo")
    return [
        *_mca("plm_rsh_no_tree_spawn", "1"),
        *_mca("plm_rsh_args", "-o StrictHostKeyChecking=no -o BatchMode=yes"),
        *_mca("btl_tcp_if_include", interface),
        *_mca("oob_tcp_if_include", interface),
        *("-x", f"NCCL_SOCKET_IFNAME={interface}"),
    ]


def _rank_command(
    entry_point: EntryPoint, interpreter: Interpreter, arguments: Sequence[str]
) -> list[str]:
    python = interpreter.python
    if entry_point.kind.starts_programs or not _has_mpi4py(interpreter):
        return entry_point.command(python, arguments)
    # An exception in one rank then aborts all of them.
    if entry_point.kind in (Kind.PACKAGE, Kind.MODULE):
        return [python, "-m", "mpi4py", "-m", entry_point.module, *arguments]
    return [python, "-m", "mpi4py", entry_point.name, *arguments]


def _has_mpi4py(interpreter: Interpreter) -> bool:
    paths = interpreter_paths()
    if interpreter.overlay is not None:
        paths = [packages_of(interpreter.overlay), *paths]
    return any(os.path.isdir(os.path.join(path, "mpi4py")) for path in paths)


def _wait_for_master(channel: OutcomeChannel, job: Job, signals: StopSignals) -> None:
    # The master's ranks may need the whole grace period to save; this host's end must not cut it
    # short.
    if job.settings.shares_machine:
        signals.only_remember()
    else:  # sshd started our ranks, so only the container's first process is their ancestor
        signals.deliver_by(partial(_signal_ranks, below=1))
    master = job.environment.master_hostname
    log.info(f"{master} runs mpirun for all hosts; waiting for its outcome.")
    code = channel.receive()
    if code is None:
        raise ToolkitError(f"{master} ended without reporting the outcome of mpirun.")
    if code != 0:
        raise CommandFailed(
            SCRIPT_ERROR,
            code,
            sentence=f"mpirun failed on {master}, whose log has the message",
            command="mpirun",
        )


@contextmanager
def _reported_on(channel: OutcomeChannel) -> Iterator[None]:
    """The other hosts are notified however mpirun ends."""
    channel.prepare()
    code = 1
    try:
        yield
        code = 0
    except CommandFailed as failed:
        code = failed.exit_code
        raise
    finally:
        channel.report(code)
