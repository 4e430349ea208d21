"""Reading many figures at once: cubes, tables, plots."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.capture.test_trial_live import flushed, record, writer_to
from tests.capture.trials import SMDEBUG_TRIAL, write_the_same
from tests.wait import until
from trackside.capture.exceptions import SMDebugValueError, TensorUnavailable
from trackside.capture.modes import modes
from trackside.capture.reading.cube import Cube, plot_cube
from trackside.capture.reading.numpy_reductions import reduce_rows
from trackside.capture.reading.table import tensor_table
from trackside.capture.trial import Trial, create_trial
from trackside.capture.writing.segments import StepRecord


@pytest.fixture(params=["smdebug", "trackside"])
def trial(request: pytest.FixtureRequest, tmp_path: Path) -> Trial:
    if request.param == "smdebug":
        return create_trial(str(SMDEBUG_TRIAL))
    write_the_same(str(tmp_path / "trial"), tmp_path)
    return create_trial(str(tmp_path / "trial"))


def test_a_cube_holds_what_reading_one_by_one_gives(trial):
    for reduction in ("min", "l2", "std"):
        cube = trial.cube(reduction=reduction)
        assert sorted(cube.names) == trial.tensor_names()
        assert cube.steps == (0, 2, 3, 6, 8)
        for j, name in enumerate(cube.names):
            tensor = trial.tensor(name)
            for i, step in enumerate(cube.steps):
                if cube.saved[i, j]:
                    figure = tensor.reduction_value(step, reduction)
                    assert cube.values[i, j] == pytest.approx(float(figure), nan_ok=True)
                else:
                    assert name == "conv1_output_0" or step not in tensor.steps()
                    assert np.isnan(cube.values[i, j])


@settings(max_examples=25)
@given(st.data())
def test_a_cube_of_any_mixture_is_what_reading_one_by_one_gives(data):
    names = ("a", "b", "c", "d")
    steps = sorted(data.draw(st.sets(st.integers(0, 40), min_size=1, max_size=12)))
    with TemporaryDirectory() as folder:
        trial = mixed_trial(Path(folder), steps, names, data)
        names = data.draw(st.permutations(sorted({*trial.tensor_names()})))
        mode = data.draw(st.sampled_from([modes.GLOBAL, modes.TRAIN, modes.EVAL]))
        after = data.draw(st.none() | st.integers(0, 40))
        cube = trial.cube(names, "max", mode=mode, after_step=after)
        saved = {step for name in names for step in trial.tensor(name).steps(mode)}
        assert cube.steps == tuple(sorted(s for s in saved if after is None or s > after))
        for i, step in enumerate(cube.steps):
            for j, name in enumerate(names):
                is_saved = step in trial.tensor(name).steps(mode)
                assert cube.saved[i, j] == is_saved
                assert np.isnan(cube.values[i, j]) != is_saved
                if is_saved:
                    assert cube.values[i, j] == trial.tensor(name).reduction_value(
                        step, "max", mode
                    )


def mixed_trial(folder: Path, steps: list[int], names: tuple[str, ...], data: Any) -> Trial:
    """Some tensors raw, some reduced, in another choice and order at each step, in segments."""
    for number, step in enumerate(steps):
        if number % 4 == 0:
            writer = writer_to(folder / "trial")
        reduced = tuple(data.draw(st.permutations(names))[: data.draw(st.integers(0, 4))])
        raw = data.draw(st.sets(st.sampled_from(names)))
        mode = "EVAL" if step % 3 == 0 else "TRAIN"
        writer.add(
            StepRecord(
                step,
                mode,
                step // 2 if mode == "EVAL" else step,
                0.0,
                {name: np.full(3, float(step)) for name in raw - {*reduced}},
                reduced,
                ("min", "max") if reduced else (),
                np.random.default_rng(step).random((len(reduced), 2)) if reduced else None,
            )
        )
        if number % 4 == 3 or number == len(steps) - 1:
            writer.close(end_marker=number == len(steps) - 1)
    return create_trial(folder / "trial", home=folder)


def test_a_cube_of_one_mode_has_its_steps_only(trial):
    cube = trial.cube(["CrossEntropyLoss_output_0"], mode=modes.TRAIN)
    assert cube.steps == (0, 2, 4)
    losses = trial.tensor("CrossEntropyLoss_output_0").values(mode=modes.TRAIN)
    assert cube.values[:, 0].tolist() == [float(loss) for loss in losses.values()]
    assert np.asarray(cube).shape == (3, 1)


def test_a_cube_of_what_is_not_there_is_refused_by_name(trial):
    with pytest.raises(TensorUnavailable, match="nobody"):
        trial.cube(["nobody"])
    with pytest.raises(SMDebugValueError, match="'mode'"):
        trial.cube(reduction="mode")


def test_a_cube_reads_stored_reductions_of_several_segments_and_workers(tmp_path):
    names = ("a", "b")
    writers = [writer_to(tmp_path, f"worker_{i}", num_workers=2) for i in range(2)]
    for i, writer in enumerate(writers):
        for step in range(4):
            matrix = np.array([[step, 1], [10 * step, 2]], np.float32) + 100 * i
            parts: dict[str, Any] = {
                "reduced": names,
                "reductions": ("mean", "abs_max"),
                "matrix": matrix,
            }
            writer.add(record(step, tensors={}, **parts))
            flushed(writer, step + 1)
        writer.close(end_marker=i == 1)
    trial = create_trial(str(tmp_path))
    assert trial.cube(["b", "a"], "mean").values.tolist() == [[0, 0], [10, 1], [20, 2], [30, 3]]
    assert trial.cube(["a"], "max", abs=True).values.tolist() == [[1]] * 4
    assert trial.cube(["a"], "mean", worker="worker_1").values[0, 0] == 100


def test_many_tensors_of_several_kinds_in_one_file_each_get_their_own_figures(tmp_path):
    """Neighbours in the file are read together; names are not in the file's order."""
    names = [f"layer{i}" for i in range(30)]
    with writer_to(tmp_path) as writer:
        for step in range(3):
            tensors: dict[str, Any] = {
                name: np.full((2, 3) if i % 7 else 4, 100 * step + i, "f4" if i % 5 else "f8")
                for i, name in enumerate(names)
            }
            tensors["twin"] = tensors["layer3"]
            if step == 1:
                del tensors["layer20"]
            writer.add(record(step, tensors=tensors))
    cube = create_trial(str(tmp_path)).cube(["twin", *names], "mean")
    expected = [[100.0 * step + i for i in (3, *range(30))] for step in range(3)]
    expected[1][21] = np.nan
    np.testing.assert_array_equal(cube.values, expected)
    assert not cube.saved[1, 21]
    assert cube.saved.sum() == 3 * 31 - 1


