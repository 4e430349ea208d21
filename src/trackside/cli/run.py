"""`trackside run`: runs a script as a job.

Options have the names of the estimator's arguments, and are passed on unchanged.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from trackside.cli import rule_options
from trackside.cli.main import OWN_PROCESS
from trackside.cli.messages import print_message
from trackside.cli.run_command_line import (
    FORM,
    Run,
    as_mapping,
    gigabytes,
    program_of,
    typed_command,
    whole_gigabytes,
)
from trackside.cli.text import as_json
from trackside.errors import InvalidSpec, JobFailed, JobStopped
from trackside.placement import standby
from trackside.profiles import chosen_server
from trackside.records import notify_targets
from trackside.records.placed import LOCAL
from trackside.settings import Settings, environment
from trackside.texts.terminal_text import visible

if TYPE_CHECKING:  # imported once the job's supervisor has been started
    from trackside.sdk.job import TrainingJob

_LAUNCHERS = {"torchrun": "torch_distributed", "mpi": "mpi"}
_SUPERVISOR = "trackside.supervisor"
_QUIET_SECONDS = 0.5
_LOOK_SECONDS = 0.01


def _metrics(
    ctx: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> list[dict[str, str]]:
    named = as_mapping(ctx, option, given)
    return [{"Name": name, "Regex": regex} for name, regex in named.items()]


def _targets(
    ctx: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> list[str] | None:
    return [each for text in given for each in notify_targets.split(text)] or None


def _sbatch_options(
    ctx: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    if not given:
        return {}
    from trackside.placement.slurm_options import option_words

    try:
        return {name: value for text in given for name, value in option_words(text).items()}
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, option) from None


def _ray_options(
    ctx: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    if not given:
        return {}
    from trackside.placement.ray_options import option_words

    try:
        return dict(map(option_words, given))
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, option) from None


def _kubernetes_options(
    ctx: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    if not given:
        return {}
    from trackside.placement.kubernetes_options import option_words

    try:
        return dict(map(option_words, given))
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, option) from None


@click.command(cls=Run)
@click.argument("entry_point", metavar="SCRIPT", required=False)
@click.option("-m", "--module", metavar="NAME", help="Run this module instead of a script.")
@click.option(
    "--source-dir", metavar="DIR", help="The folder to pack and run in, or an s3://….tar.gz."
)
@click.option(
    "--in-place",
    is_flag=True,
    help="Run in the folder itself, this one or --source-dir's, without packing a copy.",
)
@click.option(
    "--channel",
    "inputs",
    multiple=True,
    callback=as_mapping,
    metavar="NAME=LOCATION",
    help="Input data; may be repeated.",
)
@click.option(
    "-p",
    "--hyperparameter",
    "hyperparameters",
    metavar=FORM,
    multiple=True,
    callback=as_mapping,
    help="Passed to the script as --NAME VALUE; may be repeated.",
)
@click.option(
    "--environment",
    metavar=FORM,
    multiple=True,
    callback=as_mapping,
    help="An environment variable for the script; may be repeated.",
)
@click.option("--output", "output_path", metavar="LOCATION", help="Where results go.")
@click.option(
    "--checkpoint-uri",
    "checkpoint_s3_uri",
    metavar="LOCATION",
    help="/opt/ml/checkpoints is restored from here, and saved here.",
)
@click.option(
    "--tensorboard",
    metavar="LOCATION",
    help="/opt/ml/output/tensorboard is copied here continuously.",
)
@click.option(
    "--capture",
    metavar="COLLECTIONS",
    help="Save tensors, such as gradients,losses; the script needs no change.",
)
@click.option(
    "--every",
    type=click.IntRange(1),
    metavar="STEPS",
    help="Save every N steps; by default every 500, and with --rule more of the first ones.",
)
@click.option(
    "--ring",
    type=click.IntRange(1),
    metavar="STEPS",
    help="With --capture: keep the last ones in memory, write them when the first NaN appears"
    " or the script dies.",
)
@click.option(
    "--rule",
    "rules",
    multiple=True,
    callback=rule_options.parse,
    metavar="RULE",
    help="Watch the training: `all` looks for every common mistake; NAME[:PARAMETER=VALUE,…] is one"
    " of `trackside rules`, FILE.py:CLASS one of your own; may be repeated.",
)
@click.option(
    "--stop-on",
    multiple=True,
    callback=rule_options.parse,
    metavar="RULE",
    help="The same, and stop the job when it finds something; may be repeated.",
)
@click.option(
    "--findings",
    type=click.File("wb", lazy=False),
    metavar="FILE",
    help="Wait, and write findings here as they come, then the diagnosis, as JSON lines.",
)
@click.option(
    "--notify",
    multiple=True,
    callback=_targets,
    metavar="TARGET",
    help="Send findings and the final status to mail:ADDRESS, slack:URL or webhook:URL, with"
    " commas between them; may be repeated.",
)
@click.option(
    "--name", "job_name", metavar="JOB", help="By default the script's name and the time."
)
@click.option(
    "--instances", "instance_count", type=click.IntRange(1), metavar="N", help="Number of hosts."
)
@click.option("--instance-type", metavar="TYPE", help="Recorded only; the job runs here.")
@click.option(
    "--on",
    "placement",
    metavar="PLACEMENT",
    help="Where the hosts are: slurm for the cluster whose login node this is, or"
    " slurm:USER@LOGIN; ray for the cluster that this machine is a node of, ray:HOST:PORT, or"
    " ray://HEAD:10001; kubernetes or kubernetes:CONTEXT, as an experiment; by default this"
    " machine. See `trackside placements`.",
)
@click.option("--partition", metavar="NAME", help="With --on slurm: as of sbatch.")
@click.option(
    "--time", "time_limit", metavar="LIMIT", help="With --on slurm: as of sbatch, such as 2-00:00."
)
@click.option(
    "--slurm",
    multiple=True,
    callback=_sbatch_options,
    metavar="OPTIONS",
    help='With --on slurm: further options of sbatch, such as "--qos=high"; may be repeated.',
)
@click.option(
    "--prolog",
    metavar="LINES",
    help='With --on slurm: prepares each node, such as "module load python".',
)
@click.option(
    "--ray",
    multiple=True,
    callback=_ray_options,
    metavar="NAME=VALUE",
    help="With --on ray: strategy=PACK, accelerator=A100 or resources.NAME=1; may be repeated.",
)
@click.option(
    "--kubernetes",
    multiple=True,
    callback=_kubernetes_options,
    metavar="NAME=VALUE",
    help="With --on kubernetes: namespace=NAME, queue=NAME, node-selector=KEY=VALUE and others; may"
    " be repeated.",
)
@click.option(
    "--image",
    "image_uri",
    metavar="NAME",
    help="Run in a container of this image, by Docker or Podman; pulled if it is not here. Without"
    " SCRIPT the image's own program runs. With --on kubernetes it is needed.",
)
@click.option(
    "--cores", type=click.IntRange(1), metavar="N", help="Cores that each host needs and may use."
)
@click.option(
    "--memory-gb",
    "--memory",
    "memory_gb",
    callback=whole_gigabytes,
    metavar="GB",
    help="Memory that each host needs and may use; beyond it the job fails.",
)
@click.option(
    "--shm",
    "shm_gb",
    callback=gigabytes,
    metavar="GB",
    help="With --image: size of /dev/shm, which data loaders use; by default half the memory.",
)
@click.option(
    "--read-only",
    "read_only_root",
    is_flag=True,
    default=None,
    help="With --image: the script writes only to /opt/ml, /tmp, /run and /dev/shm.",
)
@click.option(
    "--gpus",
    type=click.IntRange(0),
    metavar="N",
    help="GPUs that each host needs, at a server or with --image.",
)
@click.option(
    "--distribution",
    type=click.Choice([*_LAUNCHERS]),
    help="How the script's processes are launched.",
)
@click.option(
    "--processes-per-host", type=click.IntRange(1), metavar="N", help="With --distribution."
)
@click.option(
    "--input-mode",
    type=click.Choice(["File", "FastFile", "Pipe"]),
    help="How channels are provided: copied first, opened on demand, or as pipes.",
)
@click.option(
    "--metric",
    "metric_definitions",
    multiple=True,
    callback=_metrics,
    metavar="NAME=REGEX",
    help="A curve read from the log; may be repeated.",
)
@click.option(
    "--tag",
    "tags",
    metavar=FORM,
    multiple=True,
    callback=as_mapping,
    help="A label; may be repeated.",
)
@click.option(
    "--max-run",
    type=click.IntRange(1),
    metavar="SECONDS",
    help="Stop the job after this time; by default there is no limit.",
)
@click.option(
    "--max-retries",
    "max_retry_attempts",
    type=click.IntRange(1, 30),
    metavar="N",
    help="New attempts after a failure of the machine.",
)
@click.option(
    "--grace",
    "grace_seconds",
    type=click.IntRange(0),
    metavar="SECONDS",
    help="Time from SIGTERM to SIGKILL when stopped; by default 120.",
)
@click.option(
    "--python",
    metavar="PROGRAM",
    help="Interpreter for the script; by default this one.",
)
@click.option("-w", "--wait", is_flag=True, help="Show the log until the job finishes.")
@click.option(
    "--bring-back",
    is_flag=True,
    help="Wait, and download the files that the script wrote to its working folder.",
)
@click.option("--json", is_flag=True, help="Print the job as JSON instead.")
@click.pass_context
def run(
    ctx: click.Context,
    /,
    entry_point: str | None,
    module: str | None,
    inputs: dict[str, str],
    job_name: str | None,
    distribution: str | None,
    processes_per_host: int | None,
    capture: str | None,
    every: int | None,
    ring: int | None,
    rules: list[rule_options.Named],
    stop_on: list[rule_options.Named],
    findings: BinaryIO | None,
    wait: bool,
    bring_back: bool,
    tensorboard: str | None,
    json: bool,
    partition: str | None,
    time_limit: str | None,
    slurm: dict[str, str],
    prolog: str | None,
    ray: dict[str, str],
    kubernetes: dict[str, str],
    **arguments: Any,
) -> None:
    """Run a script, a module or a command as a training job.

    Arguments after `--` are passed to it unchanged; without SCRIPT they are the command.
    With --image it runs in a container, else as a process of this machine.
    The job continues when this command exits or the terminal is closed.

    \b
    Examples:
      trackside run train.py --rule all --wait
      trackside run train.py --wait -- --epochs 3 --amp data.yaml model.lr=0.1
      trackside run -m package.train --wait -- --epochs 3
      trackside run --wait -- torchrun --nproc-per-node 2 train.py --epochs 3
      trackside run train.py --channel training=./data -p epochs=3 --wait
      trackside run train.py --source-dir src --output s3://bucket/out
      trackside run --in-place train.py --wait
      trackside run train.py --capture gradients,losses --every 100
      trackside run train.py --stop-on VanishingGradient --rule my.py:MyRule
      trackside run train.py --instances 2 --distribution torchrun
      trackside run train.py --image my-torch --rule all --wait
      trackside run --image my-training -p epochs=3 --channel training=./data --wait
      trackside run train.py --on slurm --instances 8 --partition gpu --time 2-00:00 \
          --output s3://bucket/out
      trackside run train.py --on ray --instances 4 --gpus 1 --output s3://bucket/out
      trackside run train.py --on kubernetes --image my-training --output s3://bucket/out
    """
    program = program_of(ctx)
    named = {"partition": partition, "time": time_limit, "prolog": prolog}
    sbatch = {**slurm, **{name: value for name, value in named.items() if value is not None}}
    engine = (arguments["placement"] or "").partition(":")[0]
    if sbatch and engine != "slurm":
        raise click.UsageError(f"{_flag(sbatch, slurm)} needs --on slurm.")
    for name, given in {"ray": ray, "kubernetes": kubernetes}.items():
        if given and engine != name:
            raise click.UsageError(f"--{name} needs --on {name}.")
    options = {**sbatch, **ray, **kubernetes}
    _stand_by(ctx)
    from trackside.cli import capture_options
    from trackside.sdk.debugger import TensorBoardOutputConfig
    from trackside.sdk.estimator import Estimator

    if capture:
        capture_options.check(capture_options.named(capture))
    if bring_back and arguments["in_place"]:
        raise click.UsageError("--in-place leaves all files here: there is nothing to bring back.")
    wait = wait or findings is not None or bring_back  # this process writes them
    back = _Back(arguments["source_dir"]) if bring_back else None
    watching = rule_options.rules_of(rules, stop_on)
    estimator = Estimator(
        **arguments,
        **program,
        placement_options=options or None,
        distribution=_distribution(distribution, processes_per_host),
        tensorboard_output_config=TensorBoardOutputConfig(tensorboard) if tensorboard else None,
        debugger_hook_config=capture_options.hook_config(capture, every, ring, watching),
        rules=watching or None,
    )
    estimator.typed_command = typed_command(ctx)
    try:
        with _upload_shown():
            estimator.fit(inputs or None, wait=False, job_name=job_name)
    except InvalidSpec as failure:
        from trackside.cli.run_command_line import in_options

        raise in_options(failure, ctx.command, watching) from None
    assert estimator.latest_training_job is not None
    warnings = capture_options.warnings(capture_options.named(capture)) if capture else []
    program_folder = arguments["source_dir"] or os.curdir
    is_alone = arguments["source_dir"] is None and not arguments["in_place"]
    if is_alone and program.get("entry_point"):
        from trackside.cli import missing_files

        warnings += missing_files.warnings(program["entry_point"])
    if arguments["in_place"]:
        from trackside.cli import in_place

        warnings += in_place.warnings(estimator.latest_training_job.name, program_folder)
    warnings += _of_placement(arguments["placement"])
    for message in warnings:
        print_message(f"Warning: {visible(message)}")
    folder = None if is_alone else program_folder
    aid = partial(_aid, entry_point=entry_point, source_dir=folder)
    job = estimator.latest_training_job
    _after_start(
        job,
        wait=wait,
        json=json,
        is_watched=bool(watching),
        offers=not arguments["in_place"],
        findings=findings,
        aid=aid,
        back=back,
    )


def _of_placement(name: str | None) -> list[str]:
    if name is None:
        return []
    from trackside.jobs.placement_traits import caution_of

    return [*filter(None, [caution_of(name)])]


def _flag(options: dict[str, str], slurm: dict[str, str]) -> str:
    name = next(iter(options))
    return "--slurm" if name in slurm else f"--{name}"


def _stand_by(ctx: click.Context) -> None:
    """Start a supervisor in advance for a job that runs here: both processes import at once. For
    one that runs elsewhere, an engine is asked what there is."""
    settings = Settings.load()
    if chosen_server(environment(), settings.home) is not None:
        return
    placement = ctx.params["placement"]
    if placement not in (None, LOCAL):
        from trackside.placement.choose import UnknownPlacement, placement_named

        with suppress(UnknownPlacement):  # submitting says so
            placement_named(placement).expect()
    elif ctx.obj is OWN_PROCESS and settings.standby == "yes":
        standby.prepare(_SUPERVISOR)


def _upload_shown() -> AbstractContextManager[None]:
    if not sys.stderr.isatty():
        return nullcontext()
    from trackside.cli.upload_progress import upload_shown

    return upload_shown()


def _distribution(launcher: str | None, processes: int | None) -> dict[str, Any]:
    if launcher is None:
        if processes is not None:
            raise click.UsageError("--processes-per-host needs --distribution.")
        return {}
    return {_LAUNCHERS[launcher]: {"enabled": True, "processes_per_host": processes}}


def _aid(cause: str, *, entry_point: str | None, source_dir: str | None) -> str:
    from trackside.cli import missing_files
    from trackside.views.job import failure_hints

    return failure_hints.advice(cause) or missing_files.advice(cause, entry_point, source_dir)


class _Back:
    """Where kept files are downloaded; files changed since `began` are not replaced."""

    def __init__(self, source_dir: str | None) -> None:
        from trackside.sdk.locations import is_remote

        is_here = source_dir is not None and not is_remote(source_dir)
        self.folder = Path(source_dir if is_here and source_dir else ".").expanduser().absolute()
        self.began = time.time()


def _after_start(
    job: "TrainingJob",
    *,
    wait: bool,
    json: bool,
    is_watched: bool,
    offers: bool,
    findings: BinaryIO | None,
    aid: Callable[[str], str],
    back: _Back | None,
) -> None:
    if wait:
        if not json:
            print(f"Started {job.name}", flush=True)
        # After the start, so that the job does not wait for imports that only following it needs.
        _until_first_output(job)
        from trackside.cli.wait_for_job import wait_for

        try:
            wait_for(job, quiet=json, findings=findings, aid=aid)
        except (JobFailed, JobStopped):
            _after_end(job, offers=offers and not json, back=back, quiet=json)
            if json:  # the final status is what is printed
                print(as_json(job.describe()), flush=True)
            raise
        _after_end(job, offers=offers and not json, back=back, quiet=json)
    if json:
        print(as_json(job.describe()))
    elif wait and sys.stdout.isatty():
        print(f"  trackside artifacts {job.name}")
        print(f"  trackside report {job.name} --open")
    elif not wait:
        print(f"Started {job.name}")
        print(f"  trackside logs -f {job.name}")
        if is_watched:
            print(f"  trackside findings -f {job.name}")
        print(f"  trackside show {job.name}")
        print(f"  trackside stop {job.name}")


def _until_first_output(job: "TrainingJob") -> None:
    """Wait briefly until a job on this machine has a log: before that there is nothing to print,
    and its processes start faster if this one does not import the printing code yet.
    """
    from trackside.coordination.host_files import first_files

    home = Settings.load().layout
    folder, until = home.job(job.name), time.monotonic() + _QUIET_SECONDS
    log = first_files(folder).log
    while folder.root.exists() and time.monotonic() < until:
        with suppress(OSError):
            if log.stat().st_size:
                return
        time.sleep(_LOOK_SECONDS)


def _after_end(job: "TrainingJob", *, offers: bool, back: _Back | None, quiet: bool) -> None:
    """Downloads the script's files from its working folder, or prints how to."""
    from trackside.cli import kept_files

    if back is not None:
        kept_files.bring_all_back(job, back.folder, back.began, quiet=quiet)
    elif offers and sys.stdout.isatty():
        kept_files.offer(job)
