"""The headers of a tar archive: ustar's, GNU's and pax's, as untrusted bytes.

Parses the fields of one header. `tar_reader` handles the order of headers, `tar_sparse` holes in
files. Python's tarfile is not used for reading: below 3.11.10 a header can make it search for hours
(CVE-2024-6232), a row of headers exhausts its stack, and it takes ten times as long.
"""

import struct
from collections.abc import Iterator
from enum import Enum

from trackside.files.tar_stream import DamagedTar
from trackside.quick_dataclass import dataclass

BLOCK_BYTES = 512

GNU_LONG_NAME = b"L"
GNU_LONG_GOAL = b"K"
GNU_SPARSE = b"S"
PAX = (b"x", b"X")
PAX_GLOBAL = b"g"

_USTAR = b"ustar\0"
_OLD_FILE = b"\0"
_FIELDS = struct.Struct("100s8s16x12s12s8xc100s6s82x155s12x")
# name, mode, (owner), size, mtime, (checksum), flag, goal, magic, (owner, device), prefix
_CHECKSUM = slice(148, 156)


class Kind(Enum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    HARD_LINK = "hard link"
    OTHER = "other"


_KINDS = {
    b"0": Kind.FILE,
    _OLD_FILE: Kind.FILE,
    b"7": Kind.FILE,  # "contiguous", which has been ignored for decades
    GNU_SPARSE: Kind.FILE,
    b"1": Kind.HARD_LINK,
    b"2": Kind.LINK,
    b"5": Kind.FOLDER,
}
_WITHOUT_CONTENT = b"123456"
"""Links, folders, devices and pipes: no content follows, whatever size their header has."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member, unchecked: its names may point anywhere."""

    name: str
    goal: str
    """A link's target."""
    flag: bytes
    kind: Kind
    mode: int
    mtime: float
    size: int
    """Size of the resulting file."""
    stored_bytes: int
    """Size of the data that follows in the archive."""
    parts: tuple[tuple[int, int], ...] | None = None
    """Offset and length of each stored part of a sparse file, in order."""

    @property
    def has_content(self) -> bool:
        return self.flag not in _WITHOUT_CONTENT


def is_header(block: bytes) -> bool:
    """Whether its checksum is right: the sum of all bytes, with spaces for the sum itself."""
    if len(block) < BLOCK_BYTES:
        return False
    rest = block[: _CHECKSUM.start] + block[_CHECKSUM.stop :]
    total = sum(rest) + 8 * ord(" ")
    try:
        expected = number(block[_CHECKSUM])
    except DamagedTar:
        return False
    # Some old programs treated bytes as signed.
    return expected == total or expected == total - 256 * sum(byte > 127 for byte in rest)


def parsed(block: bytes) -> Member:
    """The member that a header describes."""
    name, mode, size, mtime, flag, goal, magic, prefix = _FIELDS.unpack(block)
    full_name = text(prefix) + "/" + text(name) if magic == _USTAR and prefix[0] else text(name)
    if flag == _OLD_FILE and full_name.endswith("/"):
        flag = b"5"
    length = number(size)
    if length < 0:
        raise DamagedTar(f"a header has a size of {length}")
    return Member(
        full_name,
        text(goal),
        flag,
        _KINDS.get(flag, Kind.OTHER),
        number(mode),
        number(mtime),
        length,
        0 if flag in _WITHOUT_CONTENT else length,
    )


def number(field: bytes) -> int:
    """Octal digits, or GNU's binary form for larger values."""
    if field[0] in (0x80, 0xFF):
        return int.from_bytes(field[1:], "big") - (field[0] == 0xFF) * (1 << 8 * (len(field) - 1))
    digits = field.partition(b"\0")[0].strip()
    try:
        return int(digits, 8) if digits else 0
    except ValueError:
        raise DamagedTar(f"a header has {field!r} where a number should be") from None


def decimal(digits: str) -> int:
    """A number in pax headers, which is never negative."""
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 20:
        raise DamagedTar(f"an extended header has {digits[:20]!r} where a number should be")
    return int(digits)


def text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def pax_records(data: bytes) -> Iterator[tuple[str, str]]:
    """Keys and values of an extended header, each as `length key=value`."""
    start = 0
    while start < len(data) and data[start]:
        digits, space, _ = data[start : start + 12].partition(b" ")
        end = start + int(digits) if space and digits.isdigit() else 0
        record = data[start + len(digits) + 1 : end - 1]
        key, equals, value = record.partition(b"=")
        if not equals or data[end - 1 : end] != b"\n":
            raise DamagedTar("an extended header is not a list of keys and values")
        yield key.decode("utf-8", "surrogateescape"), value.decode("utf-8", "surrogateescape")
        start = end
