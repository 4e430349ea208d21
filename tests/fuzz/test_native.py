"""Our C under the address and undefined-behaviour sanitizers, over what the other fuzzers make."""

import ctypes
import os
from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.fuzz import bounded
from tests.fuzz.rounds import rounds
from tests.fuzz.test_event_files import SCANNER, both_scanners_agree
from tests.native_build import build, sanitizer_environment
from trackside.capture.reading.numpy_reductions import reduce_rows
from trackside.curves import native
from trackside.curves.levels import FACTOR, FINEST, Unusual, build_levels, chosen

REDUCER = "FUZZED_REDUCER"
COLUMNS = ("min", "max", "mean", "std", "variance", "sum", "l1", "l2")
"""In the order of reduce.c; the figures of magnitudes follow in the same."""
SOURCES = Path(native.__file__).parents[1]
ODD = (0.0, -0.0, 1.0, -1.0, 1e-45, 3e38, -3e38, float("nan"), float("inf"), float("-inf"))


def reductions_agree(rng: Random, folder: Path) -> None:
    """With numpy's, of arrays of every length and with every odd number in them."""
    library = ctypes.CDLL(os.environ[REDUCER])
    library.trackside_reduce.restype = None
    library.trackside_reduce.argtypes = [ctypes.c_int64, *(ctypes.c_void_p,) * 2] * 2
    arrays = [_array(rng) for _ in range(rng.randint(1, 5))]
    codes = array("i", [rng.randrange(2 * len(COLUMNS)) for _ in range(rng.randint(1, 6))])
    pointers = array("Q", [each.ctypes.data for each in arrays])
    counts = array("q", [each.size for each in arrays])
    matrix = np.empty((len(arrays), len(codes)))
    library.trackside_reduce(
        len(arrays), _address(pointers), _address(counts),
        len(codes), _address(codes), matrix.ctypes.data,
    )  # fmt: skip
    for row, values in zip(matrix, arrays, strict=True):
        if not np.isfinite(values).all():
            continue
        for figure, code in zip(row, codes, strict=True):
            prefix = "abs_" if code >= len(COLUMNS) else ""
            with np.errstate(all="ignore"):
                expected = reduce_rows(values[None], prefix + COLUMNS[code % len(COLUMNS)])[0]
            scale = 1e-5 * float(np.abs(values).max()) * max(1.0, float(np.abs(values).max()))
            close = np.isclose(figure, expected, rtol=1e-4, atol=scale, equal_nan=True)
            assert close, (code, figure, expected, values)


def choices_agree(rng: Random, folder: Path) -> None:
    """With numpy's: points that stand for ranges of a curve, by all, few, no or damaged levels."""
    library = native.load(Path(os.environ[SCANNER]))
    assert library is not None
    size = rng.choice((1, FINEST - 1, FINEST, FINEST * FACTOR, rng.randint(1, 5000)))
    values = np.random.default_rng(rng.randrange(1 << 30)).normal(size=size)
    values = values.astype(rng.choice((np.float32, np.float64)))
    for _ in range(rng.choice((0, 3, 50))):
        values[rng.randrange(size)] = rng.choice(ODD)
    levels = build_levels(values)[: rng.randrange(4)]
    if rng.random() < 0.3:  # positions out of the blue
        levels = [replace(each, low_at=(each.low_at * 7919).astype(np.uint32)) for each in levels]
    cuts = np.sort([rng.randint(0, size) for _ in range(rng.randint(2, 40))])
    ours, theirs = (
        chosen(values, levels, Unusual.of(values), cuts[:-1], cuts[1:], each)
        for each in (library, None)
    )
    assert ours.tolist() == theirs.tolist()


def _array(rng: Random) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    size = rng.choice((1, 2, 15, 16, 17, 31, 32, 33, rng.randint(1, 200)))
    numbers = [rng.gauss(0, 1) for _ in range(size)]
    for _ in range(rng.choice((0, 0, 1, 3))):
        numbers[rng.randrange(size)] = rng.choice(ODD)
    return np.array(numbers, np.float32)


def _address(numbers: "array[int]") -> int:
    return numbers.buffer_info()[0]


@pytest.mark.parametrize(
    ("source", "variable", "round_", "count"),
    [
        (SOURCES / "curves" / "scan.c", SCANNER, both_scanners_agree, 150),
        (SOURCES / "curves" / "scan.c", SCANNER, choices_agree, 200),
        (SOURCES / "capture" / "copying" / "reduce.c", REDUCER, reductions_agree, 200),
    ],
    ids=["scan", "choose", "reduce"],
)
def test_nothing_is_read_out_of_bounds_nor_undefined(
    source: Path, variable: str, round_: Callable[[Random, Path], None], count: int, tmp_path: Path
):
    built = build(source, tmp_path, optimised="-O1", sanitized=True)
    environment = {**sanitizer_environment(), variable: str(built)}
    bounded.play(round_, rounds(count), environment=environment)


def test_the_sanitizers_see_what_they_are_there_for(tmp_path: Path):
    """A source with a read past the end of its buffer ends its child."""
    source = tmp_path / "broken.c"
    source.write_text("int trackside_past_the_end(const char *at, long size) { return at[size]; }")
    built = build(source, tmp_path, optimised="-O1", sanitized=True)
    environment = {**sanitizer_environment(), REDUCER: str(built)}
    with pytest.raises(AssertionError, match="heap-buffer-overflow"):
        bounded.play(past_the_end, 1, environment=environment)


def past_the_end(rng: Random, folder: Path) -> None:
    buffer = np.zeros(40, np.uint8)
    ctypes.CDLL(os.environ[REDUCER]).trackside_past_the_end(ctypes.c_void_p(buffer.ctypes.data), 40)
