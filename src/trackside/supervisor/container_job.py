"""What a job's container is made of and given: image, limits, network, command, variables, mounts.

`container_sandbox.py` runs it. Of the submitter's environment only what belongs to the job goes in;
our own package is mounted read-only, for the image's Python.
"""

import os
import shlex
import stat
from dataclasses import asdict, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trackside
from trackside.containers.engine_client import (
    Engine,
    EngineError,
    EngineUnreachable,
    find_engine,
)
from trackside.containers.images import Show, find_image, obtain_image, pulls_shown
from trackside.errors import EngineGone, ImageError, SandboxError
from trackside.files import damaged_files, durable
from trackside.quick_dataclass import dataclass
from trackside.records.layout import HostFolder
from trackside.supervisor.container_endpoints import (
    loopback_endpoints,
    seen_from_inside,
    unreachable_endpoint,
)
from trackside.supervisor.container_request import (
    ENGINES_NETWORKS,
    OF_ENGINE,
    OF_NETWORK,
    ContainerPlan,
)
from trackside.supervisor.context import Context
from trackside.supervisor.sandbox import Exited, Sandbox
from trackside.supervisor.script_start import (
    GIB,
    contract_variables,
    limits_text,
    memory_exceeded,
    thread_variables,
)
from trackside.supervisor.user_folders import HOME, PLACE
from trackside.system.job_environment import of_job
from trackside.system.run_as import JobUser

if TYPE_CHECKING:
    from trackside.supervisor.container_figures import ContainerReader

LIBRARY = "/opt/.trackside-lib"
"""Where the container has our package, under its own name."""
_WATCHING = f"{LIBRARY}/trackside/capture/site"
_HOSTS = "/opt/.trackside-hosts"
_BRIDGE, _MACHINES, _NONE = "bridge", "host", "none"
_ETHERNET, _LOOPBACK = "eth0", "lo"
_NVIDIA = "/dev/nvidiactl"
_ALL = "all"
_ROOTS = ("", "0", "root")
_OLDEST = (3, 8)
_NEEDS = (
    f"and Trackside needs Python {_OLDEST[0]}.{_OLDEST[1]} or later to run a script in it. Choose "
    "an image that has one, or one with its own entry point."
)
_START = (
    "import sys\n"
    f"sys.version_info >= {_OLDEST} or sys.exit('[trackside] The image has Python %d.%d, {_NEEDS}'"
    " % sys.version_info[:2])\n"
    f"sys.path[:] = [path for path in sys.path if path] + ['{LIBRARY}']\n"
    "from trackside.toolkit.__main__ import main\n"
    "sys.exit(main())\n"
)
"""Parsed by any Python, also one that is too old. The working folder is not on its path: a file of
the script's must not replace a module of ours."""
_RUN_PYTHON = (
    'for python in "$@"; do command -v "$python" >/dev/null && exec "$python" -c "$0"; done\n'
    f'echo "[trackside] The image has no $1, {_NEEDS}"\n'
    "exit 127"
)
_SAY_UNWATCHED = (
    "command -v python3 >/dev/null || command -v python >/dev/null || echo '[trackside] Tensors "
    "were requested, and the image has no Python to capture them in.'"
)


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """What is decided before the start, by what the engine reports; later supervisors read it."""

    engine: str
    image: str = ""
    """Its id."""
    network: str = ""
    own_network: str = ""
    """The same, if it is the job's own; `containers/job_containers.py` removes it."""
    interface: str = _LOOPBACK
    user: str = ""
    """As `ContainerPlan.user`."""
    image_user: str = ""
    python_path: str = ""
    """PYTHONPATH of the image."""
    gpus: list[str] = field(default_factory=list)
    host_address: str = ""
    """As `ContainerPlan.host_address`."""
    unreachable: str = ""
    """A sentence about an endpoint that the script cannot reach."""


