import gc

import pytest
import torch

from trackside.capture.copying import host_copy
from trackside.capture.copying.host_copy import HostCopies

LARGE = 1 << 20


def address_of_a_dropped_copy(copies: HostCopies, size: int = LARGE) -> int:
    copy = copies.copy(torch.zeros(size, dtype=torch.uint8))
    return copy.data_ptr()


def test_memory_of_a_dropped_copy_is_used_again():
    copies = HostCopies()
    first = address_of_a_dropped_copy(copies)
    assert address_of_a_dropped_copy(copies) == first


def test_memory_is_not_used_again_while_any_view_of_the_copy_lives():
    copies = HostCopies()
    source = torch.arange(LARGE, dtype=torch.float32)
    view = copies.copy(source).view(2, -1)[1].numpy()
    gc.collect()
    copies.copy(torch.zeros(LARGE))
    assert (view == source[LARGE // 2 :].numpy()).all()


def test_unused_sizes_are_evicted_for_used_ones(monkeypatch):
    monkeypatch.setattr(host_copy, "_KEPT_BYTES", 4 * LARGE)
    copies = HostCopies()
    for size in range(LARGE, 2 * LARGE, LARGE // 16):  # sentences of ever other lengths
        address_of_a_dropped_copy(copies, size)
    last = address_of_a_dropped_copy(copies, 2 * LARGE)
    assert address_of_a_dropped_copy(copies, 2 * LARGE) == last
    assert sum(len(m) for free in copies._free.values() for m in free) <= 4 * LARGE


@pytest.mark.parametrize(
    "source",
    [
        torch.arange(LARGE).reshape(4, 8, -1).transpose(1, 2),
        torch.arange(LARGE).reshape(4, 8, -1).permute(2, 0, 1),
        torch.arange(LARGE).reshape(4, 8, -1)[:, ::2],
        torch.arange(LARGE).reshape(4, 1, -1).expand(4, 3, -1),
        torch.arange(LARGE, dtype=torch.float32)
        .reshape(2, 2, 512, 512)
        .to(memory_format=torch.channels_last),
    ],
    ids=["transposed", "turned", "part", "expanded", "channels last"],
)
def test_a_copy_is_equal_for_every_memory_layout_of_its_source(source):
    copy = HostCopies().copy(source)
    assert torch.equal(copy, source)
    assert copy.shape == source.shape
    assert copy.untyped_storage().data_ptr() != source.untyped_storage().data_ptr()


def test_a_large_transposed_tensor_is_not_turned():
    source = torch.zeros(512, 1024).t()
    assert HostCopies().copy(source).stride() == source.stride()
