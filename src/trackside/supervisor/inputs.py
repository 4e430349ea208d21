"""What a host needs before its script starts: the code, its checkpoints, its channels."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from trackside.errors import InputError, ObjectNotFound
from trackside.extract import extract
from trackside.hosts import Progress
from trackside.layout import HostFolder
from trackside.spec import JobSpec
from trackside.storage.locate import Location, locate


class StopFlag(Protocol):
    def is_set(self) -> bool: ...
