"""One file with curves as columns, their levels and figures: written once, read by mapping it.

    head         the format's name
    blocks       of each piece: steps unless regular, times, values, levels, unusual points
    index        a row of `ROW` for each piece
    names        JSON: runs, tags, event files and how far each was read
    tail         where index and names are, their checksum, and the format's name again

A block's parts are padded to 8 bytes; their sizes follow from the row. A process that is killed
while it writes leaves a temporary file; without a tail, a file is damaged.
"""

import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from trackside.curves.curve_points import CurvePoints, Figures, Piece, Steps
from trackside.curves.levels import FACTOR, FINEST, Level, Unusual, build_levels
from trackside.files.permissions import private_opener

HEAD = b"TSSERIE1"
_TAIL = struct.Struct("<QQQQI4x8s")
"""Offset and size of the index, of the names, their checksum, the format's name."""
_ALIGNMENT = 8

ROW = np.dtype(
    [
        ("offset", "<i8"),
        ("size", "<i8"),
        ("checksum", "<u4"),
        ("source", "<u4"),
        ("run", "<u4"),
        ("tag", "<u4"),
        ("count", "<i8"),
        ("start", "<i8"),
        ("stride", "<i8"),
        ("is_listed", "u1"),
        ("value_bytes", "u1"),
        ("is_timed", "u1"),
        ("unused", "u1"),
        ("num_nan", "<u4"),
        ("num_high", "<u4"),
        ("num_low", "<u4"),
        ("first_step", "<i8"),
        ("last_step", "<i8"),
        ("first_time", "<f8"),
        ("last", "<f8"),
        ("low", "<f8"),
        ("high", "<f8"),
        ("low_step", "<i8"),
        ("high_step", "<i8"),
    ]
)

_FIGURES = [
    "count",
    "first_step",
    "last_step",
    "first_time",
    "last",
    "low",
    "high",
    "low_step",
    "high_step",
]
"""In the order of `Figures`."""


class DamagedSeries(Exception):
    """The file is no whole one of this format: it is made again."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece on its way into a file."""

    source: int
    run: str
    tag: str
    piece: Piece | None = None
    stored: "tuple[SeriesFile, int] | None" = None
    """Instead of a piece: the file and row in which it is already."""


@dataclass(frozen=True, slots=True)
class Names:
    """The part of a file that is JSON."""

    facts: Mapping[str, Any]
    """What the writer wants to know again."""
    runs: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


