"""Watches torch's data loaders: data set sizes, what they are used for, and how long training waits
for them.
"""

import time
from collections import deque
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from torch.utils.data.dataloader import DataLoader, _BaseDataLoaderIter

from trackside.capture.model.function_patches import FunctionPatch
from trackside.capture.model.values import tensors_in

_MOST_LOADERS = 16
_NUM_WAITS = 256

_making = FunctionPatch()
_made: dict[tuple[int, int | None], tuple[int | None, str]] = {}
"""Data set and batch size of loaders, whether used or not, to number of samples and sampler."""


@dataclass(slots=True)
class _Loader:
    num_samples: int | None
    batch_size: int | None
    sampler: str
    num_passes: int = 0
    """Iterators from which a batch was taken."""
    num_batches: int = 0
    num_trained: int = 0
    """Batches that a training step began with."""
    num_evaluated: int = 0
    """Batches that a step of evaluation began with."""
    wait_seconds: float = 0.0
    values_per_sample: int | None = None
    """Of the first tensor of the first batch."""
    waits: deque[float] = field(default_factory=lambda: deque(maxlen=_NUM_WAITS))
    """The last of them."""

    def to_json(self) -> dict[str, Any]:
        described = asdict(self)
        waits = described.pop("waits")
        return described | {"median_wait_seconds": median(waits) if waits else None}


class LoaderWatch:
    """One entry per data set and batch size that batches were taken from; and, if the creation of
    loaders is recorded, for the other loaders.
    """

    def __init__(self) -> None:
        self._wrapping = FunctionPatch()
        self._loaders: dict[tuple[int, int | None], _Loader] = {}
        self._began = 0.0
        self._last: _Loader | None = None
        """That of the newest batch, until a step begins with it."""

    def install(self) -> None:
        # Every kind of loader's iterator inherits it.
        self._wrapping.wrap(
            _BaseDataLoaderIter, "__next__", before=self._on_next, after=self._after_next
        )

    def remove(self) -> None:
        self._wrapping.undo()

    def see_step(self, trains: bool) -> None:
        loader, self._last = self._last, None
        if loader is not None and trains:
            loader.num_trained += 1
        elif loader is not None:
            loader.num_evaluated += 1

    def to_json(self) -> list[dict[str, Any]]:
        unused = [
            _Loader(num_samples, key[1], sampler)
            for key, (num_samples, sampler) in _made.items()
            if key not in self._loaders
        ]
        return [loader.to_json() for loader in (*self._loaders.values(), *unused)]

    def _on_next(self, iterator: Any) -> None:
        self._began = time.perf_counter()

    def _after_next(self, batch: Any, iterator: Any) -> None:
        waited = time.perf_counter() - self._began
        loader = self._last = self._known(iterator)
        if loader is not None:
            # `_num_yielded` counts the batches of this pass, this one included.
            if not loader.num_batches:
                loader.values_per_sample = _values_per_sample(batch, loader.batch_size)
            loader.num_passes += loader.num_batches == 0 or iterator._num_yielded == 1
            loader.num_batches += 1
            loader.wait_seconds += waited
            loader.waits.append(waited)

    def _known(self, iterator: Any) -> _Loader | None:
        data = getattr(iterator, "_dataset", None)
        indices = getattr(iterator, "_index_sampler", None)
        batch_size = getattr(indices, "batch_size", None)
        key = (id(data), batch_size)
        if key not in self._loaders and len(self._loaders) < _MOST_LOADERS:
            self._loaders[key] = _Loader(_length(data), batch_size, _sampler(indices))
        return self._loaders.get(key)


def _values_per_sample(batch: Any, batch_size: int | None) -> int | None:
    """None if the batch is not one tensor, or several, of that many samples."""
    try:
        first = next(iter(tensors_in(batch)), None)
    except Exception:  # noqa: BLE001 the script's own class, whose members may not be usable
        return None
    if first is None or not first.dim() or first.shape[0] != batch_size:
        return None
    return first.numel() // first.shape[0]


def note_made() -> None:
    """Record every loader created from here on; call before the script creates any."""
    _making.wrap(DataLoader, "__init__", after=_on_made)


def _on_made(_: None, loader: Any, *__: Any, **___: Any) -> None:
    if len(_made) >= _MOST_LOADERS:
        return
    try:
        num_samples = _length(loader.dataset)
    except Exception:  # noqa: BLE001 the script's own class, whose length may not be usable
        return
    sampler = _sampler(getattr(loader, "batch_sampler", None))
    _made[id(loader.dataset), loader.batch_size] = (num_samples, sampler)


def _sampler(indices: Any) -> str:
    return type(getattr(indices, "sampler", indices)).__name__


def _length(data: Any) -> int | None:
    try:
        return len(data)
    except (TypeError, NotImplementedError):
        return None  # it is a stream
