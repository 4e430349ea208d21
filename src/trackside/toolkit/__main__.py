"""`train`: the entry point of a SageMaker training container. Standard library only.

The exit status is 0 only if the script itself succeeded.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from trackside.errors import CommandFailed
from trackside.toolkit import log, outcome
from trackside.toolkit.entry_point import EntryPoint, Interpreter, Kind, find_entry_point
from trackside.toolkit.environment import (
    Job,
    base_folder,
    exit_record,
    export,
    read_job,
    read_settings,
    script_variables,
    secrets_of_process,
    take_log,
)
from trackside.toolkit.launch import run_script
from trackside.toolkit.process import StopSignals
from trackside.toolkit.script import SCRIPT_ERROR
from trackside.toolkit.variables import accepted, check_arguments, sm_variables

if TYPE_CHECKING:
    from trackside.toolkit.intermediate import IntermediateUpload

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Stubs of packages that scripts import, each in its own folder, used if the package is missing.
ALIASES = {
    "sagemaker_training": os.path.join(PACKAGE, "toolkit", "aliases"),
    "smdebug": os.path.join(PACKAGE, "smdebug_alias"),
}
# Has a `sitecustomize` that watches scripts without any capture code.
WATCHING = os.path.join(PACKAGE, "capture", "site")


def main() -> int:
    signals = StopSignals()
    signals.install()
    output = os.path.join(base_folder(), "output")
    secrets = secrets_of_process()
    log.read_from(take_log())
    try:
        job = read_job(read_settings())
        secrets += job.secrets
        _train(job, signals)
    except BaseException as failed:  # noqa: BLE001 the outermost one: each has to be reported
        signals.only_remember()
        if not _is_success(failed):
            return _report_failure(failed, output, secrets)
    signals.only_remember()
    log.info("Reporting training SUCCESS")
    outcome.mark_success(output)
    outcome.record_exit(exit_record(), 0)
    return 0


def _train(job: Job, signals: StopSignals) -> None:
    environment = job.environment
    log.set_level(environment.log_level)
    upload = _upload(job)
    folders = (
        job.code_dir,
        environment.model_dir,
        environment.output_data_dir,
        environment.output_intermediate_dir,
    )
    for folder in folders:
        os.makedirs(folder, exist_ok=True)
    outcome.clear(environment.output_dir)
    try:
        _run(job, signals)
    finally:
        if upload is not None:
            upload.close()


def _upload(job: Job) -> IntermediateUpload | None:
    if job.s3_output is None:
        return None
    from trackside.toolkit.intermediate import start_upload  # on other platforms only

    return start_upload(job)


def _run(job: Job, signals: StopSignals) -> None:
    if job.environment.framework_module:
        _call_training_module(job, signals)
        return
    if job.source is not None:
        from trackside.toolkit.source import provide_source  # tarfile: 15 ms

        provide_source(job.source, job.code_dir, job.settings)
    os.chdir(job.code_dir)
    entry_point = _entry_point(job)
    interpreter = _interpreter(job, entry_point, signals)
    folders = [*_packages_of(interpreter.overlay), *sys.path]
    packages = outcome.Packages(exit_record(), folders)
    try:
        _wait_for_hosts(job)
        variables = _variables(job, interpreter)
        run_script(job, entry_point, interpreter, variables, signals, packages.record)
    finally:
        packages.record()
        if interpreter.is_temporary:
            from trackside.toolkit.install import discard

            discard(interpreter)


def _entry_point(job: Job) -> EntryPoint:
    if job.program is not None:
        return EntryPoint(job.program, Kind.GIVEN)
    if job.module is not None:
        return EntryPoint(job.module, Kind.MODULE)
    return find_entry_point(job.environment.user_entry_point, job.code_dir)


def _call_training_module(job: Job, signals: StopSignals) -> None:
    from trackside.toolkit.custom_command import call_training_module  # only here

    export(_variables(job, Interpreter(sys.executable)))
    signals.forward_to_own_group()
    call_training_module(job.environment.framework_module or "", job.environment.log_level)


def _interpreter(job: Job, entry_point: EntryPoint, signals: StopSignals) -> Interpreter:
    wants_path = entry_point.kind.starts_programs and job.settings.overlays is not None
    has_requirements = os.path.isfile("requirements.txt")
    if not (wants_path or has_requirements or entry_point.kind is Kind.PACKAGE):
        return Interpreter(sys.executable)
    from trackside.toolkit.install import install, put_on_path  # hashing, locks: 10 ms

    interpreter = install(job, entry_point, signals)
    return put_on_path(job, interpreter) if wants_path else interpreter


def _variables(job: Job, interpreter: Interpreter) -> dict[str, str]:
    check_arguments(job.arguments)
    overlay = interpreter.overlay
    paths = [*sys.path, *_packages_of(overlay)]
    return script_variables(
        {**accepted(sm_variables(job.environment, job.arguments)), **job.exports},
        code=job.code_dir,
        ahead=[WATCHING] if job.settings.is_watched else [],
        aliases=[
            *(folder for name, folder in ALIASES.items() if not _is_installed(name, paths)),
            *([job.settings.library] if job.settings.library else []),
        ],
        programs=interpreter.programs or ([os.path.join(overlay, "bin")] if overlay else []),
    )


def _packages_of(overlay: str | None) -> list[str]:
    if overlay is None:
        return []
    from trackside.toolkit.overlay import packages_of  # already imported, to create it

    return [packages_of(overlay)]


def _is_installed(name: str, paths: list[str]) -> bool:
    return any(os.path.isdir(os.path.join(path, name)) for path in paths)


def _wait_for_hosts(job: Job) -> None:
    if len(job.environment.hosts) == 1 or job.settings.is_studio_local:
        return
    from trackside.toolkit.hosts import wait_for_each_other, wait_for_names  # socket: 6 ms

    hosts, seconds = job.environment.hosts, job.settings.host_wait_seconds
    if job.settings.hosts_folder is None:
        wait_for_names(hosts, seconds)
    else:
        own = job.environment.current_host
        wait_for_each_other(hosts, own, job.settings.hosts_folder, seconds)


def _is_success(failed: BaseException) -> bool:
    """A framework's function may end with sys.exit(0)."""
    return isinstance(failed, SystemExit) and failed.code in (None, 0)


def _report_failure(failed: BaseException, output: str, secrets: list[str]) -> int:
    from trackside.toolkit.failure import compose  # traceback: 10 ms

    text = compose(failed, secrets)
    log.error(f"Reporting training FAILURE\n{text}")
    outcome.mark_failure(output, text)
    code = None
    if isinstance(failed, CommandFailed) and failed.kind == SCRIPT_ERROR:
        code = failed.exit_code
    outcome.record_exit(exit_record(), code)
    return 1


if __name__ == "__main__":
    sys.exit(main())
