"""The reading API, on a trial that smdebug 1.0.34 wrote and on the same content in our format."""

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.capture.trials import EXPECTED, SMDEBUG_TRIAL, write_the_same
from trackside.capture.exceptions import (
    IndexReaderException,
    InvalidWorker,
    MissingCollectionFiles,
    NoMoreData,
    ShapeUnavailableForStep,
    SMDebugNotImplementedError,
    SMDebugValueError,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)
from trackside.capture.modes import ModeKeys, modes
from trackside.capture.reading.step_table import StepState
from trackside.capture.trial import Trial, create_trial

GRADIENT = "gradient/Net_conv1.weight"
WEIGHT = "Net_fc.weight"
LOSS = "CrossEntropyLoss_output_0"


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ours")
    write_the_same(str(folder / "trial"), folder)
    return folder / "trial"


@pytest.fixture(params=["smdebug", "trackside"])
def path(request: pytest.FixtureRequest, ours: Path) -> Path:
    return SMDEBUG_TRIAL if request.param == "smdebug" else ours


@pytest.fixture
def trial(path: Path) -> Trial:
    return create_trial(str(path))


def test_the_analysis_of_the_documented_example_works(trial):
    assert trial.tensor_names() == EXPECTED["names"]
    assert trial.tensor_names(collection="losses") == [LOSS]


def test_everything_that_smdebug_reads_is_read_the_same(trial):
    for name, expected in EXPECTED["tensors"].items():
        tensor = trial.tensor(name)
        assert tensor.steps() == expected["steps"]
        for step in expected["steps"]:
            value, shape = expected["values"][str(step)], expected["shape"][str(step)]
            if isinstance(value, str):
                with pytest.raises(TensorUnavailableForStep):
                    tensor.value(step)
            else:
                np.testing.assert_array_equal(
                    tensor.value(step), np.array(value, expected["dtype"])
                )
                assert str(tensor.value(step).dtype) == expected["dtype"] == tensor.dtype(step)
            if isinstance(shape, str):
                with pytest.raises(ShapeUnavailableForStep):
                    tensor.shape(step)
            else:
                assert tensor.shape(step) == tuple(shape)
            stored = {
                f"{'abs_' if absolute else ''}{reduction}": float(figure)
                for (reduction, absolute), figure in tensor.reduction_values(step).items()
            }
            assert stored == expected["reductions"].get(str(step), {})


def test_collections_hold_what_smdebug_defines(trial):
    assert {k: trial.tensor_names(collection=k) for k in trial.collections()} == EXPECTED[
        "collections"
    ]
    assert trial.tensor_names(collection=trial.collection("weights")) == [
        "Net_conv1.weight",
        "Net_fc.weight",
    ]
    assert trial.tensor_names(collection="nobody made this") == []


def test_steps_are_counted_by_mode(trial):
    assert trial.steps() == [0, 2, 3, 6, 8]
    assert trial.steps(mode=modes.TRAIN) == [0, 2, 4]
    assert trial.steps(mode=modes.EVAL) == [0, 2]
    assert trial.steps(mode=modes.PREDICT) == []
    assert trial.modes() == [modes.TRAIN, modes.EVAL]
    assert trial.tensor(GRADIENT).steps(mode=modes.TRAIN) == [0, 2, 4]
    assert trial.tensor(GRADIENT).steps(mode=modes.EVAL) == []


def test_steps_convert_between_modes(trial):
    assert trial.mode(3) is ModeKeys.EVAL
    assert trial.mode_step(6) == 4
    assert trial.mode_modestep(8) == (ModeKeys.EVAL, 2)
    assert trial.global_step(modes.TRAIN, 4) == 6
    assert trial.mode(1) is None
    assert trial.mode_step(1) is None
    assert trial.global_step(modes.EVAL, 1) is None


def test_the_value_of_a_mode_step_is_that_of_its_global_step(trial):
    tensor = trial.tensor(WEIGHT)
    np.testing.assert_array_equal(tensor.value(2, mode=modes.EVAL), tensor.value(8))


def test_a_step_that_was_not_saved_is_unavailable(trial):
    for step in (1, 99):
        with pytest.raises(StepUnavailable) as caught:
            trial.tensor(WEIGHT).value(step)
        assert (caught.value.step, caught.value.mode) == (step, modes.GLOBAL)


