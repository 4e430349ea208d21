"""How far the running statistics of frozen batch norms move."""

import pytest
import torch
from torch import nn

from trackside.capture.vitals.norms import FrozenNorms


def norm_after(*batches: torch.Tensor, is_frozen: bool = True) -> list[float | None]:
    norm = nn.BatchNorm1d(3, momentum=0.5)
    norm.requires_grad_(not is_frozen)
    watch = FrozenNorms()
    found = [watch.moved(norm)]
    for batch in batches:
        norm(batch)
        found.append(watch.moved(norm))
    return found


def test_means_and_deviations_that_move():
    batch = torch.tensor([[1.0, 1.0, 1.0], [5.0, 5.0, 5.0]])
    first, shifted = norm_after(batch)
    assert first == 0.0
    assert shifted == pytest.approx(1.5, rel=1e-3)
    spread = norm_after(torch.tensor([[-8.0, -8.0, -8.0], [8.0, 8.0, 8.0]]))[1]
    assert spread == pytest.approx((0.5 + 0.5 * 128) ** 0.5 - 1, rel=1e-3)


def test_norms_that_are_trained_or_keep_nothing():
    assert norm_after(torch.randn(8, 3), is_frozen=False) == [None, None]
    watch = FrozenNorms()
    assert watch.moved(nn.BatchNorm1d(3, affine=False)) is None
    assert watch.moved(nn.BatchNorm1d(3, track_running_stats=False).requires_grad_(False)) is None


def test_a_norm_that_is_frozen_later_counts_from_then_on():
    norm, watch = nn.BatchNorm1d(3), FrozenNorms()
    norm(torch.randn(8, 3) + 5)
    assert watch.moved(norm) is None
    norm.requires_grad_(False)
    assert watch.moved(norm) == 0.0
