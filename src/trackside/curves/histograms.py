"""Histograms as TensorBoard stores them: counts between edges that grow by a tenth."""

from functools import lru_cache
from typing import Any

import numpy
from numpy.typing import NDArray

from trackside.curves import wire

Reals = NDArray[numpy.float64]


class Histogram:
    """Copies the values when created; counts them when encoded."""

    def __init__(self, tag: str, values: Any, bins: Any, max_bins: int | None) -> None:
        self._tag = tag
        self._values = _copied(values)
        self._bins = bins
        self._max_bins = max_bins

    def encode(self) -> bytes:
        values = self._values
        limits, counts = self._counted()
        figures = (values.min(), values.max(), values.size, values.sum(), values.dot(values))
        return wire.histogram_value(
            self._tag, map(float, figures), limits.tobytes(), counts.tobytes()
        )

    def _counted(self) -> tuple[Reals, Reals]:
        """Upper edges and counts, from one empty bucket before the first full one to the last."""
        values, bins = self._values, self._bins
        if isinstance(bins, str) and bins == "tensorflow":
            bins = default_edges()
            values = values.clip(bins[0], bins[-1])  # nothing is beyond the outermost edges
        counts, edges = numpy.histogram(values, bins=bins)
        if self._max_bins is not None and len(counts) > self._max_bins:
            counts, edges = _coarser(counts, edges, self._max_bins)
        full = numpy.flatnonzero(counts)
        if not full.size:
            raise ValueError(f"No value of histogram {self._tag!r} is between its edges.")
        first, last = int(full[0]), int(full[-1])
        # TensorBoard takes a bucket's lower edge from the one before it.
        before = counts[first - 1 : first] if first else numpy.zeros(1)
        kept = numpy.concatenate([before, counts[first : last + 1]])
        return edges[first : last + 2].astype("<f8"), kept.astype("<f8")


@lru_cache(maxsize=1)
def default_edges() -> Reals:
    """Zero, and 1e-12 times powers of 1.1 up to 1e20, on both sides."""
    positive = []
    edge = 1e-12
    while edge < 1e20:
        positive.append(edge)
        edge *= 1.1
    return numpy.array([-edge for edge in reversed(positive)] + [0.0] + positive)


def _copied(values: Any) -> Reals:
    if hasattr(values, "detach"):  # a tensor of torch, on any device
        values = values.detach().cpu()
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values
        values = values.numpy()
    copied: Reals = numpy.array(values, dtype=numpy.float64).reshape(-1)
    if not copied.size:
        raise ValueError("A histogram needs at least one value.")
    return copied


def _coarser(counts: Any, edges: Any, most: int) -> tuple[Any, Any]:
    """Neighbours merged, so that at most this many are left."""
    together = -(-len(counts) // most)
    starts = numpy.arange(0, len(counts), together)
    return numpy.add.reduceat(counts, starts), numpy.append(edges[starts], edges[-1])
