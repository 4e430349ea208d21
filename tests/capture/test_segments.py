import json
import math
import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from trackside.capture.dtypes import STORED
from trackside.capture.reading.segment_reader import (
    SegmentContents,
    TornSegment,
    header_size,
    parse_header,
)
from trackside.capture.writing.segments import (
    METADATA_KEY,
    Skipped,
    StepRecord,
    lay_out,
    write_parts,
)
from trackside.files.json_record import DamagedRecord


def record(step: int = 0, mode: str = "TRAIN", **parts: Any) -> StepRecord:
    return StepRecord(step, mode, step, 1.0, **parts)


def written(
    tmp_path: Path, records: list[StepRecord], worker: str = "worker_0"
) -> tuple[bytes, list[Skipped]]:
    path = tmp_path / "x.safetensors"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        segment = lay_out(records, worker)
        write_parts(descriptor, segment.parts)
    finally:
        os.close(descriptor)
    assert path.stat().st_size == segment.size_bytes
    return path.read_bytes(), segment.skipped


M = np.array([[7.0]], np.float32)


def contents_of(data: bytes) -> SegmentContents:
    return parse_header(data[: header_size(data[:8], len(data))], len(data))


def values_of(data: bytes) -> dict[tuple[str, int], Any]:
    """(name, step) to array."""
    found = {}
    for run in contents_of(data).tensors:
        for step, value in zip(run.steps, run.entry.view(data), strict=True):
            found[run.name, step] = value
    return found


def test_tensors_come_back_by_name_and_step(tmp_path):
    first, second = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)
    data, skipped = written(
        tmp_path, [record(0, tensors={"w": first}), record(5, tensors={"w": second})]
    )
    assert skipped == []
    values = values_of(data)
    np.testing.assert_array_equal(values["w", 0], first)
    np.testing.assert_array_equal(values["w", 5], second)


def test_one_tensor_at_several_steps_is_one_entry_that_any_tool_can_stack(tmp_path):
    data, _ = written(tmp_path, [record(s, tensors={"w": torch.full((4,), s)}) for s in range(3)])
    header = json.loads(data[8 : header_size(data[:8], len(data))])
    assert header["w"]["shape"] == [3, 4]
    assert header["w"]["dtype"] == "I64"


def test_a_tensor_under_several_names_is_written_once(tmp_path):
    steps = [torch.full((1000,), float(step)) for step in range(3)]
    data, _ = written(
        tmp_path,
        [record(s, tensors={"relu_output_0": t, "fc_input_0": t}) for s, t in enumerate(steps)],
    )
    assert len(data) < 2 * 3 * 4000
    header = json.loads(data[8 : header_size(data[:8], len(data))])
    assert set(header) == {"__metadata__", "relu_output_0"}
    described = json.loads(header["__metadata__"]["trackside"])
    assert described["aliases"] == {"relu_output_0": ["fc_input_0"]}
    values = values_of(data)
    for step, tensor in enumerate(steps):
        for name in ("relu_output_0", "fc_input_0"):
            np.testing.assert_array_equal(values[name, step], tensor.numpy())


def test_names_that_part_at_one_step_are_written_each_for_itself(tmp_path):
    shared, own = torch.zeros(3), torch.ones(3)
    data, _ = written(
        tmp_path,
        [
            record(0, tensors={"a": shared, "b": shared}),
            record(1, tensors={"a": shared, "b": own}),
        ],
    )
    values = values_of(data)
    assert [values[name, step][0] for name in "ab" for step in (0, 1)] == [0, 0, 0, 1]


def test_aliases_of_one_name_with_two_shapes_are_kept_apart(tmp_path):
    small, large = torch.zeros(2), torch.ones(4)
    data, _ = written(
        tmp_path,
        [record(0, tensors={"a": small, "b": small}), record(1, tensors={"a": large, "b": large})],
    )
    values = values_of(data)
    assert [values["b", step].shape for step in (0, 1)] == [(2,), (4,)]


