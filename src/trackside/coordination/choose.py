"""Chooses how the hosts of a job coordinate. The only place that knows all the ways."""

from trackside.coordination.coordination import Coordination
from trackside.coordination.folder import FolderCoordination
from trackside.records.group import read_group
from trackside.records.layout import JobFolder
from trackside.records.spec import JobSpec
from trackside.settings import Settings


def coordination_of(
    folder: JobFolder, spec: JobSpec, host: str, attempt: int, settings: Settings
) -> Coordination:
    group = read_group(folder)
    if group is None:
        return FolderCoordination(folder, spec.hosts, host, attempt)
    if group.shares_files:
        return FolderCoordination(
            folder,
            spec.hosts,
            host,
            attempt,
            is_one_machine=False,
            lease_seconds=settings.lease_seconds,
            beat_seconds=settings.heartbeat_seconds,
        )
    # Imported here: it takes threads and an object store's client, which one machine does without.
    from trackside.coordination.store import StoreCoordination

    return StoreCoordination(folder, spec, host, attempt, settings, group)
