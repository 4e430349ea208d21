"""Watches torch's data loaders: how much there is to load, and how long training waits for it."""

import time
from dataclasses import asdict, dataclass
from typing import Any

from torch.utils.data.dataloader import _BaseDataLoaderIter

from trackside.capture.model.wrapping import Wrapping

_MOST_LOADERS = 16


@dataclass(slots=True)
class _Loader:
    num_samples: int | None
    batch_size: int | None
    sampler: str
    num_passes: int = 0
    """Iterators made, as far as a batch was taken from them."""
    num_batches: int = 0
    wait_seconds: float = 0.0


class LoaderWatch:
    """One entry for each data set and batch size that batches were taken of."""

    def __init__(self) -> None:
        self._wrapping = Wrapping()
        self._loaders: dict[tuple[int, int | None], _Loader] = {}
        self._began = 0.0

    def install(self) -> None:
        # Every kind of loader's iterator inherits it.
        self._wrapping.wrap(
            _BaseDataLoaderIter, "__next__", before=self._on_next, after=self._after_next
        )

    def remove(self) -> None:
        self._wrapping.undo()

    def to_json(self) -> list[dict[str, Any]]:
        return [asdict(loader) for loader in self._loaders.values()]

    def _on_next(self, iterator: Any) -> None:
        self._began = time.perf_counter()

    def _after_next(self, batch: Any, iterator: Any) -> None:
        waited = time.perf_counter() - self._began
        loader = self._known(iterator)
        if loader is not None:
            # `_num_yielded` counts the batches of this pass, this one included.
            loader.num_passes += loader.num_batches == 0 or iterator._num_yielded == 1
            loader.num_batches += 1
            loader.wait_seconds += waited

    def _known(self, iterator: Any) -> _Loader | None:
        data = getattr(iterator, "_dataset", None)
        indices = getattr(iterator, "_index_sampler", None)
        batch_size = getattr(indices, "batch_size", None)
        key = (id(data), batch_size)
        if key not in self._loaders and len(self._loaders) < _MOST_LOADERS:
            sampler = type(getattr(indices, "sampler", indices)).__name__
            self._loaders[key] = _Loader(_length(data), batch_size, sampler)
        return self._loaders.get(key)


def _length(data: Any) -> int | None:
    try:
        return len(data)
    except (TypeError, NotImplementedError):
        return None  # it is a stream
