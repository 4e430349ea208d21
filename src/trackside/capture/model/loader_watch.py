"""Watches torch's data loaders: data set sizes, what they are used for, and how long training waits
for them.
"""

import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.utils.data.dataloader import DataLoader, _BaseDataLoaderIter
from torch.utils.data.distributed import DistributedSampler
from torch.utils.data.sampler import RandomSampler

from trackside.capture.model.function_patches import FunctionPatch
from trackside.capture.model.values import tensors_in

_MOST_LOADERS = 16
_NUM_WAITS = 256
_ELSEWHERE = 2
"""Batches: one may be fetched in advance."""
_FEWEST_WEIGHTS, _MOST_WEIGHTS, _MOST_CLASSES, _ROUNDING = 16, 1 << 20, 1000, 1e-4
"""Of a sampler: weights that are compared with how often each occurs, up to rounding."""
_CHECKED = 1 << 16
"""Values of a batch that are compared with those of another."""

_making = FunctionPatch()
_made: dict[tuple[int, int | None], tuple[int | None, str, bool]] = {}
"""Data set and batch size of loaders, whether used or not, to number of samples, sampler, and
whether a last batch that is not full is left out."""


@dataclass(slots=True)
class _Loader:
    num_samples: int | None
    batch_size: int | None
    sampler: str
    is_weighted_by_counts: bool = False
    """Samples are drawn by weights that are exactly as large as their kind is frequent."""
    is_shuffled: bool = False
    drops_last: bool = False
    """A last batch that is not full is left out."""
    num_workers: int = 0
    num_passes: int = 0
    """Iterators from which a batch was taken."""
    num_used_up: int = 0
    """How often an iterator was asked for more after its end."""
    num_batches: int = 0
    num_trained: int = 0
    """Batches that a training step began with."""
    num_evaluated: int = 0
    """Batches that a step of evaluation began with."""
    wait_seconds: float = 0.0
    longest_wait_seconds: float = 0.0
    """But for the first batch of a pass, for which workers start."""
    values_per_sample: int | None = None
    """Of the first tensor of the first batch."""
    num_rows: int | None = None
    """Length of that tensor."""
    num_same_starts: int = 0
    """Passes that began with the very batch that the pass before began with."""
    num_altered_starts: int = 0
    """Passes that began with the same class labels as the one before, and with other inputs."""
    start: int | None = None
    """A checksum of that batch."""
    labels: int | None = None
    """The same of its class labels, if it has several of them."""
    waits: deque[float] = field(default_factory=lambda: deque(maxlen=_NUM_WAITS))
    """The last of them."""

    def to_json(self) -> dict[str, Any]:
        described = asdict(self)
        waits = described.pop("waits")
        described.pop("start")
        described.pop("labels")
        return described | {"median_wait_seconds": median(waits) if waits else None}


class LoaderWatch:
    """One entry per data set and batch size that batches were taken from; and, if the creation of
    loaders is recorded, for the other loaders.
    """

    def __init__(self) -> None:
        self._wrapping = FunctionPatch()
        self._loaders: dict[tuple[int, int | None], _Loader] = {}
        self._began = 0.0
        self._unanswered: weakref.WeakSet[Any] = weakref.WeakSet()
        """Iterators that were asked for a batch and returned none, as at their end."""
        self._last: _Loader | None = None
        """That of the newest batch, until a step begins with it."""
        self._num_elsewhere = 0
        """Batches in a row that no step began with: another model gets them."""
        self.on_elsewhere: Callable[[], None] | None = None

    def install(self) -> None:
        # Every kind of loader's iterator inherits it.
        self._wrapping.wrap(
            _BaseDataLoaderIter, "__next__", before=self._on_next, after=self._after_next
        )

    def remove(self) -> None:
        self._wrapping.undo()

    def see_step(self, trains: bool) -> None:
        loader, self._last = self._last, None
        self._num_elsewhere = 0
        if loader is not None and trains:
            loader.num_trained += 1
        elif loader is not None:
            loader.num_evaluated += 1

    def to_json(self) -> list[dict[str, Any]]:
        unused = [
            _Loader(num_samples, key[1], sampler, drops_last=drops_last)
            for key, (num_samples, sampler, drops_last) in _made.items()
            if key not in self._loaders
        ]
        return [loader.to_json() for loader in (*self._loaders.values(), *unused)]

    def _on_next(self, iterator: Any) -> None:
        # With workers that persist, the same one begins again at 0.
        if iterator in self._unanswered and iterator._num_yielded:
            loader = self._known(iterator)
            if loader is not None:
                loader.num_used_up += 1
        self._num_elsewhere += self._last is not None
        if self._num_elsewhere == _ELSEWHERE and self.on_elsewhere is not None:
            self.on_elsewhere()
        self._unanswered.add(iterator)
        self._began = time.perf_counter()

    def _after_next(self, batch: Any, iterator: Any) -> None:
        waited = time.perf_counter() - self._began
        self._unanswered.discard(iterator)
        loader = self._last = self._known(iterator)
        if loader is not None:
            # `_num_yielded` counts the batches of this pass, this one included.
            if not loader.num_batches:
                loader.num_rows, loader.values_per_sample = _sizes(batch, loader.batch_size)
            begins = loader.num_batches == 0 or iterator._num_yielded == 1
            loader.num_passes += begins
            if begins:
                _note_start(loader, batch)
            elif waited > loader.longest_wait_seconds:
                loader.longest_wait_seconds = waited
            loader.num_batches += 1
            loader.wait_seconds += waited
            loader.waits.append(waited)

    def _known(self, iterator: Any) -> _Loader | None:
        data = getattr(iterator, "_dataset", None)
        indices = getattr(iterator, "_index_sampler", None)
        batch_size = getattr(indices, "batch_size", None)
        key = (id(data), batch_size)
        if key not in self._loaders and len(self._loaders) < _MOST_LOADERS:
            self._loaders[key] = _Loader(
                _length(data),
                batch_size,
                _sampler(indices),
                _is_weighted_by_counts(indices),
                _is_shuffled(indices),
                bool(getattr(indices, "drop_last", False)),
                int(getattr(iterator, "_num_workers", 0)),
            )
        return self._loaders.get(key)


