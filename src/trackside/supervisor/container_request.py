"""The Docker engine's create request for a sandbox's plan. Pure."""

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from trackside.containers.job_containers import MARK_LABEL
from trackside.quick_dataclass import dataclass
from trackside.supervisor.sandbox import SandboxPlan

OUTPUT, LOG = "/run/trackside/output", "/run/trackside/log"
"""The paths in a container of the pipe it writes to, and of the resulting log."""
CAPABILITIES = (
    "CHOWN",
    "DAC_OVERRIDE",  # channels keep their owners
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",  # with the next two, sshd between the hosts of an MPI job
    "SETUID",
    "SYS_CHROOT",
)
"""What root keeps; another user has none."""
HOST_NAME = "host.docker.internal"
"""This machine, in a container that has a network."""
OF_ENGINE, OF_NETWORK = "host-gateway", "network"
"""Its address there: the one that the engine knows, or the gateway of the job's own network."""
ENGINES_NETWORKS = ("bridge", "default", "host", "none")
_ALL_GPUS = ("all",)
_GROUP_SIGNALS = "TINI_KILL_PROCESS_GROUP"
"""Makes the engine's init pass signals to the whole process group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlan:
    """What a container has beyond any sandbox."""

    image: str
    entrypoint: Sequence[str] = ()
    """With `arguments`, as in a training job's AlgorithmSpecification; not used when the sandbox's
    plan has a command."""
    arguments: Sequence[str] = ()
    fallback: Sequence[str] = ()
    """Runs instead of a missing `train` in an image that names its script by SAGEMAKER_PROGRAM."""
    prelude: str = ""
    """Lines for the container's shell, before the command."""
    job: str = ""
    """Its name in lists of containers."""
    engine: str
    """The engine's address, unix://…"""
    cores: float | None = None
    memory_bytes: int | None = None
    shared_memory_bytes: int | None = None
    gpus: Sequence[str] = ()
    """Numbers or names as the driver has them, or `all`."""
    user: str = ""
    """UID:GID, or a name in the image; empty: the image's default. `SandboxPlan.user` wins."""
    network: str = ""
    """Created if missing, removed after the last host; or one that every engine has, including
    `none`. Empty: the engine's default.
    """
    is_internal: bool = False
    """Such a network leads nowhere else."""
    network_lock: str = ""
    """A file that all hosts of the network lock while they create it."""
    aliases: Sequence[str] = ()
    """The name by which others on the network reach this host."""
    host_address: str = ""
    """What `HOST_NAME` resolves to: `OF_ENGINE` or `OF_NETWORK`. Empty: nothing."""
    has_read_only_root: bool = False
    brings_code: bool = False
    """The image has the script below /opt/ml/code, as by COPY in its Dockerfile: so the folders of
    `ml` are mounted one by one, instead of hiding it with a single mount.
    """


def own_network(container: ContainerPlan) -> str:
    """The network that we create and remove; empty if there is none."""
    return "" if container.network in ENGINES_NETWORKS else container.network


def labels(plan: SandboxPlan, container: ContainerPlan, mark: str) -> dict[str, str]:
    return {"trackside.job": container.job, "trackside.host": plan.host, MARK_LABEL: mark}


def container_request(
    plan: SandboxPlan, container: ContainerPlan, mark: str, pipe: str
) -> dict[str, Any]:
    """`pipe` receives the container's output, on this machine."""
    user = _user(plan, container)
    return {
        "Image": container.image,
        "Entrypoint": ["/bin/sh", "-c", _shell_script(plan, container), "sh"],
        "Cmd": _command(plan, container),
        "Env": [*_variables(plan.environment), f"{_GROUP_SIGNALS}=1"],
        "User": user,
        "Hostname": plan.host,
        "Labels": labels(plan, container, mark),
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            "Init": True,
            "LogConfig": {"Type": "none"},
            "Mounts": _mounts(plan, container, pipe),
            "SecurityOpt": ["no-new-privileges"],
            "CapDrop": ["ALL"],
            "CapAdd": list(CAPABILITIES) if user.split(":")[0] in ("", "0", "root") else [],
            "GroupAdd": [str(gid) for gid in plan.user.groups] if plan.user else [],
            "ReadonlyRootfs": container.has_read_only_root,
            "Tmpfs": {"/run": "", "/tmp": ""} if container.has_read_only_root else {},
            **_limits(container),
            **_network(plan, container),
        },
        "NetworkingConfig": _endpoints(container),
    }


