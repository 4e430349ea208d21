"""Watches for hangs before the first step, when there is no hook yet."""

import logging
from pathlib import Path

from trackside.capture.environment import CaptureEnvironment
from trackside.capture.hangs.last_words import leave_to_script

logger = logging.getLogger(__name__)


def watch_from_start(environment: CaptureEnvironment) -> None:
    """Where the trial is in a folder of this machine; else the hook begins it."""
    # Every Python that the script starts loads this module: what few need is loaded here.
    from trackside.capture.hangs.ends import note_ends_of_children
    from trackside.capture.hangs.watch import start_watch
    from trackside.capture.selection.configuration import read_configuration

    try:
        out_dir = read_configuration(environment.hook_config, environment).out_dir
        if not out_dir.startswith("/"):
            return
        folder = Path(out_dir)
        leave_to_script()
        start_watch(environment, lambda name, text: _put(folder / name, text), folder)
        note_ends_of_children(folder)
    except Exception:  # nothing here may fail a training
        logger.debug("Hangs before the first step are not watched.", exc_info=True)


def _put(path: Path, text: str) -> None:
    from trackside.files import durable
    from trackside.files.permissions import BY_UMASK

    path.parent.mkdir(parents=True, exist_ok=True)
    durable.write_bytes(path, text.encode(), mode=BY_UMASK, spends_ballast=False, lasts=False)