def write(path: Path, parts: Iterable[Part], facts: Mapping[str, Any]) -> "SeriesFile":
    """Under a temporary name, then renamed: readers see the old file or the new. Returns the new
    one, though another process may have put its own in the place by then.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with open(draft, "wb", opener=private_opener) as file:
            _write_all(file, parts, facts)
        written = SeriesFile(draft)
        os.replace(draft, path)
        return written
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


class SeriesFile:
    """A file as arrays; what another process puts in its place does not change it.

    Pages that were read count as memory of this process until `release`.
    """

    def __init__(self, path: Path) -> None:
        """`DamagedSeries` or `FileNotFoundError`."""
        with path.open("rb") as file:
            try:
                self._whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:
                raise DamagedSeries("empty") from None
        self.size = len(self._whole)
        self.names, self.rows = self._read_index()
        self._figures: list[tuple[Any, ...]] | None = None

    @property
    def num_points(self) -> int:
        return int(self.rows["count"].sum())

    def keys(self) -> Iterator[tuple[int, str, str]]:
        """Source, run and tag of each row."""
        runs, tags = self.names.runs, self.names.tags
        for source, run, tag in self.rows[["source", "run", "tag"]].tolist():
            yield source, runs[run], tags[tag]

    def figures(self, row: int) -> Figures:
        if self._figures is None:
            self._figures = self.rows[_FIGURES].tolist()
        return Figures(*self._figures[row])

    def piece(self, number: int) -> Piece:
        row = self.rows[number]
        block = _Block(self._whole, int(row["offset"]))
        count, kind = int(row["count"]), f"<f{int(row['value_bytes'])}"
        listed = block.array("<i8", count) if row["is_listed"] else None
        steps = Steps(count, int(row["start"]), int(row["stride"]), listed)
        times, values = block.array("<f8", count), block.array(kind, count)
        levels = [
            Level(
                width,
                block.array(kind, size),
                block.array(kind, size),
                block.array("<u4", size),
                block.array("<u4", size),
            )
            for width, size in _level_sizes(count)
        ]
        odd = (block.array("<u4", int(row[name])) for name in ("num_nan", "num_high", "num_low"))
        return Piece(steps, times, values, Unusual(*odd), levels, bool(row["is_timed"]))

    def release(self) -> None:
        self._whole.madvise(mmap.MADV_DONTNEED)

    def check(self) -> None:
        """`DamagedSeries` unless every block is as it was written."""
        for row in range(len(self.rows)):
            with self._block(row) as block:
                if zlib.crc32(block) != self.rows[row]["checksum"]:
                    raise DamagedSeries(f"block {row}")

    def copy(self, row: int, file: IO[bytes]) -> None:
        with self._block(row) as block:
            file.write(block)

    def _block(self, row: int) -> memoryview:
        offset, size = (int(self.rows[row][name]) for name in ("offset", "size"))
        return memoryview(self._whole)[offset : offset + size]

    def _read_index(self) -> tuple[Names, NDArray[Any]]:
        end = self.size - _TAIL.size
        if end < len(HEAD) or self._whole[: len(HEAD)] != HEAD:
            raise DamagedSeries("no head or tail")
        at, size, names_at, names_size, checksum, name = _TAIL.unpack(self._whole[end:])
        if name != HEAD or names_at != at + size or names_at + names_size != end:
            raise DamagedSeries("the tail is another's")
        data = self._whole[at:end]
        if zlib.crc32(data) != checksum:
            raise DamagedSeries("the index")
        return Names(**json.loads(data[size:])), np.frombuffer(data[:size], ROW)


class _Block:
    """Reads the parts of a block one after the other."""

    def __init__(self, whole: mmap.mmap, at: int) -> None:
        self._whole = whole
        self._at = at

    def array(self, kind: str, count: int) -> NDArray[Any]:
        found = np.frombuffer(self._whole, kind, count, self._at)
        self._at += found.nbytes + -found.nbytes % _ALIGNMENT
        return found


def _write_all(file: IO[bytes], parts: Iterable[Part], facts: Mapping[str, Any]) -> None:
    file.write(HEAD)
    runs: dict[str, int] = {}
    tags: dict[str, int] = {}
    rows: list[Any] = []
    for part in parts:
        at = file.tell()
        if part.stored is not None:
            stored, number = part.stored
            stored.copy(number, file)
            row = stored.rows[number : number + 1].copy()
        else:
            assert part.piece is not None
            row = _write_block(file, part.piece)
        row["offset"], row["source"] = at, part.source
        row["run"] = runs.setdefault(part.run, len(runs))
        row["tag"] = tags.setdefault(part.tag, len(tags))
        rows.append(row)
    index = (np.concatenate(rows) if rows else np.empty(0, ROW)).tobytes()
    names = json.dumps({"facts": facts, "runs": [*runs], "tags": [*tags]}).encode()
    at = file.tell()
    file.write(index + names)
    checksum = zlib.crc32(index + names)
    file.write(_TAIL.pack(at, len(index), at + len(index), len(names), checksum, HEAD))


def _write_block(file: IO[bytes], piece: Piece) -> NDArray[Any]:
    """Returns the row, without what its place in the file decides."""
    values = _smallest(piece.values)
    levels = build_levels(values)
    arrays: list[NDArray[Any]] = [piece.times, values]
    if piece.steps.listed is not None:
        arrays.insert(0, piece.steps.listed)
    for level in levels:
        arrays += [level.low, level.high, level.low_at, level.high_at]
    unusual = piece.unusual
    arrays += [unusual.nan, unusual.high, unusual.low]
    row = np.zeros(1, ROW)
    for array in arrays:
        data = np.ascontiguousarray(array).view(np.uint8).data
        padding = bytes(-len(data) % _ALIGNMENT)
        file.write(data)
        file.write(padding)
        row["checksum"] = zlib.crc32(padding, zlib.crc32(data, int(row["checksum"][0])))
        row["size"] += len(data) + len(padding)
    row["value_bytes"] = values.itemsize
    row["num_nan"], row["num_high"] = len(unusual.nan), len(unusual.high)
    row["num_low"], row["is_timed"] = len(unusual.low), piece.is_timed
    _describe(row, piece, levels, values)
    return row


def _describe(row: NDArray[Any], piece: Piece, levels: list[Level], values: NDArray[Any]) -> None:
    steps = piece.steps
    row["start"], row["stride"] = steps.start, steps.stride
    row["is_listed"] = steps.listed is not None
    whole = Piece(steps, piece.times, values, piece.unusual, levels, piece.is_timed)
    figures = CurvePoints([whole]).figures()
    for name in _FIGURES:
        row[name] = getattr(figures, name)


def _smallest(values: NDArray[Any]) -> NDArray[Any]:
    """In single precision where that is exact."""
    if values.dtype == np.float32:
        return values
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    is_exact = bool(((single == values) | np.isnan(values)).all())
    return single if is_exact else values


def _level_sizes(count: int) -> list[tuple[int, int]]:
    """Width and number of buckets of each level, as `build_levels` makes them."""
    sizes = [(FINEST, count // FINEST)] if count >= FINEST else []
    while sizes and sizes[-1][1] >= FACTOR:
        width, number = sizes[-1]
        sizes.append((width * FACTOR, number // FACTOR))
    return sizes