def test_the_file_follows_the_safetensors_format(tmp_path):
    """Its rules: 8-byte length, a JSON object, text metadata, entries without gaps, to the end."""
    data, _ = written(
        tmp_path,
        [record(0, tensors={"a": np.zeros(3, np.uint8), "b": np.zeros(2)}, scalars={"c": 1.0})],
    )
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    assert data[8:9] == b"{"
    assert all(isinstance(text, str) for text in header.pop("__metadata__").values())
    spans = sorted(entry["data_offsets"] for entry in header.values())
    assert spans[0][0] == 0
    assert all(left[1] == right[0] for left, right in zip(spans, spans[1:], strict=False))
    assert spans[-1][1] == len(data) - 8 - length


def test_the_safetensors_library_opens_it(tmp_path):
    library = pytest.importorskip("safetensors.numpy", reason="safetensors is a dev requirement")
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    parts: dict[str, Any] = {"reduced": ("w",), "reductions": ("min",), "matrix": M}
    data, _ = written(tmp_path, [record(0, tensors={"w": values, "e": np.empty(0)}, **parts)])
    opened = library.load(data)
    assert set(opened) == {"w", "e", "trackside/reductions/0"}
    np.testing.assert_array_equal(opened["w"], values[None])


def test_every_entry_is_aligned_to_its_element(tmp_path):
    tensors = {"a": np.zeros(3, np.uint8), "b": np.zeros(5, np.float16), "c": np.zeros(2)}
    data, _ = written(tmp_path, [record(0, tensors=tensors)])
    for run in contents_of(data).tensors:
        assert run.entry.view(data).flags.aligned
        assert run.entry.start % run.entry.view(data).itemsize == 0


@pytest.mark.parametrize("name", sorted(STORED))
def test_every_element_type_comes_back_with_its_values(tmp_path, name):
    bits = torch.arange(256, dtype=torch.uint8)
    tensor = (
        bits.view(getattr(torch, name))
        if name.startswith("float8")
        else torch.tensor([0, 1, 1, 0, 1]).to(getattr(torch, name))
    )
    data, skipped = written(tmp_path, [record(3, tensors={"x": tensor})])
    assert skipped == []
    (run,) = contents_of(data).tensors
    assert run.entry.dtype == name
    known = tensor.to(torch.float32) if "float8" in name or name == "bfloat16" else tensor
    np.testing.assert_array_equal(run.entry.view(data)[0], known.numpy())


@settings(max_examples=60)
@given(
    st_numpy.arrays(
        st.sampled_from([np.dtype(kind) for kind in ("f4", "f8", "i8", "c16", "?", ">f4")]),
        st_numpy.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    ),
    st.text(st.characters(codec="utf-8"), min_size=1),
)
def test_any_array_under_any_name_comes_back(tmp_path_factory, array, name):
    folder = tmp_path_factory.mktemp("any")
    data, skipped = written(folder, [record(1, tensors={name: array})])
    assert skipped == []
    ((key, value),) = values_of(data).items()
    assert key == (name, 1)
    assert value.shape == array.shape
    np.testing.assert_array_equal(value, array)


@pytest.mark.parametrize("name", ["__metadata__", "trackside/reductions/0", "w@2", "a b/ü\n"])
def test_names_that_mean_something_to_the_format_are_only_names(tmp_path, name):
    data, _ = written(
        tmp_path,
        [
            record(0, tensors={name: np.ones(2)}, reduced=("w",), reductions=("min",), matrix=M),
            record(1, tensors={name: np.ones(3), "w": np.ones(1)}),
        ],
    )
    values = values_of(data)
    assert values[name, 0].shape == (2,)
    assert values[name, 1].shape == (3,)


