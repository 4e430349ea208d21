"""Names say what runs and when, and are always valid."""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.records.spec import JOB_NAME
from trackside.sdk.naming import base_of, name_problems
from trackside.texts.unique_names import unique_name

NOON = datetime(2026, 11, 15, 12, 0, 1, 45_678, tzinfo=UTC)


def test_a_name_has_the_base_and_the_moment():
    assert unique_name("train", NOON) == "train-2026-11-15-12-00-01-045"


def test_a_long_base_is_cut_to_63_characters():
    name = unique_name("a" * 38 + "-" + "b" * 100, NOON)
    assert name == "a" * 38 + "-2026-11-15-12-00-01-045"


@given(st.text(max_size=100))
def test_any_base_makes_a_valid_name(base: str):
    assert re.fullmatch(JOB_NAME, unique_name(base, NOON))


@pytest.mark.parametrize(
    ("entry_point", "image", "base"),
    [
        ("scripts/pytorch_mnist.py", None, "pytorch_mnist"),
        ("train", None, "train"),
        (None, "1234.dkr.ecr.eu.amazonaws.com/team/pytorch-training:2.1-cpu", "pytorch-training"),
        (None, "tf-2.0", "tf-2.0"),
        (None, None, ""),
    ],
)
def test_the_base_comes_from_the_script_or_the_image(
    entry_point: str | None, image: str | None, base: str
):
    assert base_of(entry_point, image) == base


@pytest.mark.parametrize("name", ["train", "my_run.v2", "a" * 63, "a_" * 20 + "b"])
def test_a_name_may_have_dots_and_underscores_between_its_words(name: str):
    assert [*name_problems(name)] == []


@pytest.mark.parametrize("name", ["_a", "a.", "a b", "a" * 64, "a/../b"])
def test_what_a_name_may_be_is_reported(name: str):
    (problem,) = name_problems(name)
    assert problem.value == name
    assert "1 to 63 letters and digits, with - . _ between them" in problem.advice


def test_a_name_that_is_too_long_on_the_wire_is_reported_by_how_much():
    (problem,) = name_problems("a" * 60 + ".b")
    assert problem.advice.startswith("is 3 characters too long: ")
