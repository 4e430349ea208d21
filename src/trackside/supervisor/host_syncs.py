"""A host's uploads while its script runs: which folders, to where, and in which thread."""

from collections.abc import Callable, Collection, Sequence

from trackside.curves.log_metrics import LogMetrics, MetricsKeeper
from trackside.curves.loggers import printed_metrics
from trackside.curves.loggers.logger_files import LoggerFiles
from trackside.curves.loggers.printed_metrics import PrintedMetrics
from trackside.files.script_folder import ScriptFolder
from trackside.records import kept_list
from trackside.records.event_names import is_event_file
from trackside.records.kept_list import KeptList
from trackside.records.layout import WORKING_FOLDER, HostFolder, JobKeys, curves_of
from trackside.records.spec import JobSpec
from trackside.settings import Settings
from trackside.storage.locate import locate
from trackside.supervisor.config_files import synced_folders
from trackside.supervisor.event_sync import EventSync
from trackside.supervisor.folder_sync import FolderSync
from trackside.supervisor.kept_sync import KeptSync
from trackside.supervisor.logs import LogUploader
from trackside.supervisor.open_event_files import OpenEventFiles
from trackside.supervisor.sync_part import SyncPart
from trackside.supervisor.syncer import Syncer
from trackside.supervisor.working_folder import WorkingFolder, read_baseline


def make_syncer(
    spec: JobSpec,
    folder: HostFolder,
    host: str,
    attempt: int,
    settings: Settings,
    log: Callable[[str], None] = lambda line: None,
    root_pid: Callable[[], int | None] = lambda: None,
) -> Syncer:
    """`log` appends a line to the job's log; `root_pid` is the process that all of the script's
    descend from, while there is one."""
    files: list[SyncPart] = []
    events: list[SyncPart] = []
    kept: list[SyncPart] = []
    for seen_as, uri in synced_folders(spec).items():
        source = folder.script_folder(folder.inside(seen_as))
        to = locate(uri, home=settings.home)
        if spec.checkpoints is not None and seen_as == spec.checkpoints.local_path.rstrip("/"):
            # Event files are complete files here, too: a later attempt restores them as they were.
            files.append(FolderSync(seen_as, source, to, mirror=True, follows=events))
        else:
            is_ours = _is_read_here(spec, seen_as, source)
            files.append(FolderSync(seen_as, source, to, skip=_is_skipped, is_of_hook=is_ours))
            events.append(EventSync(f"{seen_as} (event files)", source, to, host))
    keys = JobKeys.of(spec)
    if working := _working_folder(spec, folder, settings):
        kept += _kept(working, spec, folder, host, settings, log)
        to = locate(curves_of(spec), home=settings.home)
        name = f"{WORKING_FOLDER} (event files)"
        events.append(EventSync(name, working.source, to, host, find=working.events))
    events.append(_elsewhere(spec, folder, host, settings, root_pid))
    of_script = [part for part in events if isinstance(part, EventSync)]
    metrics = locate(keys.metrics, home=settings.home)
    # In this order and one thread: the last pass over the log decides the final metrics.
    keep = _curves_keeper(spec, folder, host, working, of_script)
    to = locate(curves_of(spec), home=settings.home)
    events.append(EventSync("curves", folder.curves, to, host, fill=keep))
    events.append(FolderSync("metrics", folder.metrics, metrics, is_of_hook=True))
    environment = locate(keys.environment, home=settings.home)
    kept.append(FolderSync("environment", folder.environment, environment))
    if spec.inputs:
        data = locate(keys.data_lists, home=settings.home)
        kept.append(FolderSync("data", folder.data_lists, data))
    logs = locate(f"{keys.logs}/{host}", home=settings.home)
    # After the kept files: their last pass logs what was not kept.
    kept.append(LogUploader(folder.log, folder.log_times, logs, attempt))
    return Syncer(files, events, kept)


def folders_since(
    spec: JobSpec, folder: HostFolder, settings: Settings, known: Collection[str]
) -> list[FolderSync]:
    """Parts for the folders that the spec wants synced now and that are not known by name."""
    parts = []
    for seen_as, uri in synced_folders(spec).items():
        if seen_as not in known:
            source = folder.script_folder(folder.inside(seen_as))
            to, is_ours = locate(uri, home=settings.home), _is_read_here(spec, seen_as, source)
            parts.append(FolderSync(seen_as, source, to, skip=_is_skipped, is_of_hook=is_ours))
    return parts