def test_a_cube_after_a_step_touches_no_earlier_file(tmp_path):
    writer = writer_to(tmp_path)
    for step in range(4):
        matrix = np.array([[float(step)]])
        parts: dict[str, Any] = {"reduced": ("a",), "reductions": ("mean",), "matrix": matrix}
        writer.add(record(step, float(step), mode="EVAL" if step == 2 else "TRAIN", **parts))
        flushed(writer, step + 1)
    trial = create_trial(str(tmp_path))
    until(lambda: len(trial.steps()) == 4)
    for path in sorted(tmp_path.glob("segments/*/*"))[:2]:
        path.unlink()
    cube = trial.cube(["a", "w"], after_step=1)
    assert cube.steps == (2, 3)
    assert cube.values.tolist() == [[2, 2], [3, 3]]
    assert trial.cube(["a"], mode=modes.TRAIN, after_step=1).steps == (3,)
    assert trial.cube(["a"], after_step=3).values.shape == (0, 1)
    writer.close()
    assert trial.cube(["a"], after_step=99).steps == ()


@pytest.mark.parametrize(
    "name", ["min", "max", "mean", "std", "variance", "sum", "prod", "median", "l1", "l2"]
)
def test_reductions_are_those_of_torch(name):
    torch = pytest.importorskip("torch", reason="torch is the reference")
    values = np.random.default_rng(0).standard_normal((3, 4, 6))
    flat = torch.from_numpy(values).reshape(3, -1)
    expected = {
        "min": flat.min(1).values,
        "max": flat.max(1).values,
        "mean": flat.mean(1),
        "std": flat.std(1),
        "variance": flat.var(1),
        "sum": flat.sum(1),
        "prod": flat.prod(1),
        "median": flat.median(1).values,
        "l1": flat.norm(1, 1),
        "l2": flat.norm(2, 1),
    }[name]
    np.testing.assert_allclose(reduce_rows(values, name), expected.numpy())
    np.testing.assert_allclose(
        reduce_rows(values, f"abs_{name}"), reduce_rows(np.abs(values), name)
    )


@pytest.mark.parametrize("name", ["min", "mean", "std", "l2", "median", "sum"])
def test_reductions_of_nothing_and_of_nan_are_defined_and_silent(name):
    empty = reduce_rows(np.empty((2, 0)), name)
    assert empty.tolist() == [0, 0] if name in ("sum", "l2") else np.isnan(empty).all()
    assert np.isnan(reduce_rows(np.array([[1.0, np.nan]]), name)).all()
    assert np.isnan(reduce_rows(np.ones((1, 1)), "std")).all()


