"""Hashes of tensors that any single changed bit changes, at the speed of reading them."""

import torch
from torch import Tensor

_WORD = 8
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def hash_of(tensor: Tensor) -> Tensor:
    """One int64 on the tensor's device: the sum of its bits as whole numbers, modulo 2^64.

    It reads words of eight bytes, which is several times faster than
    `torch.hash_tensor`; equal tensors have equal hashes on every rank.
    """
    flat = tensor.detach()
    if flat.is_complex():
        flat = torch.view_as_real(flat)
    flat = flat.reshape(-1)
    size = flat.element_size()
    if size == _WORD:
        return flat.view(torch.int64).sum()
    whole = flat.numel() - flat.numel() % (_WORD // size)
    if not whole:
        return flat.view(_BITS[size]).sum(dtype=torch.int64)
    if flat.storage_offset() * size % _WORD:
        flat = flat.clone()  # words begin at multiples of eight bytes
    words = flat[:whole].view(torch.int64).sum()
    if whole == flat.numel():
        return words
    return words + flat[whole:].view(_BITS[size]).sum(dtype=torch.int64)