def _is_read_here(spec: JobSpec, seen_as: str, source: ScriptFolder) -> bool:
    """Whether these are the hook's tensors, and the evaluator does not wait for their copy
    (`WatchedJob.trial`)."""
    hook = spec.debug_hook
    if hook is None or len(spec.hosts) > 1 or source.is_of_another:
        return False
    return seen_as == hook.local_path.rstrip("/")


def _is_skipped(path: str) -> bool:
    """Event files are uploaded by record; a claim is only for processes that share the folder."""
    return is_event_file(path) or path == "claim.smd" or path.endswith(".tmp")


def _working_folder(spec: JobSpec, folder: HostFolder, settings: Settings) -> WorkingFolder | None:
    baseline = read_baseline(folder.baseline)
    if baseline is None:
        return None
    return WorkingFolder(
        folder.working_folder(spec.options.in_place),
        baseline,
        most_bytes=settings.keep_files_gb * 1e9,
        apart=[path.removeprefix(f"{WORKING_FOLDER}/") for path in synced_folders(spec)],
        in_place=spec.options.in_place is not None,
    )


def _kept(
    working: WorkingFolder,
    spec: JobSpec,
    folder: HostFolder,
    host: str,
    settings: Settings,
    log: Callable[[str], None],
) -> list[SyncPart]:
    def list_events(paths: list[str]) -> None:
        kept_list.write(folder.kept_list(host), KeptList(host=host, events=paths))

    keys = JobKeys.of(spec)
    to = locate(keys.files_of(host), home=settings.home)
    lists = locate(keys.kept_lists, home=settings.home)
    return [
        KeptSync(WORKING_FOLDER, working, to, list_events=list_events, log=log),
        FolderSync("kept", folder.kept_lists, lists),
    ]


def _elsewhere(
    spec: JobSpec,
    folder: HostFolder,
    host: str,
    settings: Settings,
    root_pid: Callable[[], int | None],
) -> EventSync:
    """Event files in folders that no other part scans; those among checkpoints, which are uploaded
    as whole files, are curves as well."""
    checkpoints = spec.checkpoints.local_path.rstrip("/") if spec.checkpoints else ""
    covered = [path for path in (WORKING_FOLDER, *synced_folders(spec)) if path != checkpoints]
    files = OpenEventFiles(root_pid, [*covered, *(str(folder.inside(path)) for path in covered)])
    to = locate(curves_of(spec), home=settings.home)
    name = "event files elsewhere"
    return EventSync(name, folder.curves, to, host, find=files.find, opened=files.open)


def _curves_keeper(
    spec: JobSpec,
    folder: HostFolder,
    host: str,
    working: WorkingFolder | None,
    of_script: Sequence[EventSync],
) -> Callable[..., None]:
    """Writes the supervisor's own curves for TensorBoard before each upload: metrics of the log, as
    a run named after the host, and what the script logs without TensorBoard.
    """
    folder.metrics.mkdir(exist_ok=True)
    reported = folder.script_folder(folder.reported_metrics)
    source = LogMetrics(spec.algorithm.metrics, folder.log, folder.log_times, reported)
    run = f"trackside/{host}"
    keepers: list[Callable[..., None]] = [
        MetricsKeeper(source, folder.curves / run, folder.metrics / f"{host}.json").tick
    ]
    if working is not None:
        files = LoggerFiles(
            working.source,
            lambda: working.last_made,
            folder.curves,
            folder.logger_state("logger-files"),
        )
        keepers.append(files.tick)
        if not spec.algorithm.metrics:
            printed = PrintedMetrics(
                folder.log,
                folder.log_times,
                folder.curves,
                run,
                folder.logger_state(printed_metrics.STATE),
                logs_elsewhere=lambda: files.is_used or any(s.has_files for s in of_script),
            )
            keepers.append(printed.tick)

    def keep(*, last: bool = False) -> None:
        for tick in keepers:
            tick(last=last)

    return keep