def test_reductions_take_every_type():
    assert reduce_rows(np.array([[True, False]]), "sum").tolist() == [1]
    assert reduce_rows(np.array([[200, 100]], np.uint8), "sum").tolist() == [300]
    assert reduce_rows(np.array([[3 + 4j]]), "l2").tolist() == [5]
    assert reduce_rows(np.array([[-128, 3]], np.int8), "abs_max").tolist() == [128]
    assert reduce_rows(np.array([[True, False, True]]), "median").tolist() == [1]
    half = np.full((2, 4000), 60, np.float16)
    assert reduce_rows(half, "sum").tolist() == [240_000, 240_000]
    assert reduce_rows(half, "l2").tolist() == pytest.approx([60 * 4000**0.5] * 2)
    assert reduce_rows(np.full((1, 4), 1e30, np.float32), "l2").tolist() == pytest.approx([2e30])


def test_the_table_has_a_row_for_each_tensor(trial):
    rows = {row.name: row for row in tensor_table(trial)}
    assert list(rows) == trial.tensor_names()
    weight = rows["Net_fc.weight"]
    assert (weight.shape, weight.dtype, weight.num_steps, weight.step) == ((3, 8), "float32", 5, 8)
    assert weight.max == pytest.approx(float(trial.tensor("Net_fc.weight").value(8).max()))
    assert rows["relu_output_0"].shape is None
    assert rows["relu_output_0"].l2 == pytest.approx(
        float(trial.tensor("relu_output_0").reduction_value(8, "l2"))
    )
    assert rows["conv1_output_0"].shape == (2, 2, 2, 2)
    assert rows["conv1_output_0"].mean is None
    loss = rows["CrossEntropyLoss_output_0"]
    assert loss.mean is not None
    assert loss.std is None  # a single element has none


def test_the_table_of_a_collection_at_a_step(trial):
    rows = tensor_table(trial, collection="gradients", step=2)
    assert [row.step for row in rows] == [2, 2, 2, 2]
    assert rows[0].name == "gradient/Net_conv1.bias"
    assert tensor_table(trial, step=1) == []


def check_frame(columns: dict[str, list[Any]], trial: Trial) -> None:
    rows = list(
        zip(columns["tensor"], columns["step"], columns["l2"], columns["value"], strict=True)
    )
    by_key = {(tensor, step): (l2, value) for tensor, step, l2, value in rows}
    assert by_key["relu_output_0", 3][0] == pytest.approx(0.4575638)
    assert by_key["scalar/accuracy", 6][1] == 0.25
    assert set(columns["mode"]) == {"TRAIN", "EVAL"}
    assert set(columns["worker"]) == {"worker_0"}
    assert "abs_mean" in columns


def test_the_trial_as_a_pandas_frame(trial):
    pytest.importorskip("pandas", reason="pandas is in the analysis extra")
    frame = trial.to_pandas()
    check_frame(frame.to_dict("list"), trial)
    losses = frame[frame.tensor == "CrossEntropyLoss_output_0"].set_index("step").value
    assert losses[6] == pytest.approx(float(trial.tensor("CrossEntropyLoss_output_0").value(6)))


def test_the_trial_as_a_polars_frame(trial):
    pytest.importorskip("polars", reason="polars is in the analysis extra")
    check_frame(trial.to_polars().to_dict(as_series=False), trial)


def test_losses_and_scalars_are_drawn_over_their_steps(trial):
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is in the analysis extra")
    matplotlib.use("Agg")
    axes = trial.plot()
    drawn = {line.get_label(): line.get_xdata().tolist() for line in axes.get_lines()}
    assert drawn["CrossEntropyLoss_output_0"] == [0, 2, 3, 6, 8]
    assert drawn["scalar/accuracy"] == [0, 2, 6, 8]
    again = trial.plot("^gradient/", "l2", mode=modes.TRAIN)
    assert len(again.get_lines()) == 4
    assert len(trial.plot(collection="weights", ax=again).get_lines()) == 6
    matplotlib.pyplot.close("all")


def test_of_many_lines_the_legend_names_the_first_and_the_last():
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is in the analysis extra")
    matplotlib.use("Agg")
    names = tuple(f"gradient/{number}" for number in range(40))
    saved = np.ones((2, 40), bool)
    axes = plot_cube(Cube((0, 1), names, np.ones((2, 40)), saved), "job", "l2")
    named = [text.get_text() for text in axes.get_legend().get_texts()]
    assert named == ["gradient/0", "gradient/39"]
    assert len({tuple(line.get_color()) for line in axes.get_lines()}) == 40
    matplotlib.pyplot.close("all")


def test_what_is_not_installed_is_named_with_the_way_to_get_it(trial, monkeypatch):
    for library in ("pandas", "polars", "matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, library, None)
    for call, library in (
        (trial.to_pandas, "pandas"),
        (trial.to_polars, "polars"),
        (trial.plot, "matplotlib"),
    ):
        with pytest.raises(ImportError, match=rf"{library}.*trackside\[analysis\]"):
            call()
