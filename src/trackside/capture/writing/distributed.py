"""Which of several training processes this one is, and which of them writes."""

import logging
import os
import sys
from pathlib import Path

import torch

from trackside.capture.trial_layout import CLAIM

logger = logging.getLogger(__name__)


def rank_and_size() -> tuple[int, int]:
    """Of the process group if there is one by now; a lone process is 0 of 1."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    horovod = sys.modules.get("horovod.torch")
    if horovod is not None and horovod.is_initialized():
        return horovod.rank(), horovod.size()
    return 0, 1


def claim(folder: Path) -> bool:
    """Be the one writer among processes that form no group. A dead process loses its claim."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / CLAIM
    for _ in range(2):
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            if _is_alive(path):
                return False
            path.unlink(missing_ok=True)
            continue
        with os.fdopen(descriptor, "w") as file:
            file.write(str(os.getpid()))
        return True
    return False


def release(folder: Path) -> None:
    path = folder / CLAIM
    if path.is_file() and path.read_text() == str(os.getpid()):
        path.unlink(missing_ok=True)


def _is_alive(path: Path) -> bool:
    try:
        pid = int(path.read_text())
        os.kill(pid, 0)
    except (ProcessLookupError, FileNotFoundError):
        return False
    except (ValueError, PermissionError):
        return True
    return pid != os.getpid()
