import json
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from trackside.views.curves.binary_frame import MAGIC, NotAFrame, decode, encode

ARRAYS = st.sampled_from(["f8", "f4", "i8", "i4", "u1"]).flatmap(
    lambda kind: arrays.arrays(np.dtype(kind), st.integers(0, 9))
)


@given(st.lists(st.dictionaries(st.text(max_size=3), ARRAYS, max_size=3), max_size=3))
def test_arrays_come_back_as_they_were(items) -> None:
    frame = encode({"number": at, "arrays": each} for at, each in enumerate(items))
    found = decode(frame)
    assert [item["number"] for item in found] == [*range(len(items))]
    for item, given_arrays in zip(found, items, strict=True):
        assert item["arrays"].keys() == given_arrays.keys()
        for name, array in given_arrays.items():
            assert item["arrays"][name].dtype == array.dtype
            assert item["arrays"][name].tobytes() == array.tobytes()


def test_the_layout_is_that_of_the_contract() -> None:
    frame = encode([{"job": "a", "arrays": {"x": np.array([1.0]), "u": np.array([7], np.uint8)}}])
    (length,) = struct.unpack_from("<I", frame, 4)
    header = json.loads(frame[8 : 8 + length])
    assert frame[:4] == MAGIC == b"TSB1"
    assert header == {"items": [{"job": "a", "arrays": {"x": [0, 1, "f8"], "u": [8, 1, "u1"]}}]}
    begin = 8 + length + -(8 + length) % 8
    assert frame[8 + length : begin] == bytes(begin - 8 - length)
    assert frame[begin:] == struct.pack("<dB7x", 1.0, 7)


def test_numbers_that_json_lacks_are_named() -> None:
    items = [{"last": math.nan, "all": [math.inf, -math.inf, 1.5], "arrays": {}}]
    assert decode(encode(items))[0] == {
        "last": "NaN",
        "all": ["Infinity", "-Infinity", 1.5],
        "arrays": {},
    }


def test_several_frames_follow_each_other() -> None:
    parts = [encode([{"n": n, "arrays": {"x": np.arange(n, dtype="u1")}}]) for n in (3, 0, 8)]
    assert [item["n"] for item in decode(b"".join(parts))] == [3, 0, 8]


@pytest.mark.parametrize("data", [b"TSB2\0\0\0\0", b"TSB", b"\0" * 20])
def test_other_bytes_are_no_frame(data: bytes) -> None:
    with pytest.raises(NotAFrame):
        decode(data)


def test_an_array_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="complex"):
        encode([{"arrays": {"x": np.zeros(2, complex)}}])
    with pytest.raises(TypeError, match="2 dimensions"):
        encode([{"arrays": {"x": np.zeros((2, 2))}}])
