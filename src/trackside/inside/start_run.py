"""Starts a run with its own job: chooses its name, creates the job, and prints where it is."""

import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trackside.coordination.host_files import first_files
from trackside.errors import InvalidSpec, JobExists
from trackside.files import durable
from trackside.files.installed_packages import installed_packages
from trackside.inside.attached_run import AttachedRun, abandon
from trackside.inside.exception_text import code_folder, main_script
from trackside.inside.request import InitArguments, make_spec
from trackside.inside.run import notify
from trackside.jobs.jobs import Jobs
from trackside.profiles import chosen_server
from trackside.records.attached_process import this_process
from trackside.records.layout import JobFolder, JobKeys
from trackside.records.script_packages import ScriptPackages
from trackside.records.spec import JOB_NAME, JobSpec
from trackside.sdk.debug_request import rule_violations, source_files
from trackside.sdk.git_state import GitReader, git_of
from trackside.sdk.launch import with_launch
from trackside.sdk.naming import base_of
from trackside.sdk.recorded_files import git_diff, script_alone
from trackside.settings import Settings, environment
from trackside.texts.unique_names import unique_name

MOST_CHARACTERS = 63


@dataclass(frozen=True, slots=True)
class _Target:
    """Where runs of this process are stored, and which command shows them."""

    jobs: Jobs
    output: str
    command: str
    home: str

    @classmethod
    def find(cls) -> "_Target":
        settings, variables = Settings.load(), environment()
        output, command = settings.output, "trackside"
        if chosen_server(variables, settings.home) is not None:
            command = "TRACKSIDE_URL=embedded trackside"
            if output.startswith("s3://"):  # in this process that is the server's
                output = str(settings.layout.buckets / "trackside")
        return cls(Jobs(settings.embedded, variables), output, command, str(settings.home))


def begin(
    given: InitArguments, name: str | None, *, is_interactive: bool, console: bool
) -> AttachedRun:
    """`InvalidSpec` for invalid arguments. If it raises anything, there is no run."""
    target = _Target.find()
    spec, folder = _make_job(given, name, target)
    notify(f"{spec.name} is kept in {target.home}. `{target.command} show {spec.name}`")
    try:
        return AttachedRun(
            target.jobs,
            spec,
            folder,
            rules=given.rules,
            is_interactive=is_interactive,
            command=target.command,
            console=console,
        )
    except Exception as error:
        abandon(folder, error)
        raise


def _make_job(given: InitArguments, name: str | None, target: _Target) -> tuple[JobSpec, JobFolder]:
    free = unique_name(name or given.project or _script())
    with git_of(Path(code_folder())) as git:
        if name is not None:
            try:
                return _attach(_valid(name), given, target, git)
            except JobExists as error:
                notify(f"there is a run {error.name!r} already; this one is {free!r}")
        return _attach(free, given, target, git)


def _attach(
    name: str, given: InitArguments, target: _Target, git: GitReader
) -> tuple[JobSpec, JobFolder]:
    spec = make_spec(name, given, target.output, notify)
    keys, rules = JobKeys.of(spec), given.rules or ()
    if problems := [*rule_violations(rules, keys)]:
        raise InvalidSpec(problems)
    files = {uri: path.read_bytes() for uri, path in source_files(rules, keys).items()}
    # The command is an option of its own: it is what runs.
    spec = with_launch(git.added_to(spec), (), git.folder)
    files |= git_diff(keys, git) | script_alone(keys, main_script())
    folder = target.jobs.attach(spec, this_process(), files=files)
    _record_packages(folder)
    return spec, folder


def _record_packages(folder: JobFolder) -> None:
    """For the supervisor, as the toolkit does for other jobs."""
    found = ScriptPackages(sys.version.split()[0], installed_packages(sys.path))
    with suppress(OSError):
        durable.write_record(first_files(folder).packages, found, lasts=False)


def _script() -> str:
    """The default name of a run."""
    script = main_script()
    return base_of(None if script is None else str(script), None) or "notebook"


def _valid(name: str) -> str:
    """Unchanged, or adapted to a valid job name."""
    if re.fullmatch(JOB_NAME, name):
        return name
    return re.sub("[^a-zA-Z0-9]+", "-", name)[:MOST_CHARACTERS].strip("-") or "run"