def follows_entrypoint(plan: SandboxPlan, container: ContainerPlan) -> bool:
    """Whether the image's own entry point comes before `Cmd`."""
    return not plan.command and not container.entrypoint


def _command(plan: SandboxPlan, container: ContainerPlan) -> list[str]:
    """As in SageMaker: if an entry point is given, the image's own and the argument `train` are
    both dropped.
    """
    if plan.command:
        return list(plan.command)
    if container.entrypoint:
        return [*container.entrypoint, *container.arguments]
    return list(container.arguments or ("train",))


def _shell_script(plan: SandboxPlan, container: ContainerPlan) -> str:
    """Redirects the output to our pipe, then becomes the command.

    The pipe is opened for reading too: so a writer blocks while it is not read, and is never killed
    by SIGPIPE.
    """
    lines = [f"unset {_GROUP_SIGNALS}", f"exec </dev/null 1<>{OUTPUT} 2>&1"]
    if plan.log_variable:
        # Not readable for every user of an image; the command can do without it.
        lines.append(f"if [ -r {LOG} ]; then exec 3<{LOG}; export {plan.log_variable}=3; fi")
    if plan.umask is not None:
        lines.append(f"umask {plan.umask:04o}")
    if container.prelude:
        lines.append(container.prelude)
    if container.fallback and not plan.command:
        start = shlex.join(container.fallback)
        lines.append(f'[ -z "$SAGEMAKER_PROGRAM" ] || command -v "$1" >/dev/null || exec {start}')
    missing = "'$1' cannot be started: the image has no such program"
    lines.append(f'command -v "$1" >/dev/null || {{ echo "{missing}"; exit 127; }}')
    return "\n".join([*lines, 'exec "$@"'])


def _variables(environment: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in environment.items()]


def _user(plan: SandboxPlan, container: ContainerPlan) -> str:
    if plan.user is not None:
        return f"{plan.user.uid}:{plan.user.gid}"
    if container.user or os.geteuid() == 0:
        return container.user
    return f"{os.geteuid()}:{os.getegid()}"  # otherwise we could neither pack nor remove its files


def _mounts(plan: SandboxPlan, container: ContainerPlan, pipe: str) -> list[dict[str, Any]]:
    shown = {"/opt/ml": plan.ml}
    if container.brings_code:
        parts = sorted(plan.ml.iterdir()) if plan.ml.exists() else []
        shown = {f"/opt/ml/{part.name}": part for part in parts if part.name != "code"}
    shown |= plan.mounts
    mounts = [
        _mount(str(source.resolve()), target, is_read_only=target in plan.read_only)
        for target, source in shown.items()
    ]
    mounts.append(_mount(pipe, OUTPUT))
    if plan.log_variable:
        mounts.append(_mount(str(plan.log.resolve()), LOG, is_read_only=True))
    return mounts


def _mount(source: str, target: str, *, is_read_only: bool = False) -> dict[str, Any]:
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": is_read_only}


def _limits(container: ContainerPlan) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if container.cores:
        limits["NanoCpus"] = round(container.cores * 1e9)
    if container.memory_bytes:
        limits["Memory"] = limits["MemorySwap"] = container.memory_bytes  # disables swap
    if container.shared_memory_bytes:
        limits["ShmSize"] = container.shared_memory_bytes
    if container.gpus:
        which: dict[str, Any] = {"DeviceIDs": list(container.gpus)}
        if tuple(container.gpus) == _ALL_GPUS:
            which = {"Count": -1}
        limits["DeviceRequests"] = [{**which, "Capabilities": [["gpu"]]}]
    return limits


def _network(plan: SandboxPlan, container: ContainerPlan) -> dict[str, Any]:
    network: dict[str, Any] = {"NetworkMode": container.network} if container.network else {}
    named = {} if own_network(container) else dict(plan.addresses)
    if container.host_address == OF_ENGINE:
        named[HOST_NAME] = OF_ENGINE
    return {**network, "ExtraHosts": [f"{name}:{address}" for name, address in named.items()]}


def _endpoints(container: ContainerPlan) -> dict[str, Any]:
    if not own_network(container):
        return {}
    return {"EndpointsConfig": {container.network: {"Aliases": list(container.aliases)}}}