def test_a_tensor_whose_shape_changes_keeps_both(tmp_path):
    data, _ = written(
        tmp_path,
        [record(s, tensors={"x": np.full(n, s)}) for s, n in enumerate([4, 4, 2, 4])],
    )
    values = values_of(data)
    assert [values["x", s].tolist() for s in range(4)] == [[0] * 4, [1] * 4, [2] * 2, [3] * 4]


def test_reductions_of_all_steps_are_one_cube(tmp_path):
    names, columns = ("a", "b", "c"), ("min", "abs_l2")
    matrices = [np.arange(6, dtype=np.float32).reshape(3, 2) + s for s in range(4)]
    data, _ = written(
        tmp_path,
        [record(s, reduced=names, reductions=columns, matrix=m) for s, m in enumerate(matrices)],
    )
    (cube,) = contents_of(data).reductions
    assert (cube.tensors, cube.columns, [*cube.steps]) == (names, columns, [0, 1, 2, 3])
    np.testing.assert_array_equal(cube.entry.view(data), np.stack(matrices))


def test_records_of_one_step_are_merged_and_the_later_value_counts(tmp_path):
    data, _ = written(
        tmp_path,
        [
            record(2, tensors={"a": np.zeros(2), "b": np.zeros(1)}),
            record(2, scalars={"scalar/acc": 0.5}, shapes={"big": (10, 20)}),
            record(2, tensors={"a": np.ones(3)}),
        ],
    )
    contents = contents_of(data)
    assert len(contents.steps) == 1
    values = values_of(data)
    assert values["a", 2].tolist() == [1, 1, 1]
    assert values["scalar/acc", 2].tolist() == [0.5]
    assert contents.shapes[0].shapes == {"big": (10, 20)}


def test_an_odd_tensor_is_named_and_the_rest_is_stored(tmp_path):
    data, skipped = written(
        tmp_path,
        [
            record(
                1,
                tensors={
                    "odd": np.array(["text"]),
                    "meta": torch.zeros(2, device="meta"),
                    "sparse": torch.eye(2).to_sparse(),
                    "fine": np.ones(2),
                },
                scalars={"nan": math.nan},
            )
        ],
    )
    assert [item.name for item in skipped] == ["odd", "meta", "sparse"]
    assert skipped[0].step == 1
    assert set(values_of(data)) == {("fine", 1), ("nan", 1)}


def test_a_tensor_that_needs_gradients_or_is_not_contiguous_is_stored(tmp_path):
    base = torch.arange(6.0, requires_grad=True).reshape(2, 3)
    data, skipped = written(tmp_path, [record(0, tensors={"t": base.T, "n": base.T.bfloat16()})])
    assert skipped == []
    assert values_of(data)["t", 0].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert values_of(data)["n", 0].tolist() == [[0, 3], [1, 4], [2, 5]]


def test_reading_copies_nothing(tmp_path):
    data, _ = written(tmp_path, [record(0, tensors={"w": np.ones(1000)})])
    (run,) = contents_of(data).tensors
    view = run.entry.view(data)
    assert not view.flags.owndata
    assert np.shares_memory(view, np.frombuffer(data, np.uint8))


def test_a_segment_cut_anywhere_is_known_to_be_torn(tmp_path):
    data, _ = written(tmp_path, [record(0, tensors={"w": np.ones(3)}, scalars={"s": 1.0})])
    for length in range(len(data)):
        with pytest.raises(TornSegment):
            contents_of(data[:length])


