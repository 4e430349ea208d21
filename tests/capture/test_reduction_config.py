import pytest

from trackside.capture.exceptions import SMDebugValueError
from trackside.capture.selection.reduction_config import ReductionConfig


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("min,max", ("min", "max")),
        (" mean , abs_mean", ("mean", "abs_mean")),
        ("l1_norm,abs_l2_norm", ("l1", "abs_l2")),
        ("l1,abs_l1,median", ("median", "l1", "abs_l1")),
        ("", ()),
    ],
)
def test_the_comma_list_gives_the_stored_names(text, columns):
    config = ReductionConfig.from_dict({"reductions": text})

    assert config is not None
    assert config.columns == columns


@pytest.mark.parametrize("text", ["mode", "abs_", "min_norm", "l3", "abs_abs_min"])
def test_an_unknown_reduction_is_refused_with_the_known_ones(text):
    with pytest.raises(SMDebugValueError, match=rf"{text!r}.*variance"):
        ReductionConfig.from_dict({"reductions": text})


@pytest.mark.parametrize(
    "arguments",
    [
        {"reductions": ["mode"]},
        {"reductions": "min"},
        {"abs_reductions": ["l1"]},
        {"norms": ["min"]},
        {"abs_norms": ["l3"]},
        {"save_raw_tensor": "True"},
        {"save_shape": 1},
    ],
)
def test_a_wrong_argument_is_refused(arguments):
    with pytest.raises(SMDebugValueError):
        ReductionConfig(**arguments)


def test_json_comes_back_as_the_same_configuration():
    config = ReductionConfig(["min"], ["max"], ["l1"], ["l2"], save_raw_tensor=True)

    assert config.to_json_dict() == {
        "save_raw_tensor": True,
        "reductions": "min,l1_norm,abs_max,abs_l2_norm",
        "save_shape": False,
    }
    assert ReductionConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(("given", "expected"), [("True", True), ("false", False), (True, True)])
def test_flags_may_be_the_strings_the_api_carries(given, expected):
    config = ReductionConfig.from_dict({"save_raw_tensor": given, "save_shape": given})

    assert config == ReductionConfig(save_raw_tensor=expected, save_shape=expected)
