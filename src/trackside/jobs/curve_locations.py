"""Where a job's event files are now: in its folder while it runs here, in storage afterwards."""

from collections.abc import Callable
from pathlib import Path

from trackside.coordination.host_files import files_of
from trackside.jobs.records import Record
from trackside.records import kept_list
from trackside.records.layout import TENSORBOARD, Home, HostFolder, curves_of
from trackside.storage.locate import Location, locate, locate_to_read


def curve_places(record: Record, home: Home) -> list[Location]:
    """Several while it runs: per host and attempt, the script's files and the supervisor's.

    All from storage where the script's files can only be read there: those in its working folder,
    which has other files too, and those of a job that runs as another user and may create links.
    """
    if record.history.run_as.user or _has_some_beside_it(record):
        return [locate_to_read(curves_of(record.spec, record.keys), home=home.root)]
    return _places(record, home, lambda host: [*_written(record, host), host.curves])


def own_curve_places(record: Record, home: Home, run: str) -> list[Location]:
    """The supervisors' own files of one kind: `trackside` or `system`, with a run per host."""
    places = _places(record, home, lambda host: [host.curves])
    return [place.child(run) for place in places]


def _places(
    record: Record, home: Home, folders: Callable[[HostFolder], list[Path]]
) -> list[Location]:
    if record.folder is None or record.history.state.is_final:
        return [locate_to_read(curves_of(record.spec, record.keys), home=home.root)]
    return [
        locate(folder, home=home.root)
        for attempt in range(1, record.history.attempt + 1)
        for host in record.spec.hosts
        for folder in folders(files_of(record.folder, host, attempt))
    ]


def _has_some_beside_it(record: Record) -> bool:
    if record.folder is None or record.history.state.is_final:
        return False
    lists = (
        kept_list.read(files_of(record.folder, host, attempt).kept_list(host))
        for attempt in range(1, record.history.attempt + 1)
        for host in record.spec.hosts
    )
    return any(found is not None and found.events for found in lists)


def _written(record: Record, host: HostFolder) -> list[Path]:
    tensorboard = record.spec.tensorboard
    paths = [tensorboard.local_path.rstrip("/")] if tensorboard else []
    return [host.inside(path) for path in dict.fromkeys([*paths, TENSORBOARD])]
