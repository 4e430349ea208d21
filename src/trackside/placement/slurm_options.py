"""The options of `sbatch`: those of every group, and those that a job gives."""

import re
import shlex
from collections.abc import Iterator, Mapping

from trackside.placement.machine_sizes import MachineSize
from trackside.placement.placement import Group

PROLOG = "prolog"
"""Not of sbatch: lines of a shell that prepare each node, such as `module load python`."""
LOG = "/tmp/trackside-%u-%j.log"
"""Of the supervisors, on the first node."""
_OURS = {
    "array": "a job has one allocation",
    "comment": "Trackside notes in it which hosts have ended",
    "export": "Trackside decides what jobs get",
    "gid": "jobs run as who submits them",
    "job-name": "it is the job's own; use --name",
    "no-requeue": "it is always given",
    "nodes": "use --instances",
    "ntasks": "use --instances",
    "ntasks-per-node": "each host has one supervisor",
    "parsable": "it is always given",
    "requeue": "Trackside places a job again itself",
    "signal": "it follows from --grace",
    "uid": "jobs run as who submits them",
    "wait": "it would keep the submitter waiting",
    "wrap": "the script is Trackside's",
}
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_UPLOAD_SECONDS = 30
"""What the end of a job needs besides its grace."""
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


def option_words(text: str) -> dict[str, str]:
    """`--qos=high --exclusive` as options. `ValueError` for other words."""
    found = {}
    for word in shlex.split(text):
        name, _, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not name:
            raise ValueError(f"{word!r} is no long option of sbatch; write it as --name=value")
        found[name] = value
    return found


def wrong_options(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Those that a job cannot give, each with the reason."""
    for name, value in options.items():
        if name in _OURS:
            yield name, f"cannot be given to sbatch: {_OURS[name]}"
        elif not _NAME.fullmatch(name):
            yield name, "is no long option of sbatch; name it without dashes before it: qos"
        elif "\0" in value or ("\n" in value and name != PROLOG):
            yield name, "has a character that an option cannot have"


def sbatch_options(group: Group, each: MachineSize) -> Iterator[str]:
    """The job's own come last: of two of a kind, sbatch takes the later one."""
    count = len(group.hosts)
    yield f"--job-name={group.job}"
    yield f"--nodes={count}"
    yield f"--ntasks={count}"
    yield "--ntasks-per-node=1"
    yield from step_options(each)
    if each.memory_gb:
        yield f"--mem={int(each.memory_gb * 1024)}M"
    yield f"--signal=TERM@{_notice_seconds(group)}"
    yield "--no-requeue"
    yield "--chdir=/tmp"
    yield f"--output={LOG}"
    yield "--open-mode=append"
    for name, value in group.options.items():
        if name != PROLOG:
            yield f"--{name}={value}" if value else f"--{name}"


def step_options(each: MachineSize) -> list[str]:
    """Also of `srun`: since Slurm 22.05 a step no longer takes its cores from its job."""
    gpus = [f"--gpus-per-node={each.gpus}"] if each.gpus else []
    return [f"--cpus-per-task={each.cores}", *gpus]


def _notice_seconds(group: Group) -> int:
    """How long before the end of its time the scripts are asked to end. Slurm would ask at once
    where that is more than all the time there is."""
    wanted = group.grace_seconds + _UPLOAD_SECONDS
    limit = seconds_of(group.options.get("time", ""))
    return wanted if limit is None else max(1, min(wanted, limit // 2))


def seconds_of(time: str) -> int | None:
    """Of sbatch's forms: minutes, minutes:seconds, hours:minutes:seconds, days-hours, and with
    minutes and seconds; None for others."""
    match = _TIME.fullmatch(time)
    if match is None:
        return None
    days, first, second, third = (None if part is None else int(part) for part in match.groups())
    if days is not None:
        hours, minutes, seconds = first or 0, second or 0, third or 0
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if third is not None:
        return ((first or 0) * 60 + (second or 0)) * 60 + third
    return (first or 0) * 60 + (second or 0)