class JobContainer:
    """Of one host in one attempt."""

    def __init__(self, context: Context, folder: HostFolder, attempt: int) -> None:
        self._context = context
        self._spec = context.spec
        self._folder = folder
        self._attempt = attempt
        found = damaged_files.read(ContainerFacts, folder.container)
        self._facts = found or ContainerFacts(find_engine(context.environ))

    # Before the start

    def decide(self, show: Show) -> str:
        """Ask the engine for what the plan depends on, and pull a missing image, with `show` called
        meanwhile; returns the image's id. `SandboxError` without an engine, `ImageError` without an
        image.
        """
        engine = Engine(find_engine(self._context.environ))
        try:
            image = self._obtain_image(engine, show)
            config = engine.image(image)["Config"] or {}
            network = self._network()
            interface = self._interface(engine, network)
            host_address, unreachable = self._host_address(engine, interface)
            self._facts = ContainerFacts(
                engine=engine.address,
                image=image,
                network=network,
                own_network="" if network in ("", *ENGINES_NETWORKS) else network,
                interface=interface,
                user=_own_user(engine),
                image_user=(config.get("User") or "").partition(":")[0],
                python_path=_variables(config).get("PYTHONPATH", ""),
                gpus=self._gpus(engine),
                host_address=host_address,
                unreachable=unreachable,
            )
        except EngineUnreachable as error:
            raise EngineGone(str(error)) from error
        except EngineError as error:
            raise SandboxError(str(error)) from error
        except ImageError as error:
            if isinstance(error.__cause__, EngineUnreachable):
                raise EngineGone(str(error)) from error
            raise
        self._folder.sandbox.mkdir(parents=True, exist_ok=True)
        durable.write_json(self._folder.container, asdict(self._facts), lasts=False)
        return image

    def _obtain_image(self, engine: Engine, show: Show) -> str:
        """The content that was submitted; what was not here then is pulled now, by its name."""
        options = self._spec.options
        if options.image_id and find_image(engine, options.image_id) is not None:
            return options.image_id
        with pulls_shown(show):
            name = options.image_digest or self._spec.image
            return obtain_image(engine, name, self._context.environ).id

    def make(self) -> None:
        """Make what the script may write to. May be repeated before its start."""
        (self._folder.private / HOME).mkdir(parents=True, exist_ok=True)
        self._started_hosts.mkdir(parents=True, exist_ok=True)
        self._started_hosts.chmod(0o777)  # for any user of the image; the folder above is ours
        if self._is_of_another_user:
            for path in (self._folder.ml, self._folder.mounts, self._folder.private):
                _open_to_all(path)
            self._folder.log.touch()
            self._folder.log.chmod(0o644)

    @property
    def _started_hosts(self) -> Path:
        return self._context.folder.started_hosts(self._attempt)

    @property
    def shows_files_of_ours(self) -> bool:
        """Whether the script may read files that only we may read."""
        return not self._is_of_another_user

    @property
    def _is_of_another_user(self) -> bool:
        """The image's own user, neither root nor ourselves. The folders of its job are then open to
        all users of the container; nobody else on this machine can reach them."""
        return os.geteuid() == 0 and self._facts.image_user not in _ROOTS

    # The plan

    @property
    def plan(self) -> ContainerPlan:
        spec, options, facts = self._spec, self._spec.options, self._facts
        return ContainerPlan(
            image=self._image,
            entrypoint=spec.algorithm.entrypoint,
            arguments=spec.algorithm.arguments,
            fallback=() if spec.algorithm.entrypoint else self._toolkit_command,
            prelude=self._prelude,
            job=spec.name,
            engine=facts.engine,
            cores=options.cores,
            memory_bytes=options.memory_gb * GIB if options.memory_gb else None,
            shared_memory_bytes=self._shared_memory_bytes,
            gpus=tuple(facts.gpus),
            user=facts.user,
            network=facts.network,
            host_address=facts.host_address,
            network_lock=str(self._context.folder.network_lock),
            is_internal=spec.network_isolation,
            aliases=(self._context.host,),
            has_read_only_root=options.read_only_root,
            brings_code=spec.source is None and options.in_place is None,
        )

    @property
    def sandbox(self) -> Sandbox:
        from trackside.supervisor.container_sandbox import ContainerSandbox  # not for every kind

        return ContainerSandbox(self.plan)

    @property
    def interface(self) -> str:
        return self._facts.interface

    @property
    def addresses(self) -> dict[str, str]:
        """Those that neither the engine nor its network resolves."""
        if self._is_spread:
            return dict(self._context.group.addresses)
        return {self._context.host: "127.0.0.1"} if self.interface == _LOOPBACK else {}

    @property
    def command(self) -> list[str]:
        """Our toolkit for a script; nothing for an image that runs by itself."""
        return self._toolkit_command if self._names_script else []

    @property
    def read_only(self) -> frozenset[str]:
        return frozenset([f"{LIBRARY}/trackside"])

    @property
    def mounts(self) -> dict[str, Path]:
        package = Path(trackside.__file__).resolve().parent
        shown = {PLACE: self._folder.private, f"{LIBRARY}/trackside": package}
        if self._shares_network:
            shown[_HOSTS] = self._started_hosts
        return shown

    def environment(self, master_port: int, user: JobUser | None) -> dict[str, str]:
        """The job's own variables; PATH, HOME and the others are the image's."""
        spec = self._spec
        environ = self._given
        if self._facts.host_address:
            environ = seen_from_inside(environ)
        job = {
            **contract_variables(spec, environ),
            "TRACKSIDE_HOME": f"{PLACE}/{HOME}/.trackside",
            "TRACKSIDE_EXIT_RECORD": f"{PLACE}/{self._folder.exit_record.name}",
            "TRACKSIDE_LIBRARY": LIBRARY,
        }
        if spec.source is not None or spec.options.in_place is not None:
            job["TRACKSIDE_SOURCE_IN_PLACE"] = "1"
        if len(spec.hosts) > 1:
            job |= {"MASTER_ADDR": self._lead_address, "MASTER_PORT": str(master_port)}
        if self._shares_network:
            job["TRACKSIDE_HOSTS_FOLDER"] = _HOSTS
        if user is not None or os.geteuid() != 0:
            job["HOME"] = f"{PLACE}/{HOME}"  # the image may not know this user
        if self._is_watched and not self._names_script:
            paths = (_WATCHING, self._facts.python_path)
            job["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        return {**thread_variables(spec), **environ, **job, **spec.environment}

    def make_reader(self, root_pid: int) -> "ContainerReader":
        from trackside.supervisor.container_figures import ContainerReader  # after the start

        return ContainerReader(root_pid)

    # The limits, which the engine enforces: as `ScriptLimits`

    @property
    def folders(self) -> tuple[str, ...]:
        return ()

    def begin(self) -> str:
        texts = limits_text(self._spec.options).values()
        return f"Limited to {' and '.join(texts)}." if texts else ""

    def exceeded(self, state: Exited) -> str:
        memory_gb = self._spec.options.memory_gb
        return memory_exceeded(memory_gb) if memory_gb and state.out_of_memory else ""

    def end(self) -> None:
        """Nothing is left of them when the container has ended."""

    @property
    def _image(self) -> str:
        return self._facts.image or self._spec.options.image_id or self._spec.image

    @property
    def _is_watched(self) -> bool:
        hook = self._spec.debug_hook
        return hook is not None and bool(hook.collections or hook.parameters)

    @property
    def _names_script(self) -> bool:
        spec = self._spec
        named = spec.entry_point or spec.options.module or spec.options.command
        return bool(named) and not spec.algorithm.entrypoint

    @property
    def _toolkit_command(self) -> list[str]:
        pythons = [self._spec.options.python] if self._spec.options.python else []
        return ["/bin/sh", "-c", _RUN_PYTHON, _START, *(pythons or ["python3", "python"])]

    @property
    def _shared_memory_bytes(self) -> int:
        """By default half of the memory, as on a machine: an engine's own default of 64 MB is too
        small for the workers of a data loader."""
        options = self._spec.options
        if options.shm_gb:
            return int(options.shm_gb * GIB)
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return (options.memory_gb * GIB if options.memory_gb else whole) // 2

    @property
    def _is_spread(self) -> bool:
        """Whether its hosts are several machines: an engine connects only its own containers."""
        return len(self._spec.hosts) > 1 and not self._context.group.shares_files

    @property
    def _shares_network(self) -> bool:
        """Whether its hosts are containers of one engine."""
        return len(self._spec.hosts) > 1 and not self._is_spread

    @property
    def _lead_address(self) -> str:
        lead = self._spec.hosts[0]
        return self._context.group.addresses[lead] if self._is_spread else lead

    def _network(self) -> str:
        """One of the job's own if it has several hosts, or the machines' where they are several. An
        engine has addresses for some 30 such networks only: so a single host is on the engine's
        default network."""
        if len(self._spec.hosts) == 1:
            return _NONE if self._spec.network_isolation else ""
        if self._is_spread:
            return _MACHINES
        place = sha256(os.fsencode(self._context.folder.root)).hexdigest()[:8]
        return f"trackside-{self._spec.name}-{place}-{self._attempt}"

    @property
    def _given(self) -> dict[str, str]:
        context = self._context
        return of_job(context.environ, context.settings.job_variables.split(","))

    @property
    def _prelude(self) -> str:
        lines = [_SAY_UNWATCHED] if self._is_watched and not self._names_script else []
        if self._facts.unreachable:
            lines.insert(0, f"echo {shlex.quote(f'[trackside] {self._facts.unreachable}')}")
        return "\n".join(lines)

    def _interface(self, engine: Engine, network: str) -> str:
        if network == _MACHINES:
            return self._context.group.interface
        if network == _NONE:
            return _LOOPBACK
        if network not in ("", *ENGINES_NETWORKS):
            return _ETHERNET
        return _ETHERNET if engine.has_network(_BRIDGE) else _LOOPBACK

    def _host_address(self, engine: Engine, interface: str) -> tuple[str, str]:
        """With a sentence about an endpoint that is not reached by it. Both are empty without an
        endpoint on this machine, and in isolation: a script then has no server, as on SageMaker.
        """
        if self._spec.network_isolation or not loopback_endpoints(self._given):
            return "", ""
        if interface == _LOOPBACK:
            return "", unreachable_endpoint(self._given, has_network=False)
        if not engine.has_network(_BRIDGE):
            return OF_NETWORK, ""  # whose address is not yet known
        return OF_ENGINE, unreachable_endpoint(self._given, gateway=engine.gateway(_BRIDGE))

    def _gpus(self, engine: Engine) -> list[str]:
        """The ones that a server has assigned, the requested number, or all."""
        assigned = of_job(self._context.environ, ()).get("CUDA_VISIBLE_DEVICES")
        if assigned is not None:
            return [name for name in assigned.split(",") if name]
        wanted = self._spec.options.gpus
        if wanted is not None:
            return [str(number) for number in range(wanted)]
        has_any = os.path.exists(_NVIDIA) and "nvidia" in engine.call("GET", "/info")["Runtimes"]
        return [_ALL] if has_any else []


def _own_user(engine: Engine) -> str:
    """Of an engine without root, the container's root is ourselves; otherwise as the request has
    it."""
    if os.geteuid() == 0:
        return ""
    options = engine.call("GET", "/info").get("SecurityOptions") or []
    return "0:0" if any("rootless" in option for option in options) else ""


def _variables(config: dict[str, Any]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in config.get("Env") or [] if "=" in line)


def _open_to_all(root: Path) -> None:
    for folder, names, files in os.walk(root):
        for name in ("", *names, *files):
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISDIR(mode):
                os.chmod(path, 0o777)
            elif not stat.S_ISLNK(mode):
                os.chmod(path, stat.S_IMODE(mode) | 0o666 | (mode & 0o100) // 0o100 * 0o111)