def test_a_tensor_not_saved_at_a_saved_step_is_unavailable_for_that_step(trial):
    with pytest.raises(TensorUnavailableForStep) as caught:
        trial.tensor(GRADIENT).value(3)
    assert caught.value.has_reductions is False


def test_a_value_saved_as_reductions_only_points_to_them(trial):
    with pytest.raises(TensorUnavailableForStep, match="reduction_value") as caught:
        trial.tensor("relu_output_0").value(3)
    assert caught.value.has_reductions is True


def test_waiting_for_steps_of_a_finished_trial_returns_at_once(trial):
    trial.wait_for_steps([0, 8])
    trial.wait_for_steps([4], mode=modes.TRAIN)
    with pytest.raises(StepUnavailable):
        trial.wait_for_steps([1])
    with pytest.raises(NoMoreData) as caught:
        trial.wait_for_steps([99])
    assert (caught.value.step, caught.value.mode, caught.value.last_step) == (99, modes.GLOBAL, 8)


def test_step_states_of_a_finished_trial(trial):
    assert trial.has_passed_step(6) is StepState.AVAILABLE
    assert trial.has_passed_step(5) is StepState.UNAVAILABLE
    assert trial.has_passed_step(99) is StepState.UNAVAILABLE
    assert trial.loaded_all_steps


def test_previous_steps_include_the_step_itself(trial):
    tensor = trial.tensor(WEIGHT)
    assert tensor.prev_steps(6, 2) == [3, 6]
    assert tensor.prev_steps(7, 2) == [3, 6]
    assert tensor.prev_steps(6, None) == [0, 2, 3, 6]
    assert tensor.prev_steps(6, 99) == [0, 2, 3, 6]
    assert tensor.prev_steps(6, 0) == []
    assert tensor.prev_steps(3, 2, mode=modes.TRAIN) == [0, 2]


def test_values_come_by_step_of_the_mode(trial):
    tensor = trial.tensor(LOSS)
    assert list(tensor.values()) == [0, 2, 3, 6, 8]
    assert list(tensor.values(mode=modes.TRAIN)) == [0, 2, 4]
    assert tensor.values(mode=modes.EVAL)[2] == tensor.value(8)
    assert trial.tensor("relu_output_0").values() == {}


def test_a_value_is_the_callers_own(trial):
    value = trial.tensor(WEIGHT).value(0)
    value += 1
    assert not np.array_equal(value, trial.tensor(WEIGHT).value(0))


def test_names_by_step_and_mode(trial):
    assert GRADIENT not in trial.tensor_names(step=3)
    assert GRADIENT not in trial.tensor_names(mode=modes.EVAL)
    assert GRADIENT in trial.tensor_names(mode=modes.TRAIN)
    assert GRADIENT in trial.tensor_names(step=4, mode=modes.TRAIN)
    assert trial.tensor_names(step=1) == []
    assert trial.tensor_names(step=1, mode=modes.EVAL) == []
    assert trial.tensor_names(mode=modes.PREDICT) == []


def test_names_by_pattern(trial):
    assert trial.tensor_names(regex="^scalar/") == ["scalar/accuracy"]
    assert trial.tensor_names(regex=["^scalar/", "Loss"]) == [LOSS, "scalar/accuracy"]
    assert trial.tensor_names(regex="nothing is called this") == []
    with pytest.raises(ValueError, match="either"):
        trial.tensor_names(regex="a", collection="losses")


def test_an_unknown_name_is_unavailable(trial):
    assert trial.has_tensor(WEIGHT)
    assert not trial.has_tensor("nobody")
    with pytest.raises(TensorUnavailable) as caught:
        trial.tensor("nobody")
    assert caught.value.tname == "nobody"


