"""How a script is started: the toolkit's command, the environment promised by the platform, and the
limits that the kernel enforces.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import trackside
from trackside.files import damaged_files, durable
from trackside.records.layout import WORKING_FOLDER, Home, HostFolder
from trackside.records.spec import JobSpec, Options, RuleConfiguration
from trackside.settings import EMBEDDED, Settings
from trackside.supervisor.context import Context
from trackside.supervisor.sandbox import Exited
from trackside.system import control_group
from trackside.system.control_group import ControlGroup

REGION = "us-east-1"
GIB = 1 << 30
_GROUP_PREFIX = "trackside-job-"
AWAITED_AGE_SECONDS, WATCHED_AGE_SECONDS = 0.25, 1.0
"""How long a saved step waits for others to share its file when rules read it: if a job is stopped
or somebody told by what they find, or a rule has its own code, and if they only report: then
the hook lets it grow to three seconds. Each file costs the script, the evaluator and the supervisor
some milliseconds."""
_ACTING = ("action_json", "stop_training_on_fire")


def toolkit_command(spec: JobSpec, settings: Settings) -> list[str]:
    """The toolkit under the job's interpreter, which need not have Trackside installed."""
    python = spec.options.python or settings.python or sys.executable
    package = str(Path(trackside.__file__).parent.parent)
    module = "custom_command" if _custom_command(spec) else "__main__"
    start = (
        f"import sys; sys.path.append({package!r}); "
        f"from trackside.toolkit.{module} import main; sys.exit(main())"
    )
    return [python, "-P", "-c", start, *_custom_command(spec)]


def script_environment(context: Context, folder: HostFolder, master_port: int) -> dict[str, str]:
    spec, environ = context.spec, context.script_environ
    job = {
        **contract_variables(spec, environ),
        # For the toolkit: the source is in place, requirements go into an overlay.
        "TRACKSIDE_HOME": str(context.settings.home),
        "TRACKSIDE_URL": EMBEDDED,  # the script's `s3://` is the same as the job's
        "TRACKSIDE_OVERLAYS": str(Home(context.settings.home).overlays),
        "TRACKSIDE_EXIT_RECORD": str(folder.exit_record),
        "TRACKSIDE_SOURCE_IN_PLACE": "1",
    }
    if len(spec.hosts) > 1:
        group = context.group
        if group.is_one_machine:
            job["TRACKSIDE_HOSTS_SHARED_MACHINE"] = "1"
        job["MASTER_ADDR"] = group.addresses[spec.hosts[0]]
        job["MASTER_PORT"] = str(master_port)
    return {**thread_variables(spec), **environ, **job, **spec.environment}


