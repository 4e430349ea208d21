"""A job in an image on a machine that has no engine, but Apptainer or Singularity, as nodes of
Slurm clusters often have.

The program is a plain process to the sandbox, and the script one of its descendants.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from trackside.containers import apptainer
from trackside.containers.images import Pull, Show
from trackside.errors import SandboxError
from trackside.files import damaged_files, durable
from trackside.quick_dataclass import dataclass
from trackside.records.layout import HostFolder, sandbox_nonce
from trackside.supervisor.container_init import exit_code
from trackside.supervisor.container_job import ContainerFacts, JobContainer
from trackside.supervisor.context import Context
from trackside.supervisor.machine_reading import MachineReader
from trackside.supervisor.process_sandbox import ProcessSandbox
from trackside.supervisor.sandbox import Exited, Isolation, SandboxPlan, SandboxState
from trackside.supervisor.script_start import ScriptLimits
from trackside.supervisor.user_folders import HOME, PLACE
from trackside.system.processes import NONCE_VARIABLE
from trackside.system.run_as import JobUser

KIND = "apptainer"
_ENGINE = "apptainer:"
"""In the record of a job's container, in the place of an engine's address: the program."""
_IMAGE, _HOSTS, _WORK = "image.sif", "hosts", "work"
_NVIDIA = "/dev/nvidiactl"
_DEVICES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_FAILED, _NOT_FOUND = 255, 127
_MISSING = re.compile(
    rb"^FATAL: +(stat \S+: no such file or directory|.+: executable file not found in \$PATH)\s*\Z",
    re.MULTILINE,
)
_TAIL_BYTES = 1000
_REASON = "An image by Apptainer or Singularity: its own files and processes."


def program_for(context: Context, folder: HostFolder) -> str:
    """The program that runs the job's image here; empty where an engine does. Decided once."""
    facts = damaged_files.read(ContainerFacts, folder.container)
    if facts is None:
        return apptainer.find_program(context.environ)
    is_ours = facts.engine.startswith(_ENGINE)
    return facts.engine.removeprefix(_ENGINE) if is_ours else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApptainerImage:
    """An image on this machine, and what its commands get of the machine."""

    program: str
    name: str
    """As the user wrote it."""
    file: str
    home: Path
    work: Path
    environ: Mapping[str, str]
    command: Sequence[str] = ()
    """Where a plan has none."""
    has_gpus: bool = False

    def started(self, plan: SandboxPlan) -> SandboxPlan:
        """The same as a process of this machine. `SandboxError` for an image's own program."""
        command = [*plan.command] or [*self.command]
        if not command:
            raise SandboxError(
                f"The image {self.name!r} is to run its own program, which Apptainer is not "
                "asked for. Name a script, or a ContainerEntrypoint."
            )
        words = apptainer.exec_words(
            self.program,
            self.file,
            command,
            mounts={"/opt/ml": plan.ml, **plan.mounts},
            read_only=plan.read_only,
            home=(self.home, f"{PLACE}/{HOME}"),
            work=self.work,
            has_gpus=self.has_gpus,
        )
        return replace(
            plan,
            command=apptainer.marked(self.program, NONCE_VARIABLE, words),
            environment=apptainer.environment(self.program, plan.environment, self.environ),
            mounts={},
            read_only=frozenset(),
            notes={},
        )


class ApptainerJob(JobContainer):
    def __init__(self, context: Context, folder: HostFolder, attempt: int, program: str) -> None:
        super().__init__(context, folder, attempt)
        self._program = program
        nonce = sandbox_nonce(context.nonce, attempt)
        self._own_limits = ScriptLimits(context.spec.options, folder, nonce)

    def decide(self, show: Show) -> str:
        name = self._spec.image
        self._folder.sandbox.mkdir(parents=True, exist_ok=True)
        self._folder.private.mkdir(parents=True, exist_ok=True)
        target = self._folder.private / _IMAGE
        pull = Pull(name)
        environ = self._context.environ
        file = apptainer.pull(self._program, name, target, environ, lambda: show(pull))
        self._facts = ContainerFacts(
            engine=f"{_ENGINE}{self._program}",
            image=str(file),
            interface=self._context.group.interface,
        )
        durable.write_json(self._folder.container, asdict(self._facts), lasts=False)
        return name

    def make(self) -> None:
        super().make()
        (self._folder.private / _WORK).mkdir(exist_ok=True)
        known = Path("/etc/hosts").read_text() if os.path.exists("/etc/hosts") else ""
        lines = [f"{address}\t{name}\n" for name, address in self.addresses.items()]
        (self._folder.private / _HOSTS).write_text("".join([known.rstrip("\n") + "\n", *lines]))

    @property
    def sandbox(self) -> "ApptainerSandbox":
        algorithm = self._spec.algorithm
        image = ApptainerImage(
            program=self._program,
            name=self._spec.image,
            file=self._facts.image,
            home=self._folder.private / HOME,
            work=self._folder.private / _WORK,
            environ=self._context.environ,
            command=[*algorithm.entrypoint, *algorithm.arguments],
            has_gpus=bool(self._spec.options.gpus) or os.path.exists(_NVIDIA),
        )
        return ApptainerSandbox(image)

    @property
    def addresses(self) -> dict[str, str]:
        """The network is the machine's own."""
        return dict(self._context.group.addresses)

    @property
    def mounts(self) -> dict[str, Path]:
        return {**super().mounts, "/etc/hosts": self._folder.private / _HOSTS}

    def environment(self, master_port: int, user: JobUser | None) -> dict[str, str]:
        """With the GPUs that the cluster has given to this job."""
        environ = self._context.environ
        devices = {name: environ[name] for name in _DEVICES if name in environ}
        return {**devices, **super().environment(master_port, user)}

    def make_reader(self, root_pid: int) -> MachineReader:  # type: ignore[override]
        return MachineReader(root_pid)

    # The limits are ours, as those of a process

    @property
    def folders(self) -> tuple[str, ...]:
        return self._own_limits.folders

    def begin(self) -> str:
        return self._own_limits.begin()

    def exceeded(self, state: Exited) -> str:
        return self._own_limits.exceeded(state)

    def end(self) -> None:
        self._own_limits.end()


class ApptainerSandbox(ProcessSandbox):
    """The process sandbox without namespaces: the program makes its own."""

    def __init__(self, image: ApptainerImage) -> None:
        super().__init__("none")
        self._image = image

    def start(self, plan: SandboxPlan) -> None:
        super().start(self._image.started(plan))

    def poll(self, plan: SandboxPlan) -> SandboxState | None:
        state = super().poll(plan)
        if not isinstance(state, Exited):
            return state
        return replace(state, code=_code(state.code, plan.log))

    @property
    def isolation(self) -> Isolation:
        return Isolation(KIND, _REASON)

    def isolation_of(self, plan: SandboxPlan) -> Isolation | None:
        return None if super().isolation_of(plan) is None else self.isolation


def _code(of_program: int, log: Path) -> int:
    """The program reports a signal as 128 plus its number, as shells do; and what it cannot find
    in the image as a failure of its own."""
    if of_program == _FAILED and _MISSING.search(_last_bytes(log)):
        return _NOT_FOUND
    return exit_code(of_program)


def _last_bytes(log: Path) -> bytes:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return file.read()
    except OSError:
        return b""
