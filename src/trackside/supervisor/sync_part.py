"""The base of everything that is uploaded while a job runs: its state and its clocks."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable

from trackside.records.hosts import SyncState
from trackside.storage.locate import Location


class SyncPart(ABC):
    """Something that is uploaded incrementally. Not thread-safe: its `Syncer`'s thread owns it."""

    is_generated = False
    """Its files are our own, written at intervals: that is no activity of the script."""
    is_of_hook = False
    """Our hook writes its files while the script trains, and its evaluator reads them where they
    are: news of it alone is uploaded at the idle pause."""
    keeps_older = False
    """The script was killed: a file that it was writing then is incomplete, and does not replace a
    complete older version.
    """

    def __init__(self, name: str, to: Location) -> None:
        self.name = name
        self.state = SyncState(to=to.uri, last=time.time())
        self.synced_at = self.alive_at = time.monotonic()
        """Monotonic: when everything had been uploaded, and when the store last took something.
        A system clock that is set can hide no lag."""
        self._to = to

    @property
    def is_unused(self) -> bool:
        """Nothing was found to upload, and it need not be listed among a host's syncs."""
        return False

    @abstractmethod
    def tick(self, *, last: bool = False) -> None:
        """Upload what is new and complete (`last`: everything). Raises what the store raises."""

    def _set_alive(self) -> None:
        self.alive_at = time.monotonic()

    def _set_synced(self, when: tuple[float, float]) -> None:
        """Everything that existed at `when`, by `now`, is uploaded."""
        self.state.last, self.synced_at = when

    def _set_pending(self, sizes: Iterable[int]) -> None:
        """The pending bytes, by file."""
        pending = list(sizes)
        self.state.pending_files = len(pending)
        self.state.pending_bytes = sum(max(0, size) for size in pending)


def now() -> tuple[float, float]:
    """By the system's clock and by the monotonic one."""
    return time.time(), time.monotonic()
