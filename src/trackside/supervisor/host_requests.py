"""What a host does when it is asked to while its script runs: see `Coordination.request`."""

import logging

from trackside.coordination.coordination import FLIGHT_RECORDER, Request
from trackside.records.layout import HostFolder
from trackside.records.spec import JobSpec

logger = logging.getLogger(__name__)

_DUMP = "dump-requested"
"""The file that the hook looks for at the end of each step: `capture/trial_layout`."""


def fulfil(request: Request, spec: JobSpec, folder: HostFolder) -> None:
    if request.what == FLIGHT_RECORDER:
        _ask_hook(spec, folder)
    else:
        logger.warning("%r is not known to this version, and is left out", request.what)


def _ask_hook(spec: JobSpec, folder: HostFolder) -> None:
    """Have it write its last steps. The script can write there too: links are not followed."""
    if spec.debug_hook is None:
        return
    tensors = folder.script_folder(folder.inside(spec.debug_hook.local_path))
    if not tensors.is_dir():
        logger.warning("the hook cannot be asked: it has no folder")
        return
    try:
        tensors.write(_DUMP, b"")
    except OSError as error:
        logger.warning("the hook cannot be asked: %s", error)
