"""Where a job's event files are now: in its folder while it runs here, in storage afterwards."""

from trackside.jobs.records import Record
from trackside.layout import Home, HostFolder, curves_of
from trackside.storage.locate import Location, locate


def curve_places(record: Record, home: Home) -> list[Location]:
    """Several while it runs: of each host and attempt, the script's files and the supervisor's."""
    if record.folder is None or record.history.state.is_final:
        return [locate(curves_of(record.spec, record.keys), home=home.root)]
    attempts = range(1, record.history.attempt + 1)
    folders = [
        folder
        for attempt in attempts
        for host in record.spec.hosts
        for folder in _folders(record, record.folder.host(host, attempt))
    ]
    return [locate(folder, home=home.root) for folder in folders]


def _folders(record: Record, host: HostFolder) -> list[str]:
    written = [host.inside(record.spec.tensorboard.local_path)] if record.spec.tensorboard else []
    return [str(path) for path in (*written, host.curves)]
