"""CRC-32C (Castagnoli), vectorised: what each record of an event file is checked by."""

import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78
_SHORT = 256
"""Bytes below which a plain loop is quicker than numpy's calls."""
_MASK_DELTA = 0xA282EAD8


def masked_crc32c(data: bytes) -> int:
    """The form event files store: rotated and shifted, so that a CRC of CRCs stays a good one."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    if len(data) < _SHORT:
        crc = 0xFFFFFFFF
        for byte in data:
            crc = crc >> 8 ^ _BYTE_LIST[(crc ^ byte) & 0xFF]
        return crc ^ 0xFFFFFFFF
    return _by_halves(data)


def _by_halves(data: bytes) -> int:
    """Neighbours are joined pairwise: crc(a+b) is crc(a) moved past len(b) bytes, xor crc(b)."""
    size = 1 << (len(data) - 1).bit_length()
    values = np.zeros(size, dtype=np.uint8)  # zeros in front change nothing
    values[size - len(data) :] = np.frombuffer(data, dtype=np.uint8)
    values[size - len(data) : size - len(data) + 4] ^= 0xFF  # the initial value
    crcs = _BYTE_TABLE[values]
    level = 0
    while len(crcs) > 1:
        left = crcs[0::2]
        table = _shift_table(level)
        moved = table[0][left & 0xFF] ^ table[1][left >> 8 & 0xFF]
        moved ^= table[2][left >> 16 & 0xFF] ^ table[3][left >> 24]
        crcs = moved ^ crcs[1::2]
        level += 1
    return int(crcs[0]) ^ 0xFFFFFFFF


def _make_byte_table() -> NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table.astype(np.uint32)


_BYTE_TABLE = _make_byte_table()
_BYTE_LIST = [int(entry) for entry in _BYTE_TABLE]
_SHIFT_TABLES: list[NDArray[np.uint32]] = []


def _shift_table(level: int) -> NDArray[np.uint32]:
    """For each of the four bytes of a CRC: what it becomes after 2**level bytes of zeros."""
    while len(_SHIFT_TABLES) <= level:
        entries = (
            np.arange(256, dtype=np.uint32)[None, :]
            << np.uint32(8) * np.arange(4, dtype=np.uint32)[:, None]
        )
        for _ in range(2 if _SHIFT_TABLES else 1):
            entries = _moved(entries)
        _SHIFT_TABLES.append(entries)
    return _SHIFT_TABLES[level]


def _moved(crcs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Past one byte to begin with; later by the newest table, twice for twice as many bytes."""
    if not _SHIFT_TABLES:
        return np.asarray(crcs >> np.uint32(8) ^ _BYTE_TABLE[crcs & np.uint32(0xFF)])
    table = _SHIFT_TABLES[-1]
    moved = table[0][crcs & 0xFF] ^ table[1][crcs >> 8 & 0xFF]
    moved ^= table[2][crcs >> 16 & 0xFF] ^ table[3][crcs >> 24]
    return np.asarray(moved, dtype=np.uint32)
