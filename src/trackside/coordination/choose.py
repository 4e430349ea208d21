"""Chooses how the hosts of a job coordinate. The only place that knows all the ways."""

from trackside.coordination.coordination import Coordination
from trackside.coordination.folder import FolderCoordination
from trackside.records.layout import JobFolder
from trackside.records.spec import JobSpec
from trackside.settings import Settings


def coordination_of(
    folder: JobFolder, spec: JobSpec, host: str, attempt: int, settings: Settings
) -> Coordination:
    return FolderCoordination(folder, spec.hosts, host, attempt)