@settings(max_examples=200)
@given(st.data())
def test_a_damaged_header_is_torn_or_still_within_the_file(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp()
    whole, _ = written(folder, [record(0, tensors={"w": np.ones(3)}, shapes={"b": (2,)})])
    size = header_size(whole[:8], len(whole))
    position = data.draw(st.integers(0, size - 1))
    damaged = bytearray(whole)
    damaged[position] = data.draw(st.integers(0, 255))
    try:
        contents = contents_of(bytes(damaged))
    except TornSegment:
        return
    for run in contents.tensors:
        run.entry.view(bytes(damaged))


def changed(data: bytes, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> bytes:
    """A segment whose header, and the description in it, were changed by hand."""
    size = header_size(data, len(data))
    header = json.loads(data[8:size])
    described = json.loads(header["__metadata__"][METADATA_KEY])
    change(header, described)
    header["__metadata__"][METADATA_KEY] = json.dumps(described)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data[size:]


def test_steps_that_lie_far_apart_take_no_memory_for_those_between(tmp_path):
    steps = [0, 1, 10**11, 2 * 10**11]
    data, _ = written(tmp_path, [record(step, tensors={"w": np.ones(3)}) for step in steps])
    tracemalloc.start()
    try:
        (run,) = contents_of(data).tensors
        assert list(run.steps) == steps
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def set_steps(*steps: Any) -> Callable[..., None]:
    return lambda header, described: described.update(steps=[[*each] for each in steps])


@pytest.mark.parametrize(
    "change",
    [
        set_steps((2**63, "TRAIN", 0, 1.0)),
        set_steps((-1, "TRAIN", 0, 1.0)),
        set_steps((10**30, "TRAIN", 0, 1.0)),
        set_steps((True, "TRAIN", 0, 1.0)),
        set_steps(("0", "TRAIN", 0, 1.0)),
        set_steps((0, "NONE", 0, 1.0)),
        set_steps((0, "TRAIN", 2**63, 1.0)),
        set_steps((0, "TRAIN", 0, float("nan"))),
        set_steps((0, "TRAIN", 0)),
        lambda header, described: described.update(names={"w": ["x"]}),
        lambda header, described: described.update(aliases={"w": [1]}),
        lambda header, described: described.update(worker=None),
        lambda header, described: described.update(pairs=["w"]),
        lambda header, described: described["tensors"][0].update(rows=[0.0]),
        lambda header, described: described["tensors"][0].update(rows=[-1]),
        lambda header, described: described["shapes"][0]["shapes"].update(b=[-2]),
        lambda header, described: described["reductions"][0].update(tensors=["a", "b"]),
        lambda header, described: described["reductions"][0].update(tensors=[["a"]]),
        lambda header, described: described["reductions"][0].update(entry="w"),
        lambda header, described: header["w"].update(shape=[-1, -3]),
        lambda header, described: header["w"].update(shape=[1, 3, 1.0]),
        lambda header, described: header["w"].update(shape=[1, 3, *[1] * 70]),
        lambda header, described: header["empty"].update(shape=[1, 0, 2**62, 2**62]),
        lambda header, described: header["w"].update(dtype=[]),
    ],
)
def test_a_header_with_impossible_values_is_torn(tmp_path, change: Callable[..., None]):
    tensors = {"w": np.ones(3), "empty": np.ones((0, 2))}
    cubes: dict[str, Any] = {"reduced": ("a",), "reductions": ("mean",), "matrix": np.ones((1, 1))}
    data, _ = written(tmp_path, [record(0, tensors=tensors, shapes={"b": (2,)}, **cubes)])
    contents_of(changed(data, lambda header, described: None))
    with pytest.raises(TornSegment):
        contents_of(changed(data, change))


@pytest.mark.parametrize(
    "header",
    [b"[" * 100_000, b"[1]", b"{}", b'{"a": ' + b"9" * 5000 + b"}", b"\xff\xfe\x00", b"null"],
    ids=["deep", "list", "empty", "digits", "encoding", "null"],
)
def test_a_header_that_is_no_description_is_torn(header: bytes):
    data = struct.pack("<Q", len(header)) + header
    with pytest.raises(TornSegment):
        contents_of(data)


def test_a_file_that_was_cut_after_its_header_was_read_is_damaged(tmp_path):
    data, _ = written(tmp_path, [record(0, tensors={"w": np.ones(3)})])
    (run,) = contents_of(data).tensors
    with pytest.raises(DamagedRecord):
        run.entry.view(data[:-1])
