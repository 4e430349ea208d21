"""Histograms: how values are counted, merged into fewer buckets, and refused."""

from pathlib import Path

import pytest
import torch

from trackside import curves
from trackside.curves.event_writer import SummaryWriter
from trackside.curves.histograms import Histogram


def test_more_buckets_than_allowed_are_merged(tmp_path: Path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("merged", range(10), 1, bins=range(11), max_bins=3)
    ((histogram,),) = curves.read(tmp_path).histograms.values()
    # Ten buckets of one value each make buckets of four, four and two; the first is empty.
    assert histogram.counts == (0, 4, 4, 2)
    assert histogram.limits == (0, 4, 8, 10)


def test_a_bfloat16_tensor_is_counted():
    assert Histogram("weights", torch.ones(3, dtype=torch.bfloat16), "tensorflow", None).encode()


def test_a_histogram_without_values_is_refused():
    with pytest.raises(ValueError, match="at least one value"):
        Histogram("weights", [], "tensorflow", None)


def test_values_outside_all_edges_are_refused():
    with pytest.raises(ValueError, match="No value of histogram 'weights' is between its edges"):
        Histogram("weights", [5.0], [0, 1], None).encode()