def _note_start(loader: _Loader, batch: Any) -> None:
    """Once in a pass. A batch on another device is left alone: reading it would wait for it."""
    try:
        tensors = list(tensors_in(batch))
        start = _checksum(tensors[0]) if tensors else None
        labels = _labels(tensors)
    except Exception:  # noqa: BLE001 the script's own class, whose members may not be usable
        start = labels = None
    is_same = start is not None and start == loader.start
    loader.num_same_starts += is_same
    are_known = start is not None and labels is not None and loader.start is not None
    loader.num_altered_starts += are_known and not is_same and labels == loader.labels
    loader.start, loader.labels = start, labels


def _labels(tensors: list[Tensor]) -> int | None:
    """Of a batch of inputs that are amounts, and of numbers of several classes beside them."""
    if len(tensors) < 2 or not tensors[0].is_floating_point():
        return None
    classes = [each for each in tensors[1:] if each.dtype is torch.int64 and each.dim() == 1]
    if len(classes) != 1 or classes[0].device.type != "cpu" or len(classes[0].unique()) < 2:
        return None
    return _checksum(classes[0])


def _checksum(tensor: Tensor) -> int | None:
    if tensor.device.type != "cpu" or not tensor.numel() or type(tensor) is not Tensor:
        return None
    few = tensor.detach().reshape(-1)[:_CHECKED].contiguous()
    return hash(few.view(torch.uint8).numpy().tobytes())


def _sizes(batch: Any, batch_size: int | None) -> tuple[int | None, int | None]:
    """Length of the first tensor, and the values of a sample; None if the batch is not one tensor,
    or several, of that many samples."""
    try:
        first = next(iter(tensors_in(batch)), None)
    except Exception:  # noqa: BLE001 the script's own class, whose members may not be usable
        return None, None
    if first is None or not first.dim():
        return None, None
    is_whole = first.shape[0] == batch_size
    return first.shape[0], first.numel() // first.shape[0] if is_whole else None


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
    drops_last = bool(getattr(loader, "drop_last", False))
    _made[id(loader.dataset), loader.batch_size] = (num_samples, sampler, drops_last)


def _sampler(indices: Any) -> str:
    return type(getattr(indices, "sampler", indices)).__name__


def _is_shuffled(indices: Any) -> bool:
    sampler = getattr(indices, "sampler", None)
    if isinstance(sampler, DistributedSampler):
        return bool(sampler.shuffle)
    return type(sampler) is RandomSampler


def _is_weighted_by_counts(indices: Any) -> bool:
    """By a weighted sampler's weights: samples of equal weight are taken for one class."""
    weights = getattr(getattr(indices, "sampler", None), "weights", None)
    if type(weights) is not Tensor or weights.device.type != "cpu" or weights.dim() != 1:
        return False
    if not _FEWEST_WEIGHTS <= len(weights) <= _MOST_WEIGHTS:
        return False
    values, counts = torch.unique(weights.double(), return_counts=True)
    if not 2 <= len(values) <= _MOST_CLASSES or len(counts.unique()) < 2 or not bool(values[0] > 0):
        return False
    ratio = values / counts
    return bool((ratio / ratio[0] - 1).abs().max() < _ROUNDING)


def _length(data: Any) -> int | None:
    try:
        return len(data)
    except (TypeError, NotImplementedError):
        return None  # it is a stream