def test_a_reduction_that_was_not_stored_is_computed_as_the_hook_would(trial):
    tensor = trial.tensor(WEIGHT)
    value = tensor.value(0).astype(np.float64)
    expected = {
        "min": value.min(),
        "max": value.max(),
        "mean": value.mean(),
        "std": value.std(ddof=1),
        "variance": value.var(ddof=1),
        "sum": value.sum(),
        "prod": value.prod(),
        "l1": np.abs(value).sum(),
        "l2": np.sqrt((value**2).sum()),
        "median": np.sort(value.ravel())[(value.size - 1) // 2],
    }
    for name, figure in expected.items():
        assert tensor.reduction_value(0, name) == pytest.approx(figure)
    assert tensor.reduction_value(0, "mean", abs=True) == pytest.approx(np.abs(value).mean())
    assert tensor.reduction_value(0, "abs_l1") == pytest.approx(expected["l1"])
    assert tensor.reduction_value(0, "l2_norm") == pytest.approx(expected["l2"])


def test_a_norm_of_more_than_two_dimensions_is_a_vector_norm(trial):
    tensor = trial.tensor("Net_conv1.weight")
    assert tensor.value(0).ndim == 4
    assert tensor.reduction_value(0, "l2") == pytest.approx(np.linalg.norm(tensor.value(0).ravel()))


def test_the_stored_reduction_and_the_computed_one_agree(trial):
    tensor = trial.tensor("gradient/Net_fc.weight")
    stored = tensor.reduction_values(0)
    value = tensor.value(0)
    assert stored["std", False] == pytest.approx(value.std(ddof=1), rel=1e-5)
    assert stored["l1", False] == pytest.approx(np.abs(value).sum(), rel=1e-5)


def test_an_unknown_reduction_is_refused_by_name(trial):
    with pytest.raises(SMDebugValueError, match="'mode'"):
        trial.tensor(WEIGHT).reduction_value(0, "mode")


def test_the_error_for_a_reduction_of_an_unsaved_step_has_the_reason(trial):
    with pytest.raises(StepUnavailable):
        trial.tensor(WEIGHT).reduction_value(1, "mean")
    with pytest.raises(TensorUnavailableForStep):
        trial.tensor(GRADIENT).reduction_values(3)


def test_shapes_by_step(trial):
    assert trial.tensor("conv1_output_0").shapes() == dict.fromkeys([0, 2, 3, 6, 8], (2, 2, 2, 2))
    assert trial.tensor(WEIGHT).shapes(mode=modes.EVAL) == {0: (3, 8), 2: (3, 8)}


def test_workers_are_named(trial):
    assert trial.workers() == ["worker_0"]
    assert trial.tensor(WEIGHT).workers(0) == ["worker_0"]
    np.testing.assert_array_equal(
        trial.tensor(WEIGHT).value(0, worker="worker_0"), trial.tensor(WEIGHT).value(0)
    )
    with pytest.raises(InvalidWorker, match="worker_9"):
        trial.tensor(WEIGHT).value(0, worker="worker_9")
    with pytest.raises(InvalidWorker):
        trial.tensor(WEIGHT).values(worker="worker_9")


def test_labels_are_found_by_name(trial):
    (labels,) = trial.labels(6)
    assert labels.tolist() == [0, 2]
    assert trial.inputs(6) == []
    assert trial.predictions(6) == []


@pytest.mark.parametrize(
    ("given", "steps"),
    [((2, 6), [2, 3]), ((None, 3), [0, 2]), ((3, None), [3, 6, 8]), (None, [0, 2, 3, 6, 8])],
)
def test_a_range_of_steps_hides_the_others(path, given, steps):
    trial = create_trial(str(path), range_steps=given)
    assert trial.steps() == steps
    assert trial.tensor(WEIGHT).steps() == steps
    assert list(trial.tensor(WEIGHT).values()) == steps
    assert trial.cube([WEIGHT]).steps == tuple(steps)
    for step in set(EXPECTED["steps"]) - set(steps):
        with pytest.raises(StepUnavailable):
            trial.tensor(WEIGHT).value(step)


def test_the_name_is_the_last_part_of_the_path(path):
    assert create_trial(f" {path}/ ").name == path.name
    assert create_trial(str(path), name="mine").name == "mine"


def test_options_of_smdebugs_reader_are_accepted_and_others_refused(path):
    create_trial(str(path), check=True, index_mode=False, cache=True, parallel=False)
    with pytest.raises(TypeError, match="'colour'"):
        create_trial(str(path), colour=1)
    with pytest.raises(SMDebugNotImplementedError, match="profiler"):
        create_trial(str(path), profiler=True)


def test_a_finished_trial_without_collections_is_an_error(tmp_path):
    (tmp_path / "training_job_end.ts").touch()
    with pytest.raises(MissingCollectionFiles, match="hook"):
        create_trial(str(tmp_path))


def test_a_value_and_its_shape_are_both_read_from_an_smdebug_trial(tmp_path):
    """smdebug's own reader loses the value of such a tensor."""
    copy = tmp_path / "trial"
    shutil.copytree(SMDEBUG_TRIAL, copy)
    file = copy / "index/000000000/000000000000_worker_0.json"
    content = json.loads(file.read_text())
    content["shape_payload"].append({"tensorname": WEIGHT, "originalname": WEIGHT, "shape": [3, 8]})
    file.write_text(json.dumps(content))
    tensor = create_trial(str(copy)).tensor(WEIGHT)
    assert tensor.shape(0) == (3, 8)
    assert tensor.value(0).shape == (3, 8)


@pytest.mark.parametrize("target", ["../../../etc/passwd", "/etc/passwd", "events/../x.tfevents"])
def test_an_index_that_leads_out_of_the_trial_is_left_out(tmp_path, caplog, target):
    copy = tmp_path / "trial"
    shutil.copytree(SMDEBUG_TRIAL, copy)
    file = copy / "index/000000000/000000000000_worker_0.json"
    content = json.loads(file.read_text())
    content["meta"]["event_file_name"] = target
    file.write_text(json.dumps(content))
    trial = create_trial(str(copy))
    assert trial.steps() == [2, 3, 6, 8]
    assert trial.torn_segments == ["index/000000000/000000000000_worker_0.json"]
    assert "000000000000_worker_0.json" in caplog.text


def test_a_cut_event_file_spoils_only_its_own_values(tmp_path):
    copy = tmp_path / "trial"
    shutil.copytree(SMDEBUG_TRIAL, copy)
    file = copy / "events/000000000002/000000000002_worker_0.tfevents"
    file.write_bytes(file.read_bytes()[:100])
    tensor = create_trial(str(copy)).tensor(WEIGHT)
    assert tensor.value(0).shape == (3, 8)
    for read in (tensor.value, tensor.shape, tensor.dtype):
        with pytest.raises(IndexReaderException):
            read(2)
    with pytest.raises(IndexReaderException):
        tensor.shapes()


def damaged_copy(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """smdebug's trial with another index file for step 0."""
    copy = tmp_path / "trial"
    shutil.copytree(SMDEBUG_TRIAL, copy)
    file = copy / "index/000000000/000000000000_worker_0.json"
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    return copy


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["meta"].update(mode_step=2**63),
        lambda content: content["meta"].update(mode="NONE"),
        lambda content: content.update(meta=[]),
        lambda content: content["tensor_payload"][0].update(tensorname=5),
        lambda content: content["tensor_payload"][-1].update(length=-1),
        lambda content: content["tensor_payload"][-1].update(start_idx=10**30),
        lambda content: content["shape_payload"].append({"tensorname": "x", "shape": 5}),
    ],
)
def test_an_index_with_impossible_values_is_skipped(tmp_path, change):
    trial = create_trial(str(damaged_copy(tmp_path, change)))
    assert trial.steps() == [2, 3, 6, 8]
    assert trial.torn_segments == ["index/000000000/000000000000_worker_0.json"]
    assert 0 not in trial.tensor(WEIGHT).steps(show_incomplete_steps=True)


