"""Trials that people look at: opened once, and read further while their job runs."""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from trackside.capture.exceptions import SMDebugError
from trackside.capture.trial import Trial
from trackside.errors import NoTensors
from trackside.jobs.records import Record
from trackside.records.layout import Home, tensors_of
from trackside.rules.saved.open_trial import open_trial
from trackside.storage.locate import locate_to_read
from trackside.views.table.kept_figures import KeptFigures
from trackside.views.tensors.trial_sample import Sample, sample_of

FRESH_SECONDS = 1.0
"""How long what was read of a running job counts as current."""
_MOST_OPEN = 16


@dataclass(slots=True)
class _Opened:
    trial: Trial | None = None
    read_at: float = 0.0
    is_final: bool = False
    """Everything was read after the job's end."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class OpenTrials:
    """The trials that were looked at last. One thread at a time reads each."""

    def __init__(self, home: Home, most_open: int = _MOST_OPEN) -> None:
        self.kept = KeptFigures(home)
        self._home = home
        self._most_open = most_open
        self._open: OrderedDict[tuple[Any, ...], _Opened] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def get(self, record: Record) -> Iterator[Trial]:
        """For the block, with all that is there now. `NoTensors` if nothing was saved."""
        name = record.spec.name
        if record.spec.debug_hook is None:
            raise NoTensors(
                f"Job {name!r} saves no tensors. Start one with --capture "
                "gradients,weights,losses, or give debugger_hook_config in the SDK."
            )
        opened = self._opened((name, record.history.created))
        with opened.lock:
            self._refresh(opened, record)
            if opened.trial is None:
                raise NoTensors(f"Job {name!r} has saved no tensors yet.")
            yield opened.trial

    def sample(self, record: Record) -> Sample | None:
        """Some of the files of a trial that is not open yet and takes long to open, for a first
        picture; None if it is better taken whole."""
        key = (record.spec.name, record.history.created)
        with self._lock:
            known = self._open.get(key)
        where = tensors_of(record.spec, record.keys)
        if (known is not None and known.trial is not None) or where is None:
            return None
        try:
            return sample_of(locate_to_read(where, home=self._home.root))
        except SMDebugError:
            return None  # opening it whole tells why

    def _opened(self, key: tuple[Any, ...]) -> _Opened:
        with self._lock:
            opened = self._open.setdefault(key, _Opened())
            self._open.move_to_end(key)
            while len(self._open) > self._most_open:
                self._open.popitem(last=False)
            return opened

    def _refresh(self, opened: _Opened, record: Record) -> None:
        is_fresh = time.monotonic() - opened.read_at < FRESH_SECONDS
        if opened.is_final or (opened.trial is not None and is_fresh):
            return
        where = tensors_of(record.spec, record.keys)
        assert where is not None
        try:
            if opened.trial is None:
                opened.trial = open_trial(
                    locate_to_read(where, home=self._home.root), self._home.root
                )
            if opened.trial is not None:
                if record.history.state.is_final:
                    opened.trial.end()  # with or without a marker
                opened.trial.refresh_data()
        except SMDebugError as error:
            raise NoTensors(
                f"The tensors of job {record.spec.name!r} cannot be read: {error}"
            ) from error
        if opened.trial is not None:
            opened.trial.dynamic_refresh = False
            opened.read_at = time.monotonic()
            opened.is_final = record.history.state.is_final