def contract_variables(spec: JobSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """Those that do not depend on the sandbox. `environ` is what the script gets otherwise."""
    job = {
        **_loggers({**environ, **spec.environment}),
        "TRAINING_JOB_NAME": spec.name,
        "TRAINING_JOB_ARN": job_arn(spec.name, region_of(environ)),
        "SAGEMAKER_METRICS_DIRECTORY": "/opt/ml/output/metrics/sagemaker",
        "AWS_REGION": region_of(environ),
        "AWS_DEFAULT_REGION": region_of(environ),
        **_endpoint(environ),
    }
    if spec.debug_hook and (spec.debug_hook.collections or spec.debug_hook.parameters):
        # Tensors were requested; an empty hook configuration is every SDK's default.
        job["TRACKSIDE_CAPTURE"] = "auto"
    if spec.debug_rules:
        is_awaited = any(map(_is_awaited, spec.debug_rules))
        age = AWAITED_AGE_SECONDS if is_awaited else WATCHED_AGE_SECONDS
        job["TRACKSIDE_CAPTURE_AGE"] = str(age)
    return job


def _is_awaited(rule: RuleConfiguration) -> bool:
    return not rule.is_built_in or any(rule.parameters.get(name) for name in _ACTING)


def thread_variables(spec: JobSpec) -> dict[str, str]:
    """Libraries count the machine's cores, and would start a thread for each."""
    return {"OMP_NUM_THREADS": str(spec.options.cores)} if spec.options.cores else {}


def _loggers(environ: Mapping[str, str]) -> dict[str, str]:
    """So that nothing that is logged leaves the machine, or stays in a user's home folder, unless
    the job configures a destination.
    """
    variables = {}
    if not any(environ.get(name) for name in ("WANDB_MODE", "WANDB_API_KEY")):
        variables["WANDB_MODE"] = "offline"
    if not any(environ.get(name) for name in ("TRACKIO_DIR", "TRACKIO_SPACE_ID")):
        variables["TRACKIO_DIR"] = f"{WORKING_FOLDER}/trackio"
    return variables


def _custom_command(spec: JobSpec) -> list[str]:
    """Of the image, in place of the toolkit's."""
    algorithm = spec.algorithm
    return [*algorithm.entrypoint, *algorithm.arguments] if algorithm.entrypoint else []


def job_arn(name: str, region: str) -> str:
    """The contract's form; an account of zeros, the name in lower case as in SageMaker."""
    return f"arn:aws:sagemaker:{region}:000000000000:training-job/{name.lower()}"


def region_of(environ: Mapping[str, str]) -> str:
    return environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or REGION


def _endpoint(environ: Mapping[str, str]) -> dict[str, str]:
    for name in ("AWS_ENDPOINT_URL_S3", "S3_ENDPOINT_URL", "AWS_ENDPOINT_URL"):
        if environ.get(name):
            return {"S3_ENDPOINT_URL": environ[name], "AWS_ENDPOINT_URL_S3": environ[name]}
    return {}


def limits_text(options: Options) -> dict[str, str]:
    """The requested limits in words."""
    cores, memory_gb = options.cores, options.memory_gb
    texts = {"cores": f"{cores} core{'s' * (cores != 1)}", "memory": f"{memory_gb} GB of memory"}
    return {kind: text for kind, text in texts.items() if (cores if kind == "cores" else memory_gb)}


def memory_exceeded(memory_gb: int) -> str:
    return (
        f"OutOfMemory: the script used more than the limit of {memory_gb} GB of memory that its "
        "job asked for, and the kernel killed it. "
    )


def leave_limits_of_others() -> None:
    """A job that another job's script has submitted is not kept to that job's limits."""
    control_group.leave(_GROUP_PREFIX)


class ScriptLimits:
    """How much of the machine a script may use, enforced by the kernel through a control group.
    Where none can be created, the request is only counted, by a server's queue, and the host's
    record says so. All methods do nothing for a job that requests nothing."""

    def __init__(self, options: Options, folder: HostFolder, nonce: str) -> None:
        """`nonce` names the group: it is unique per sandbox."""
        self._options = options
        self._cores, self._memory_gb = options.cores, options.memory_gb or None
        self._path = folder.control_group
        self._name = _GROUP_PREFIX + nonce
        self._group = damaged_files.read(ControlGroup, self._path) if self._is_wanted else None

    @property
    def folders(self) -> tuple[str, ...]:
        """The control groups that the script is to be in."""
        return () if self._group is None else tuple(self._group.folders)

    def begin(self) -> str:
        """Before the script starts: create its group. Returns a text for the host's record."""
        if not self._is_wanted:
            return ""
        if self._group is None:
            self._group = self._made()
            durable.write_record(self._path, self._group)
        texts_of = limits_text(self._options)
        folders = {"cores": self._group.cpu, "memory": self._group.memory}
        requested = {text: folders[kind] for kind, text in texts_of.items()}
        enforced = " and ".join(text for text, folder in requested.items() if folder)
        counted = " and ".join(text for text, folder in requested.items() if not folder)
        texts = [f"Limited to {enforced}."] if enforced else []
        if counted:
            texts.append(f"{counted}: counted, not enforced, as no control group can be made here.")
        return " ".join(texts)

    def exceeded(self, state: Exited) -> str:
        """A sentence about a script that was ended because it used too much; else empty."""
        if self._group is None or not self._group.memory or not self._group.num_killed:
            return ""
        return memory_exceeded(self._memory_gb or 0)

    def end(self) -> None:
        """The script is over: remove the group, and kill processes left in it, but no job that the
        script has submitted."""
        if self._group is not None:
            self._group.remove(spares_jobs=True)

    @property
    def _is_wanted(self) -> bool:
        return bool(self._cores or self._memory_gb)

    def _made(self) -> ControlGroup:
        memory = self._memory_gb and self._memory_gb * GIB
        group = control_group.make(self._name, memory_bytes=memory, num_cores=self._cores)
        if control_group.can_join(group):
            return group
        group.remove()
        return ControlGroup()
