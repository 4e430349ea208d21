"""What `log` takes for a number, and what it says of the rest."""

import math
from typing import Any

import numpy
import pytest
import torch

from trackside.inside.values import flattened, shown, whole


def logged(values: dict[Any, Any]) -> tuple[dict[str, float], dict[str, str]]:
    refused: dict[str, str] = {}
    found = dict(flattened(values, refused.__setitem__))
    return found, refused


def test_nested_names_are_joined():
    found, refused = logged({"loss": 1, "val": {"loss": 2.5, "top": {1: 0.5}}})
    assert found == {"loss": 1.0, "val/loss": 2.5, "val/top/1": 0.5}
    assert refused == {}


@pytest.mark.parametrize(
    "value",
    [
        2,
        2.0,
        numpy.float32(2),
        numpy.int64(2),
        numpy.array(2.0),
        numpy.array([2.0]),
        torch.tensor(2),
        torch.tensor([2.0], dtype=torch.bfloat16),
        torch.nn.Parameter(torch.tensor(2.0)) * 1,
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("error")
def test_numbers_of_all_kinds(value: Any):
    """Also a loss that still has its graph, of which `float` warns."""
    assert logged({"loss": value}) == ({"loss": 2.0}, {})


def test_a_bool_is_a_number():
    assert logged({"best": True}) == ({"best": 1.0}, {})


def test_what_is_not_finite_is_logged():
    found, refused = logged({"nan": float("nan"), "inf": torch.tensor(float("-inf"))})
    assert math.isnan(found["nan"])
    assert found["inf"] == -math.inf
    assert refused == {}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("0.5", "'0.5' is not a number"),
        (None, "None is not a number"),
        (1j, "1j is not a number"),
        ([0.5], "[0.5] is not a number"),
        (numpy.zeros(3), "has the shape (3,); log one number"),
        (torch.zeros(2, 2), "has the shape (2, 2); log one number"),
        (torch.zeros((), device="meta"), "is not a number"),
        (10**400, "is too large for a curve"),
    ],
    ids=repr,
)
def test_what_is_no_number_is_named_and_the_rest_stands(value: Any, problem: str):
    found, refused = logged({"wrong": {"one": value}, "loss": 1})
    assert found == {"loss": 1.0}
    assert [*refused] == ["wrong/one"]
    assert problem in refused["wrong/one"]


@pytest.mark.parametrize("step", [7, 7.0, numpy.int32(7), torch.tensor(7), numpy.float64(7)])
def test_whole_steps(step: Any):
    assert whole(step) == 7


@pytest.mark.parametrize("step", [-1, 7.5, "7", float("nan"), float("inf"), 2**63, (7,)])
def test_what_is_no_step(step: Any):
    with pytest.raises(ValueError, match="is not a non-negative whole number"):
        whole(step)


def test_a_value_is_shown_in_a_line_of_bounded_length():
    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError

    assert shown("a" * 200).endswith("…")
    assert "\n" not in shown(numpy.zeros((4, 4)))
    assert shown(Bad()).startswith("<tests.inside.test_values")
