import pytest

from trackside.capture.exceptions import SMDebugError, SMDebugTypeError, SMDebugValueError
from trackside.capture.selection.collection import (
    Collection,
    CollectionKeys,
    CollectionManager,
    flatten_names,
)
from trackside.capture.selection.reduction_config import ReductionConfig
from trackside.capture.selection.save_config import SaveConfig, SaveConfigMode


def test_json_comes_back_as_the_same_collection():
    collection = Collection(
        "mine",
        include_regex=["relu"],
        tensor_names=["b", "a"],
        reduction_config=ReductionConfig(["min"]),
        save_config=SaveConfig(save_interval=3),
        save_histogram=False,
        exclude_regex=["input"],
    )

    assert collection.to_json_dict()["tensor_names"] == ["a", "b"]
    assert Collection.from_json(collection.to_json()) == collection


def test_patterns_may_be_added_one_or_many_and_are_kept_once():
    collection = Collection("mine", include_regex="relu")
    collection.include("conv")
    collection.include(["conv", "fc"])

    assert collection.include_regex == ["relu", "conv", "fc"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda c: c.include(5), SMDebugTypeError),
        (lambda c: c.include("(unclosed"), SMDebugValueError),
        (lambda c: setattr(c, "tensor_names", "a"), SMDebugTypeError),
        (lambda c: setattr(c, "reduction_config", 5), SMDebugTypeError),
        (lambda c: setattr(c, "save_config", 5), SMDebugTypeError),
    ],
)
def test_a_wrong_value_is_refused(change, error):
    with pytest.raises(error):
        change(Collection("mine"))


def test_a_save_config_mode_counts_for_all_modes():
    collection = Collection("mine", save_config=SaveConfigMode(save_interval=4))

    assert collection.save_config == SaveConfig(save_interval=4)


def test_the_manager_creates_on_demand_unless_switched_off():
    manager = CollectionManager()

    assert manager.get("mine").name == "mine"
    with pytest.raises(SMDebugError, match="'yours'"):
        manager.get("yours", create=False)
    with pytest.raises(SMDebugTypeError):
        manager.add(5)  # type: ignore[arg-type]


def test_losses_are_never_reduced_and_others_take_the_hooks_settings():
    manager = CollectionManager()
    reduced = ReductionConfig(["min"])
    manager.get(CollectionKeys.LOSSES).reduction_config = reduced
    manager.fill(SaveConfig(save_interval=9), reduced)

    assert manager.get("losses").reduction_config == ReductionConfig(save_raw_tensor=True)
    assert manager.get("weights").reduction_config == reduced
    assert manager.get("weights").save_config == SaveConfig(save_interval=9)


def test_the_file_has_smdebugs_form():
    file = CollectionManager().to_json_dict()

    assert file["_meta"] == {"num_workers": 1}
    assert file["collections"]["gradients"]["include_regex"] == ["^gradient"]


def test_nested_names_are_flattened_once_each():
    assert flatten_names(["a", ["b", ("a", Collection("c"))]]) == ["a", "b", "c"]
    with pytest.raises(SMDebugTypeError):
        flatten_names([5])


def test_names_are_added_and_removed_one_by_one():
    collection = Collection("mine", tensor_names=["a"])
    collection.add_tensor_name("b")
    collection.remove_tensor_name("a")
    collection.remove_tensor_name("never there")

    assert not collection.has_tensor_name("a")
    assert collection.tensor_names == {"b"}


def test_the_usual_names_are_smdebug_s():
    keys = {key: value for key, value in vars(CollectionKeys).items() if key.isupper()}

    assert {value: key.lower() for key, value in keys.items()} == {v: v for v in keys.values()}
    assert set(keys) == {
        *("DEFAULT", "ALL", "INPUTS", "OUTPUTS", "WEIGHTS", "GRADIENTS", "LOSSES", "BIASES"),
        *("LAYERS", "METRICS", "SM_METRICS", "OPTIMIZER_VARIABLES", "TENSORFLOW_SUMMARIES"),
        *("HYPERPARAMETERS", "PREDICTIONS", "LABELS", "FEATURE_IMPORTANCE", "AVERAGE_SHAP"),
        *("FULL_SHAP", "TREES"),
    }