def test_one_damaged_event_file_costs_a_cube_and_a_table_one_step(tmp_path, caplog):
    copy = tmp_path / "trial"
    shutil.copytree(SMDEBUG_TRIAL, copy)
    whole = create_trial(str(copy)).cube([WEIGHT])
    (copy / "events/000000000002/000000000002_worker_0.tfevents").write_bytes(b"")
    trial = create_trial(str(copy))
    cube = trial.cube([WEIGHT])
    at = whole.steps.index(2)
    assert cube.steps == whole.steps
    assert np.isnan(cube.values[at]).all()
    assert np.array_equal(np.delete(cube.values, at, 0), np.delete(whole.values, at, 0))
    assert not trial.to_pandas().empty
    assert "000000000002_worker_0.tfevents is damaged" in caplog.text


def test_a_collection_of_the_reader_s_own_is_kept(ours):
    trial = create_trial(str(ours))
    assert trial.tensor_names(collection="mine") == []
    assert "mine" not in trial.collections()
    trial.collection("mine").include("weight$")
    assert WEIGHT in trial.tensor_names(collection="mine")
    assert trial.collection("mine") is trial.collections()["mine"]


@pytest.mark.parametrize(
    "error",
    [
        NoMoreData(9, ModeKeys.TRAIN, 8),
        TensorUnavailableForStep("w", 3, ModeKeys.EVAL, has_reductions=True),
        MissingCollectionFiles("nothing there"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_crosses_processes_whole(error):
    """As those of smdebug do: data loaders and pools hand them on pickled."""
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)
